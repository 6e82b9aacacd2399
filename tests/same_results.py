"""Are two runs the same? Everything is compared to the last digit, but for how long it took and hashes over that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from steadfed._core.durable import whole_lines
from steadfed.errors import CorruptRunError
from steadfed.server._checkpoint import numbers
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord

TIMINGS = frozenset({"seconds", "finished"})
"""Under these keys, at any depth, stand times: in records, summaries and facts of checkpoints."""
HASHES = frozenset({"previous", "head", "seal"})
"""Under these keys stand hashes of lines with times in them."""


def timeless(records: Iterable[RoundRecord]) -> list[RoundRecord]:
    """Return records without times, and without hashes of lines that have some."""
    nothing: dict[str, Any] = {"seconds": {}, "finished": None, "previous": None}
    return [record.model_copy(update=nothing) for record in records]


def same_results(first: RunFolder, second: RunFolder) -> list[str]:
    """Return in what two runs differ, a sentence each; an empty list if they are the same.

    Configuration, model, snapshots and tensors of checkpoints are compared byte for byte; records, summary and facts
    key by key, with numbers as they are written, without timings. Of the checkpoints, the newest and those that both
    have count: which older ones are there depends on where a run was interrupted. So does, until a run is done, whether
    there is a snapshot after the last round that is written down.
    """
    return [
        *_files("config.toml", first, second),
        *_rounds(first, second),
        *_checkpoints(first, second),
        *_snapshots(first, second),
        *_files("model.safetensors", first, second),
        *_files("summary.json", first, second),
    ]


def _rounds(first: RunFolder, second: RunFolder) -> Iterator[str]:
    """Name the first round that differs, and in what."""
    lengths = first.num_rounds(), second.num_rounds()
    if lengths[0] != lengths[1]:
        yield f"rounds.jsonl: {lengths[0]} rounds against {lengths[1]}"
    name = "rounds.jsonl"
    pairs = zip(whole_lines(first.path / name), whole_lines(second.path / name), strict=False)
    differing = [(number, *pair) for number, pair in enumerate(pairs) if _parse(pair[0]) != _parse(pair[1])]
    if differing:
        number, one, other = differing[0]
        more = f", the first of {len(differing)} rounds that differ" if len(differing) > 1 else ""
        yield f"rounds.jsonl: round {number} differs in {', '.join(_keys(one, other))}{more}"


def _checkpoints(first: RunFolder, second: RunFolder) -> Iterator[str]:
    one, other = (numbers(folder.path / "checkpoints") for folder in (first, second))
    if one[-1:] != other[-1:]:
        newest = [f"after {each[-1]} rounds" if each else "none" for each in (one, other)]
        yield f"checkpoints: the newest is {newest[0]} against {newest[1]}"
    for number in sorted(set(one) & set(other)):
        for ending in ("safetensors", "json"):
            yield from _files(f"checkpoints/{number:06d}.{ending}", first, second)


def _snapshots(first: RunFolder, second: RunFolder) -> Iterator[str]:
    one, other = set(first.snapshots()), set(second.snapshots())
    done = (first.path / "summary.json").exists() or (second.path / "summary.json").exists()
    settled = max(first.num_rounds(), second.num_rounds()) + done
    for number in sorted(one | other):
        if number < settled or number in one & other:
            yield from _files(f"snapshots/{number:06d}.safetensors", first, second)


def _files(name: str, first: RunFolder, second: RunFolder) -> Iterator[str]:
    one, other = _content(first.path / name), _content(second.path / name)
    if one == other:
        return
    if one is None or other is None:
        yield f"{name} is missing in {str((first if one is None else second).path)!r} only"
    elif not name.endswith(".json"):
        yield f"{name} differs"
    elif _parse(one) != _parse(other):
        yield f"{name} differs in {', '.join(_keys(one, other))}"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CorruptRunError(f"{path} cannot be read: {error.strerror}") from None


def _parse(text: bytes) -> Any:
    """Return what JSON says without its timings, numbers as they are written; what is no JSON as it is."""
    try:
        value = json.loads(text, parse_float=str.encode, parse_int=str.encode, parse_constant=str.encode)
    except (ValueError, RecursionError):
        return text
    return _without_timings(value)


def _without_timings(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_timings(each) for key, each in value.items() if key not in TIMINGS | HASHES}
    if isinstance(value, list) and any(isinstance(each, (dict, list)) for each in value):
        return [_without_timings(each) for each in value]
    return value


def _keys(one: bytes, other: bytes) -> list[str]:
    """Return the keys of two JSON tables whose values differ."""
    tables = _parse(one), _parse(other)
    if not all(isinstance(table, dict) for table in tables):
        return ["its form"]
    return [key for key in tables[0] | tables[1] if tables[0].get(key, ...) != tables[1].get(key, ...)]
