"""The state of a run after some rounds, in two files: tensors, and the JSON that makes them valid."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadfed._core.durable import UNFINISHED, replace_file
from steadfed._core.parsing import parse_json
from steadfed.errors import CorruptRunError, ParameterError

if TYPE_CHECKING:
    from torch import Tensor

_FORMAT = 1
_KEPT = 2
_NAME = re.compile(rf"(\d{{6,}})\.(?:json|safetensors)(?:{re.escape(UNFINISHED)})?")


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """Everything that the next round depends on."""

    round: int
    """How many rounds are done: the number of the next one."""
    tensors: Mapping[str, Tensor]
    """The model, the memories of server, rule and attack, …: by flat names such as "rule/momentum"."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Small plain values: what JSON can hold and gives back unchanged (numbers, strings, lists, string keys)."""

    def __post_init__(self) -> None:
        """Refuse what would not come back as it was."""
        if not isinstance(self.round, int) or isinstance(self.round, bool) or self.round < 0:
            raise ParameterError(f"round must be a whole number from 0 on, got {self.round!r}")
        for name, value in self.facts.items():
            if not isinstance(name, str) or not _survives_json(value):
                raise ParameterError(f"facts must be plain JSON values under string keys, got {name!r}: {value!r}")


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, then drop all but it and the one before it.

    The JSON holds the hash of the tensors and comes last: without it, or with one that does not fit, there is no
    checkpoint. A checkpoint that is dropped loses its JSON first.

    Raises:
        OSError: it could not be written; the earlier ones are still there.
    """
    from steadfed.server._tensors import to_bytes

    content = to_bytes(checkpoint.tensors)
    facts = {
        "format": _FORMAT,
        "round": checkpoint.round,
        "sha256": hashlib.sha256(content).hexdigest(),
        "facts": dict(checkpoint.facts),
    }
    replace_file(_path(folder, checkpoint.round, "safetensors"), content)
    replace_file(_path(folder, checkpoint.round, "json"), (json.dumps(facts, indent=1) + "\n").encode())
    earlier = [each for each in numbers(folder) if each < checkpoint.round]
    _keep_only(folder, {checkpoint.round, *earlier[1 - _KEPT :]})


def read_checkpoint(folder: Path, rounds: int) -> Checkpoint:
    """Return the checkpoint after so many rounds; `CorruptRunError` says what is wrong with it."""
    from steadfed.server._tensors import from_bytes

    tensors = _path(folder, rounds, "safetensors")
    facts = _description(_path(folder, rounds, "json"), rounds)
    try:
        content = tensors.read_bytes()
    except OSError as error:
        raise CorruptRunError(f"{tensors} cannot be read: {error.strerror}") from None
    found = hashlib.sha256(content).hexdigest()
    if facts["sha256"] != found:
        raise CorruptRunError(
            f"{tensors} has the SHA-256 {found[:12]}…, it was written with {str(facts['sha256'])[:12]}…"
        )
    return Checkpoint(round=rounds, tensors=from_bytes(content), facts=facts["facts"])


def _description(path: Path, rounds: int) -> dict[str, Any]:
    """Return what the JSON of a checkpoint says; `CorruptRunError` if it is not what is written there."""
    try:
        facts = parse_json(path.read_bytes())
    except OSError as error:
        raise CorruptRunError(f"{path} cannot be read: {error.strerror}") from None
    except ParameterError as error:
        raise CorruptRunError(f"{path} is not JSON: {error}") from None
    expected = {"format": _FORMAT, "round": rounds, "sha256": str, "facts": dict}
    for key, value in expected.items():
        given = facts.get(key) if isinstance(facts, dict) else None
        if not (isinstance(given, value) if isinstance(value, type) else given == value):
            wanted = f"a {value.__name__}" if isinstance(value, type) else value
            raise CorruptRunError(
                f"{path} does not describe this checkpoint: {key} must be {wanted}, got {str(given)[:40]!r}"
            )
    return dict(facts)


def numbers(folder: Path) -> list[int]:
    """Return after how many rounds there are checkpoints, whole or not, in ascending order."""
    return sorted(int(path.stem) for path in folder.glob("*.json") if _NAME.fullmatch(path.name))


def drop_beyond(folder: Path, rounds: int) -> None:
    """Delete the checkpoints after more rounds than these, and what crashes have left."""
    _keep_only(folder, {each for each in numbers(folder) if each <= rounds})


def _keep_only(folder: Path, kept: set[int]) -> None:
    """Delete all files of checkpoints but those of `kept`: JSON before tensors."""
    for path in sorted(folder.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match and (int(match[1]) not in kept or path.name.endswith(UNFINISHED)):
            with suppress(FileNotFoundError):
                path.unlink()


def _path(folder: Path, rounds: int, ending: str) -> Path:
    return folder / f"{rounds:06d}.{ending}"


def _survives_json(value: Any) -> bool:
    """Return whether JSON gives the value back as it is; NaN and Inf are written as Python writes them."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _survives_json(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_survives_json, value))
    return value is None or isinstance(value, (bool, int, float, str))
