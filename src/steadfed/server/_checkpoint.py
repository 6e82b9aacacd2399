"""The state of a run after some rounds, in two files: tensors, and the JSON that makes them valid."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadfed._core.digests import sha256
from steadfed._core.durable import UNFINISHED, check_own_folder, replace_file
from steadfed._core.parsing import parse_json
from steadfed.errors import CorruptRunError, ParameterError
from steadfed.server._reading import content_of, tensors_of

if TYPE_CHECKING:
    from torch import Tensor

_FORMAT, _WITHOUT_ORIGIN = 2, 1
"""What is written, and what old versions wrote, which does not say what it belongs to."""
_KEPT = 2
_NAME = re.compile(rf"(\d{{6,}})\.(?:json|safetensors)(?:{re.escape(UNFINISHED)})?")


@dataclass(frozen=True)
class Origin:
    """Of which run a checkpoint is, and after which of its lines it was written."""

    config: str
    """The SHA-256 of config.toml."""
    head: str
    """The SHA-256 of the last line before it; that of config.toml if there is none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """Everything that the next round depends on."""

    round: int
    """How many rounds are done: the number of the next one."""
    tensors: Mapping[str, Tensor]
    """The model, the memories of server, rule and attack, …: by flat names such as "rule/momentum"."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Small plain values: what JSON can hold and gives back unchanged (numbers, strings, lists, string keys)."""
    origin: Origin | None = None
    """What it belongs to, which the folder of the run says when it is written; None in those of old versions."""

    def __post_init__(self) -> None:
        """Refuse what would not come back as it was."""
        if not isinstance(self.round, int) or isinstance(self.round, bool) or self.round < 0:
            raise ParameterError(f"round must be a whole number from 0 on, got {self.round!r}")
        for name, value in self.facts.items():
            if not isinstance(name, str) or not _survives_json(value):
                raise ParameterError(f"facts must be plain JSON values under string keys, got {name!r}: {value!r}")

    @cached_property
    def content(self) -> bytes:
        """The tensors as they are written."""
        from steadfed.server._tensors import to_bytes

        return to_bytes(self.tensors)

    @property
    def digest(self) -> str:
        """What the state is called in a signed line, see `state_digest`."""
        return state_digest(sha256(self.content), self.facts)


def state_digest(tensors_sha256: str, facts: Mapping[str, Any]) -> str:
    """Return the SHA-256 by which a line names the state after it: over that of the tensors, and the facts as JSON."""
    return sha256(json.dumps([tensors_sha256, dict(facts)], sort_keys=True).encode())


def write_checkpoint(folder: Path, checkpoint: Checkpoint, origin: Origin | None = None) -> None:
    """Write a checkpoint, then drop all but it and the one before it.

    The JSON holds the hash of the tensors and comes last: without it, or with one that does not fit, there is no
    checkpoint. A checkpoint that is dropped loses its JSON first.

    Raises:
        OSError: it could not be written; the earlier ones are still there.
    """
    check_own_folder(folder)
    replace_file(_path(folder, checkpoint.round, "safetensors"), checkpoint.content)
    rendered = _rendered(checkpoint, origin or checkpoint.origin)
    replace_file(_path(folder, checkpoint.round, "json"), rendered)
    earlier = [each for each in numbers(folder) if each < checkpoint.round]
    _keep_only(folder, {checkpoint.round, *earlier[1 - _KEPT :]})


def _rendered(checkpoint: Checkpoint, origin: Origin | None) -> bytes:
    """Return the JSON of a checkpoint; it ends with its own hash, so that no letter of it changes unnoticed."""
    facts: dict[str, Any] = {
        "format": _WITHOUT_ORIGIN if origin is None else _FORMAT,
        "round": checkpoint.round,
        "sha256": sha256(checkpoint.content),
        **({} if origin is None else asdict(origin)),
        "facts": dict(checkpoint.facts),
    }
    return _sealed(facts)


def _sealed(facts: dict[str, Any]) -> bytes:
    seal = {} if facts["format"] == _WITHOUT_ORIGIN else {"seal": sha256(json.dumps(facts).encode())}
    return (json.dumps({**facts, **seal}, indent=1) + "\n").encode()


def read_checkpoint(folder: Path, rounds: int) -> Checkpoint:
    """Return the checkpoint after so many rounds; `CorruptRunError` says what is wrong with it."""
    from steadfed.server._tensors import from_bytes

    facts, content = check_checkpoint(folder, rounds)
    return Checkpoint(round=rounds, tensors=from_bytes(content), facts=facts["facts"], origin=origin_of(facts))


def check_checkpoint(folder: Path, rounds: int) -> tuple[dict[str, Any], bytes]:
    """Return what the JSON of a checkpoint says, and the bytes of its tensors, which it fits; does not load torch.

    Raises:
        CorruptRunError: they are not what a run writes; the message says why.
    """
    tensors = _path(folder, rounds, "safetensors")
    facts = _description(_path(folder, rounds, "json"), rounds)
    content = tensors_of(tensors)
    if facts["sha256"] != (found := sha256(content)):
        raise CorruptRunError(
            f"{tensors} has the SHA-256 {found[:12]}…, it was written with {str(facts['sha256'])[:12]}…"
        )
    return facts, content


def origin_of(facts: Mapping[str, Any]) -> Origin | None:
    """Return what the JSON of a checkpoint says it belongs to; None for one of an old version."""
    return None if facts["format"] == _WITHOUT_ORIGIN else Origin(facts["config"], facts["head"])


def foreign(origin: Origin | None, here: Origin, *, protected: bool) -> str | None:
    """Return why a checkpoint does not belong to a run and its lines; None if it does.

    Args:
        origin: what the checkpoint says it belongs to; None for one of an old version.
        here: what it would say if it did.
        protected: whether the lines hold hashes, as those of old versions do not.
    """
    if origin is None:
        return "it does not say which run it is of, and this one's do" if protected else None
    if origin.config != here.config:
        return f"it is of another run: its config.toml has the SHA-256 {origin.config[:12]}…, not {here.config[:12]}…"
    if origin.head != here.head:
        return (
            f"it was written after a line with the SHA-256 {origin.head[:12]}…, and there is one with "
            f"{here.head[:12]}…: it is of another run, or that line was changed"
        )
    return None


def _description(path: Path, rounds: int) -> dict[str, Any]:
    """Return what the JSON of a checkpoint says; `CorruptRunError` if it is not what is written there."""
    content = content_of(path)
    try:
        facts = parse_json(content)
    except ParameterError as error:
        raise CorruptRunError(f"{path} is not JSON: {error}") from None
    old = isinstance(facts, dict) and facts.get("format") == _WITHOUT_ORIGIN
    expected = {"format": _WITHOUT_ORIGIN if old else _FORMAT, "round": rounds, "sha256": str, "facts": dict}
    for key, value in (expected if old else {**expected, "config": str, "head": str}).items():
        given = facts.get(key) if isinstance(facts, dict) else None
        if not (isinstance(given, value) if isinstance(value, type) else given == value):
            wanted = f"a {value.__name__}" if isinstance(value, type) else value
            raise CorruptRunError(
                f"{path} does not describe this checkpoint: {key} must be {wanted}, got {str(given)[:40]!r}"
            )
    if not old and content != _sealed({key: value for key, value in facts.items() if key != "seal"}):
        raise CorruptRunError(f"{path} was changed after it was written: its seal does not fit")
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
