"""What a client does with a message that somebody changed on its way: orders signed by the server, and near misses."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.fuzz.clients import federation_key
from tests.fuzz.folders import Scratch
from tests.fuzz.harness import Choices, Harness, Reader, promise

from steadfed.errors import ParameterError, SignatureError

_ORDERED: dict[str, Any] = {"round": 3, "local-steps": 5, "lr": 0.5, "batch-size": 0, "seed": 1, "steadfed-secret": "a"}
_NODE, _RUN = 7, 1


def _message(choices: Choices) -> Any:
    """Return the order of the server as the choices leave it; no choice leaves it as it is."""
    import time

    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

    from steadfed.flower._npy import model_digest
    from steadfed.flower._orders import ORDER, Order, described

    arrays = ArrayRecord({"weight": Array(np.ones(3, np.float32))})
    config = ConfigRecord(dict(_ORDERED))
    now = time.time()
    order = Order(
        run=str(_RUN),
        kind="train",
        round=3,
        client=str(_NODE),
        model=model_digest(arrays),
        config=described(config),
        issued=now,
        expires=now + 600,
    )
    text = order.sealed(federation_key())
    kind = choices.below(8)
    changed: Any
    if kind == 1:
        changed = choices.pick((choices.whole, choices.text))()
        config[choices.pick((*_ORDERED, choices.text()))] = changed
    elif kind == 2:
        del config[choices.pick(list(_ORDERED))]
    elif kind == 3:
        place = int.from_bytes(choices.take(2), "little") % len(text)
        text = text[:place] + choices.text() + text[place + choices.below(5) :]
    elif kind == 4:
        text = choices.text()
    elif kind == 5:
        arrays[choices.pick(("weight", "", choices.text()))] = Array(
            choices.pick(("float32", ">f4", "object", "O")),
            tuple(choices.whole() for _ in range(choices.below(4))),
            choices.pick(("numpy.ndarray", choices.text())),
            choices.sized(),
        )
    elif kind == 6:
        changed = choices.pick(([1, 2], b"", float("inf"), True, 1e-300))
        config[choices.text()] = changed
    config[ORDER] = text
    content = RecordDict({"arrays": arrays, "config": config})
    if kind == 7:
        changed = copy.deepcopy(choices.pick((arrays, config)))
        content[choices.text()] = changed
    return Message(content, dst_node_id=_NODE, message_type=choices.pick(("train", "train", "evaluate", "query")))


def _read_messages() -> Reader:
    from flwr.app import Context, RecordDict
    from tests.flower.grids import identify

    from steadfed.flower._acceptance import KEY, accept
    from steadfed.flower._npy import model_digest

    identify(run_id=_RUN, node_id=_NODE)
    known = Scratch().file("server.pem", federation_key().public.to_pem())

    def read(data: bytes) -> None:
        choices = Choices(data)
        message = _message(choices)
        node = choices.pick((_NODE, _NODE, 8))
        context = Context(_RUN, node, {KEY: str(known)}, RecordDict(), {})
        order = accept(message, context)
        promise(order is not None and node == _NODE and message.metadata.message_type == "train", "another's order")
        if order is not None:
            promise(model_digest(message.content["arrays"]) == order.model, "another model")
        told = dict(message.content["config"])
        told.pop("steadfed-order")
        promise({key: repr(each) for key, each in told.items()} == {k: repr(v) for k, v in _ORDERED.items()}, f"{told}")

    return read


def _choices() -> Iterator[bytes]:
    yield b""
    for kind in range(1, 8):
        yield bytes([kind, 0, 1, 2, 3, 4, 5, 6, 7, 8])
        yield bytes([kind]) + bytes(range(40, 90))


ORDERS = (
    Harness(
        name="order",
        reader=_read_messages,
        seeds=_choices,
        refusals=(ParameterError, SignatureError),
        words=("steadfed-order", "steadfed-secret", "local-steps", '"sig":"', "payload"),
        longest=1024,
    ),
)
