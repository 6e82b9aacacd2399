"""A small corpus: the shortest inputs that reach every step from line to line that any input reaches."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.harness import Harness, Reader, play

_WATCHED = ("/steadfed/", "/tomllib/", "/flwr/app/", "_format_impl", "/zipfile")
LARGEST_CORPUS = 48 << 10
"""Bytes that are kept of one decoder's inputs."""


def reached(harness: Harness, read: Reader, data: bytes) -> set[tuple[str, int, int]]:
    """Return the steps from line to line that an input takes."""
    steps: set[tuple[str, int, int]] = set()
    before: dict[int, int] = {}

    def line(frame: FrameType, event: str, _argument: Any) -> Any:
        steps.add((frame.f_code.co_filename, before.get(id(frame), 0), frame.f_lineno))
        before[id(frame)] = frame.f_lineno
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        watched = any(part in frame.f_code.co_filename for part in _WATCHED)
        before[id(frame)] = 0
        return line(frame, event, argument) if watched else None

    sys.settrace(call)
    try:
        play(harness, read, data)
    finally:
        sys.settrace(None)
    return steps


def smallest(harness: Harness, read: Reader, inputs: Iterable[bytes]) -> list[bytes]:
    """Return the inputs that are kept, the shortest first; all that decide alike but the shortest are dropped."""
    known: set[tuple[str, int, int]] = set()
    kept: list[bytes] = []
    spent = 0
    for data in sorted(set(inputs), key=lambda each: (len(each), each)):
        if spent + len(data) > LARGEST_CORPUS:
            break
        new = reached(harness, read, data) - known
        if new:
            known |= new
            kept.append(data)
            spent += len(data)
    return kept


def write_smallest(harness: Harness, read: Reader, place: Path, corpus: Path) -> None:
    """Make the corpus of a decoder anew, from what it was and what was found; inputs that broke something stay."""
    found = [path for each in (place, corpus) if each.is_dir() for path in each.iterdir()]
    kept = smallest(harness, read, (path.read_bytes() for path in found if not path.name.startswith("found-")))
    place.mkdir(parents=True, exist_ok=True)
    for path in place.iterdir():
        if not path.name.startswith("found-"):
            path.unlink()
    for number, data in enumerate(kept):
        (place / f"{number:03d}").write_bytes(data)
