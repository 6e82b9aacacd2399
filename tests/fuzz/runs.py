"""What reads the folder of a run, which may be a stranger's: records, configurations, states, summaries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tests.fuzz.folders import Scratch
from tests.fuzz.harness import Choices, Harness, Reader, promise, sized

from steadfed.errors import CorruptRunError, ParameterError, UnknownNameError

_NUMBERS = ("1e400", "-1", "NaN", "Infinity", "null", "9" * 400, "1" + "0" * 20, "true", '"\\u001b[2J"', "[", "{", "[]")
_FIELDS = ('"round":', '"cohort":', '"weights":', '"scores":', '"drops":', '"anchor":', '"coordinates":', '"metrics":')


def _records() -> list[bytes]:
    full = {
        "round": 0,
        "step": 5,
        "lr": 0.1,
        "cohort": [1, 2, "clinic"],
        "absent": ["clinic"],
        "received": [1, 2],
        "weights": [1.0, 0.0],
        "scores": [0.5, None],
        "kept": [1],
        "coordinates": {"number": 3, "seed": 7},
        "drops": [{"client": "clinic", "fault": "silent", "detail": "no reply"}],
        "anchor": {"spread": 1.0},
        "guard": {"alarm": False},
        "sketch": {"secret": 12},
        "certificate": {"error_bound": 0.5, "failure_probability": 0},
        "metrics": {"loss": 0.5},
        "seconds": {"round": 0.25},
        "test_loss": 0.5,
        "test_accuracy": 0.25,
        "update_norm": 1e-3,
    }
    skipped = {"round": 0, "step": 0, "lr": 0.1, "cohort": [1], "skipped": True, "reason": "nobody answered"}
    lines = [json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in (full, skipped)]
    return [*lines, lines[0].replace(b"0.5", b"1" * 400), b"[" * 3000, b'{"round":0}']


def _read_records() -> Reader:
    from steadfed.server._history.rounds import Rounds
    from steadfed.server._history.summary import summary_of
    from steadfed.server._record import RoundRecord

    def read(data: bytes) -> None:
        with suppress(UnicodeDecodeError):
            record = RoundRecord.from_line(data.decode())
            again = RoundRecord.from_line(record.to_line())
            promise(again == record, "written, it reads as another one")
            promise(again.to_line() == record.to_line(), "written twice, it is not the same")
            rounds = Rounds.of([record])
            json.dumps(summary_of(rounds), allow_nan=False)

    return read


def _folders() -> Iterator[bytes]:
    from steadfed.runs import config_to_toml
    from steadfed.simulation import RunConfig

    config = config_to_toml(RunConfig(rounds=1), {"torch": "2", "data_sha256": "0"}).encode()
    deployed = b'rounds = 2\n[rule]\nname = "rage"\n[provenance]\nflwr = "1.41"\n'
    done = (
        b'{"rounds": 1, "last": {"test_accuracy": 0.5, "test_loss": 0.1}, "best": {"test_accuracy": 0.5, "round": 0}}'
    )
    first = _records()[0]
    yield sized(config, first, done)
    yield sized(deployed, first + first.replace(b'"round":0', b'"round":1'), b"")
    yield sized(b"rounds = 1", b"".join(_records()), b"{}")
    yield sized(b"", b"\n", b"[]")
    yield sized(b"rounds = " + b"9" * 30, first[:-1], b"9" * 5000)


def _read_folders() -> Reader:
    from steadfed.reports._reporting import live_sections
    from steadfed.reports._sections.overview import overview
    from steadfed.reports._thinning import REPORT
    from steadfed.runs import config_of
    from steadfed.server._folder import RunFolder
    from steadfed.server._history import RunHistory, RunSummaries

    scratch = Scratch()

    def read(data: bytes) -> None:
        choices = Choices(data)
        for name in ("config.toml", "rounds.jsonl", "summary.json"):
            scratch.file(name, choices.sized())
        RunSummaries().summarize(scratch.path)
        history = RunHistory(scratch.path)  # whatever is there, it tells what can be read
        json.dumps(history.summary, allow_nan=False)
        promise(len(history.entries.client) == len(history.entries.round), "columns of different lengths")
        overview(history)
        live_sections([history], REPORT)
        with suppress(CorruptRunError):
            RunFolder.open(scratch.path).summary()
        with suppress(CorruptRunError):
            config_of(RunFolder.open(scratch.path))

    return read


def _configurations() -> Iterator[bytes]:
    from steadfed.runs import config_to_toml
    from steadfed.simulation import RunConfig

    yield config_to_toml(RunConfig()).encode()
    yield config_to_toml(RunConfig(local_steps=[1, 4, 2], rounds=30)).encode()
    yield b"seed = 1\nlr = 0.5\n[rule]\nname = 'nnm'\n[rule.rule]\nname = 'krum'\nnum_byzantine = 3\n"
    yield b"[attack]\nname = 'optimal'\n[attack.attack]\nname='alie'\n"
    yield b"local_steps = { name = 'uniform', lowest = 1, highest = 8 }\n[compression]\nname = 'coordinates'\n"
    yield b"[model]\nname = 'import'\nfactory = 'os:abort'\ncriterion = 'os:abort'\n[data]\nname = 'npz'\npath = '/x'\n"
    yield b"a" + b".a" * 300 + b" = 1"
    yield b"rounds = " + b"9" * 450 + b"\n[rule]\nname='rage'\nbyzantine_fraction = 1e400\n"
    yield b"x = " + b"[" * 1500


def _config_words() -> tuple[str, ...]:
    from steadfed.simulation import RunConfig
    from steadfed.simulation._tables import NAMED

    names = [name for registry in NAMED.values() for name in registry]
    return (*RunConfig.model_fields, *names, "name = ", "[rule]", "\n", "inf", "nan", "true", "{ name = ", "1e308")


def _read_raw_tables() -> Reader:
    from steadfed.server._history.files import in_words, is_deployed, raw_table

    def read(data: bytes) -> None:
        with suppress(UnicodeDecodeError):
            table = raw_table(data.decode())
            is_deployed(table)
            for value in table.values():
                in_words(value)
            promise(len(repr(table)) < 40 * len(data) + 100, "more than was written")

    return read


def _read_configurations() -> Reader:
    from tests.fuzz import guards

    from steadfed.runs import config_from_toml, config_to_toml

    def read(data: bytes) -> None:
        with suppress(UnicodeDecodeError), guards.no_code():
            config = config_from_toml(data.decode())
            written = config_to_toml(config)
            promise(config_from_toml(written) == config, "written, it reads as another one")
            repr(config)
            config.lr_of(0), config.steps_of(0), config.measures(0), config.local(), config.granted()

    return read


def _read_assignments() -> Reader:
    from steadfed.runs._files import parse_assignment, set_key

    def read(data: bytes) -> None:
        with suppress(UnicodeDecodeError):
            key, value = parse_assignment(data.decode())
            table: dict[str, Any] = {"rounds": 3, "rule": {"name": "rage"}, "lr": 0.1}
            set_key(table, key, value)
            at: Any = table
            for part in key.split("."):
                at = at[part]
            promise(at is value or at == {"name": value} or value != value, "the value is not where it was put")  # noqa: PLR0124

    return read


def _tensors() -> Iterator[bytes]:
    import torch

    from steadfed.server._tensors import to_bytes

    yield to_bytes({"model": torch.arange(3.0), "buffers": torch.zeros(0)})
    yield to_bytes({"rule/a b": torch.ones(2, 2, dtype=torch.float64), "counters/n": torch.tensor(7)})
    yield to_bytes({})
    head = b'{"model":{"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,8]}}'
    yield len(head).to_bytes(8, "little") + head + bytes(8)
    yield (2**62).to_bytes(8, "little") + b"{}"


def _read_tensors() -> Reader:
    import torch

    from steadfed.server._checkpoint import Checkpoint
    from steadfed.server._state import ServerState
    from steadfed.server._tensors import from_bytes, to_bytes

    def read(data: bytes) -> None:
        tensors = from_bytes(data)
        promise(sum(each.nbytes for each in tensors.values()) <= len(data), "more numbers than bytes")
        again = from_bytes(to_bytes(tensors))
        promise(list(again) == sorted(again) or set(again) == set(tensors), "other names")
        for name, tensor in tensors.items():
            same = again[name].dtype == tensor.dtype and again[name].shape == tensor.shape
            promise(same and bytes(_octets(again[name])) == bytes(_octets(tensor)), f"{name!r} is another tensor")
        with suppress(CorruptRunError):
            ServerState.from_checkpoint(Checkpoint(round=0, tensors=tensors))

    def _octets(tensor: torch.Tensor) -> bytes:
        return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""

    return read


def _states() -> Iterator[bytes]:
    content = next(_tensors())
    facts = {"format": 1, "round": 3, "sha256": hashlib.sha256(content).hexdigest(), "facts": {"a": [1.5, None, "x"]}}
    yield json.dumps(facts).encode()
    yield json.dumps(facts | {"round": True}).encode()
    yield json.dumps(facts | {"facts": {"a": float("nan")}}).encode()
    yield b"[" * 3000
    yield json.dumps(facts).encode().replace(b"1.5", b"9" * 5000)


def _read_states() -> Reader:
    from steadfed.server import _checkpoint as checkpoints

    scratch = Scratch()
    scratch.file("000003.safetensors", next(_tensors()))

    def read(data: bytes) -> None:
        scratch.file("000003.json", data)
        found = checkpoints.read_checkpoint(scratch.path, 3)
        promise(found.round == 3 and sorted(found.tensors) == ["buffers", "model"], "another state")
        again = scratch.path / "again"
        again.mkdir(exist_ok=True)
        checkpoints.write_checkpoint(again, found)
        promise(repr(checkpoints.read_checkpoint(again, 3).facts) == repr(found.facts), "written, it is another state")

    return read


def _snapshot_folder() -> Any:
    """Return the folder of a run in which a model may be kept."""
    from steadfed.runs import config_to_toml
    from steadfed.server._folder import RunFolder
    from steadfed.simulation import RunConfig

    return RunFolder.create(Scratch().path / "run", config_to_toml(RunConfig(), {"data_sha256": "0"}))


def _read_snapshots() -> Reader:
    folder = _snapshot_folder()
    place = folder.path / "snapshots" / "000002.safetensors"
    place.parent.mkdir()

    def read(data: bytes) -> None:
        place.write_bytes(data)
        found = folder.snapshot(2)
        promise(found.model.ndim == found.buffers.ndim == 1, "no rows")

    return read


def _snapshots() -> Iterator[bytes]:
    import torch

    from steadfed.server._snapshots import Snapshot

    folder = _snapshot_folder()
    for dtype in (torch.float32, torch.float64):
        model = torch.arange(3, dtype=dtype)
        folder.save_snapshot(Snapshot(round=2, model=model, buffers=model[:1]))
        yield (folder.path / "snapshots" / "000002.safetensors").read_bytes()


_JSON = ('"rounds":', '"last":', '"best":', '"test_accuracy":')
RUNS = (
    Harness(
        name="round-record",
        reader=_read_records,
        seeds=_records,
        refusals=(CorruptRunError,),
        words=(*_NUMBERS, *_FIELDS),
    ),
    Harness(
        name="run-folder",
        reader=_read_folders,
        seeds=_folders,
        refusals=(),
        words=(*_NUMBERS, *_FIELDS, *_JSON),
        longest=8192,
    ),
    Harness(name="raw-table", reader=_read_raw_tables, seeds=_configurations, refusals=(CorruptRunError,)),
    Harness(
        name="run-config",
        reader=_read_configurations,
        seeds=_configurations,
        refusals=(ParameterError, UnknownNameError),
        words=_config_words(),
    ),
    Harness(
        name="assignment",
        reader=_read_assignments,
        seeds=lambda: [b"lr=0.5", b"rule.kappa=2.8", b"rule=nnm+krum", b"a=[1,{b=2}]", b"rounds=" + b"9" * 5000, b"a"],
        refusals=(ParameterError,),
    ),
    Harness(
        name="tensors",
        reader=_read_tensors,
        seeds=_tensors,
        refusals=(CorruptRunError,),
        words=('"dtype":"F64"', '"shape":[', '"data_offsets":[0,', "__metadata__", "BF16", "F8_E5M2", "BOOL", "U64"),
    ),
    Harness(name="checkpoint", reader=_read_states, seeds=_states, refusals=(CorruptRunError,), words=_NUMBERS),
    Harness(
        name="snapshot", reader=_read_snapshots, seeds=_snapshots, refusals=(CorruptRunError,), words=('"sha256"',)
    ),
)
