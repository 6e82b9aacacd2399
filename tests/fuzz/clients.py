"""What reads what clients send: arrays, replies, the objects a reply is put together from, orders, envelopes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
from tests.fuzz.harness import Choices, Harness, Reader, promise, sized

from steadfed.errors import ParameterError, ReplyError, SignatureError

_DTYPES = ("<f4", "<f8", ">f4", "<f2", "|O", "<i8", "|b1", "<c8", "<U9", "|V4", "<M8[s]", "[('a','<f4')]", "float32")
_HEADER = ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "'descr'", "'fortran_order'", "'shape'", "True")


def _npy(value: Any, version: tuple[int, int] = (1, 0)) -> bytes:
    import io

    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(value), version, allow_pickle=False)
    return file.getvalue()


def _npy_files() -> Iterator[bytes]:
    """Yield three choices (which array of the model, whether to convert, what is said to come) and an array each."""
    for dtype, said in (("<f4", 0), ("<f8", 1), (">f4", 3), ("<f2", 2)):
        yield bytes([0, 1, said]) + _npy(np.arange(3).astype(dtype))
    yield bytes([3, 0, 0]) + _npy(np.arange(3))
    yield bytes([4, 0, 0]) + _npy(np.zeros((0,), np.float32))
    yield bytes([1, 0, 0]) + _npy(np.asfortranarray(np.ones((2, 3))), (2, 0))
    yield bytes([2, 0, 0]) + _npy(np.array(1.0, np.float16), (3, 0))
    for text in ("{'descr': '<f4', 'fortran_order': False, 'shape': (1" + "0" * 60 + ",)}", "[" * 900, "-" * 1500):
        yield b"\0\0\0\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(12)


def _read_arrays() -> Reader:
    from flwr.app import Array

    from steadfed.flower._replies.npy import read_array
    from steadfed.states._arrays import ArraySpec, Kind

    specs = [
        ArraySpec("a", (3,), "float32", Kind.PARAMETER, 0),
        ArraySpec("b", (2, 3), "float64", Kind.PARAMETER, 0),
        ArraySpec("c", (), "float16", Kind.FLOAT_BUFFER, 0),
        ArraySpec("d", (3,), "int64", Kind.OTHER_BUFFER),
        ArraySpec("e", (0,), "float32", Kind.PARAMETER, 0),
    ]

    def read(data: bytes) -> None:
        choices, content = Choices(data[:3]), data[3:]
        spec, convert = choices.pick(specs), bool(choices.below(2))
        said = choices.pick((str(spec.dtype), "float64", "float16", ">f4", "object"))
        values = read_array(Array(said, spec.shape, "numpy.ndarray", content), spec, convert=convert)
        promise(values.shape == spec.shape, f"shape {values.shape} instead of {spec.shape}")
        promise(values.dtype == spec.held or (convert and values.dtype.kind == "f"), f"dtype {values.dtype}")
        promise(not values.flags.writeable or not values.size, "the numbers are a copy")

    return read


def _read_replies() -> Reader:
    from flwr.app import Array, ArrayRecord

    from steadfed.flower._metrics import scalars_of
    from steadfed.flower._records import layout_of
    from steadfed.flower._replies.validator import ReplyValidator

    model: dict[str, Any] = {
        "weight": np.ones((2, 3), np.float32),
        "bn.running_var": np.ones(2, np.float64),
        "steps": np.array(7),
    }
    layout = layout_of(ArrayRecord({name: Array(each) for name, each in model.items()}))
    validators = [ReplyValidator(layout, convert_dtypes=convert) for convert in (False, True)]
    row = np.empty(layout.dim, np.float32)

    def read(data: bytes) -> None:
        choices = Choices(data)
        validator = choices.pick(validators)
        content = _reply(choices, model)
        for name, value in scalars_of(content).items():
            promise(bool(np.isfinite(value)) and name.isprintable(), f"the metric {name!r} is {value}")
        buffers = validator.admit(content, row)
        promise(bool(np.isfinite(row).all()), "a row that is not finite")
        promise({spec.name for spec in layout.buffers} == set(buffers), "other buffers")
        for spec in layout.buffers:
            buffer = buffers[spec.name]
            promise(buffer.shape == spec.shape and buffer.dtype == spec.held, f"{spec.name} is {buffer.dtype}")
            promise(bool(np.isfinite(buffer).all()), f"{spec.name} is not finite")

    return read


def _reply(choices: Choices, model: dict[str, Any]) -> Any:
    """Return what the choices make of an honest reply; no choice leaves it honest."""
    from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

    content = RecordDict()
    arrays = ArrayRecord()
    names = [*model, *(choices.text() for _ in range(choices.below(3)))][choices.below(2) :]
    for name in names:
        honest = model.get(name, np.ones(2, np.float32))
        vars(arrays)["_data"][name] = _array(choices, honest)
    content[choices.pick(("arrays", "model", ""))] = arrays
    for _ in range(choices.below(4)):
        key, kind = choices.text(), choices.pick((MetricRecord, ConfigRecord))
        values = {choices.text(): choices.pick((0.5, 10**400, float("nan"), -1, 3e38)) for _ in range(choices.below(5))}
        record = kind()
        vars(record)["_data"].update(values)
        content[key] = record
    return content


def _array(choices: Choices, honest: Any) -> Any:
    from flwr.app import Array

    array = Array(honest)
    kind = choices.below(6)
    if kind == 1:
        array.dtype = choices.pick(_DTYPES)
    elif kind == 2:
        array.shape = tuple(choices.whole() for _ in range(choices.below(5)))
    elif kind == 3:
        array.data = choices.sized()
    elif kind == 4:
        array.data = _npy(honest)[:-4] + choices.take(4)
    elif kind == 5:
        array.stype = choices.text()
    return array


def _replies() -> list[bytes]:
    return [b"", b"\1", bytes(20), *(bytes([0, 0, 0, kind, 1, 2, 3]) for kind in range(6)), bytes(range(40))]


def _object_id(place: int) -> str:
    return f"{place:064x}"


def _objects() -> Iterator[bytes]:
    """Yield whole replies as Flower takes them apart, with ids that stay the same whatever becomes of an object."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
    from tests.flower.grids import identify

    identify()
    arrays = ArrayRecord({"weight": Array(np.ones((2, 3), np.float32))})
    metrics = MetricRecord({"loss": 0.5, "losses": [0.5, 0.25], "num-examples": 10})
    for content in (
        RecordDict({"arrays": arrays, "metrics": metrics}),
        RecordDict({"arrays": arrays}),
        RecordDict({"config": ConfigRecord({"text": "words", "flag": True, "bytes": b"\0"})}),
        RecordDict(),
    ):
        message = Message(content, dst_node_id=7, message_type="train")
        message.metadata.__dict__["_message_id"] = message.object_id
        objects = get_all_nested_objects(message)
        order = [message.object_id, *(each for each in objects if each != message.object_id)]
        contents = [objects[each].deflate() for each in order]
        for place, each in enumerate(order):
            contents = [content.replace(each.encode(), _object_id(place).encode()) for content in contents]
        yield sized(*contents)


def _inflate() -> Reader:
    from flwr.app import Array, ArrayRecord, Message, RecordDict
    from flwr.supercore.inflatable import inflatable_utils
    from flwr.superlink.grid import http_grid
    from tests.flower.grids import ScriptedGrid, identify

    from steadfed.flower._metrics import scalars_of
    from steadfed.flower._nodes import Member, NodeDirectory
    from steadfed.flower._records import layout_of
    from steadfed.flower._replies.matcher import ReplyMatcher
    from steadfed.flower._replies.stream import replies_to
    from steadfed.flower._replies.validator import ReplyValidator

    identify()
    layout = layout_of(ArrayRecord({"weight": Array(np.ones((2, 3), np.float32))}))
    validator, row = ReplyValidator(layout), np.empty(layout.dim, np.float32)

    class Grid(ScriptedGrid):  # type: ignore[misc]  # a grid whose wire holds what the input says
        contents: dict[str, bytes]

        def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
            pulled = vars(http_grid)["pull_objects"](list(self.contents), lambda each: self.contents[each])
            reply = cast("Message", inflatable_utils.inflate_object_from_contents(_object_id(0), pulled))
            # Only what claims to be the right answer of the right node is looked at any further.
            (asked,) = message_ids
            reply.metadata.__dict__ |= {"_message_id": _object_id(0), "_reply_to_message_id": asked, "_src_node_id": 7}
            return [reply]

    def read(data: bytes) -> None:
        choices = Choices(data)
        grid = Grid(lambda _node, _message: None, [7])
        grid.contents = {_object_id(place): choices.sized() for place in range(40) if choices.left}
        sent = [Message(RecordDict(), dst_node_id=7, message_type="train")]
        matcher = ReplyMatcher([Member("seven", 7)], sent, NodeDirectory.of({7: "seven"}))
        for reply in replies_to(grid, sent, timeout=10.0, limit=1 << 16):
            place = matcher.place(reply)
            promise(place == 0, "the reply is nobody's")
            content = matcher.content(0, reply)
            scalars_of(content)
            validator.admit(content, row)
            promise(bool(np.isfinite(row).all()), "a row that is not finite")

    return read


def _read_orders() -> Reader:
    import torch

    from steadfed.flower.client import ClientLimits, SeededBatches, local_steps

    keys = ("local-steps", "batch-size", "seed", "round", "lr", "server-round")
    honest = {"local-steps": 1, "batch-size": 2, "seed": 0, "round": 0, "lr": 0.5, "server-round": 1}
    points, labels, limits = torch.ones(3, 2), torch.zeros(3, dtype=torch.int64), ClientLimits(steps=8, lr=10.0)
    model = torch.nn.Linear(2, 2)
    odd = (float("nan"), float("inf"), -0.5, 1e308, True, "1", b"1", [1, 2], 2**63, 10**30, 0)

    def read(data: bytes) -> None:
        choices = Choices(data)
        config: dict[str, Any] = dict(honest)
        for _ in range(choices.below(7)):
            key = choices.pick(keys)
            value = choices.pick((choices.whole, lambda: choices.pick(odd), choices.text))()
            config[key] = value
        if choices.below(4) == 3:
            del config[choices.pick(keys)]
        batches = SeededBatches(points, labels, client=choices.below(4))
        given = list(batches.batches_for(config, limits=limits))
        promise(len(given) == config["local-steps"] <= limits.steps, "another number of batches")
        local_steps(model, given, config, limits=limits)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)

    return read


_STATEMENT = "application/vnd.example+json"


def federation_key() -> Any:
    """Return a key that is the same in every process."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from steadfed._core.signatures import SigningKey

    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


def _envelopes() -> Iterator[bytes]:
    for payload in (b"{}", b'{"round": 3, "steps": 5}', b""):
        yield federation_key().seal(_STATEMENT, payload).to_json().encode()
    yield b'{"payload":"","payloadType":"","signatures":[{"sig":""}]}'
    yield b"[" * 3000


def _read_envelopes() -> Reader:
    from steadfed._core.signatures import Envelope

    key = federation_key().public
    signed = {b"{}", b'{"round": 3, "steps": 5}', b""}

    def read(data: bytes) -> None:
        envelope = Envelope.from_json(data)
        promise(Envelope.from_json(envelope.to_json()) == envelope, "written, it reads as another one")
        promise(envelope.open(key, _STATEMENT) in signed, "a statement that nobody signed")

    return read


def _tables_of_nodes() -> list[bytes]:
    return [b'{"17": "clinic", "4": "ward"}', b'{"17": 3}', b"{}", b"[]", b"[" * 3000, b'{"1":1,"01":2}', b"9" * 5000]


def _read_nodes() -> Reader:
    from tests.fuzz.folders import Scratch

    from steadfed.flower._nodes import NodeDirectory

    scratch = Scratch()

    def read(data: bytes) -> None:
        directory = NodeDirectory.of(scratch.file("nodes.json", data))
        promise(bool(directory.names), "a federation of nobody")
        promise(len(directory.members(directory.names or ())) == len(directory.names or ()), "somebody is lost")
        json.dumps({str(node): name for node, name in (directory.names or {}).items()})

    return read


CLIENTS = (
    Harness(
        name="npy-array", reader=_read_arrays, seeds=_npy_files, refusals=(ReplyError,), words=(*_DTYPES, *_HEADER)
    ),
    Harness(name="reply", reader=_read_replies, seeds=_replies, refusals=(ReplyError,), words=_HEADER, longest=1024),
    Harness(
        name="objects",
        reader=_inflate,
        seeds=_objects,
        refusals=(ReplyError,),
        words=("RecordDict", "ArrayRecord", "Array", "ArrayChunk", "MetricRecord", "ConfigRecord", "Message", "\0"),
    ),
    Harness(
        name="order-values",
        reader=_read_orders,
        seeds=lambda: [b"", b"\1\0\0\1", bytes(range(64))],
        refusals=(ParameterError,),
        longest=256,
    ),
    Harness(
        name="envelope",
        reader=_read_envelopes,
        seeds=_envelopes,
        refusals=(SignatureError,),
        words=('"payload"', '"payloadType"', '"signatures"', '"sig"', '"keyid"', "[", "{"),
    ),
    Harness(name="nodes", reader=_read_nodes, seeds=_tables_of_nodes, refusals=(ParameterError,), words=('":', "1e99")),
)
