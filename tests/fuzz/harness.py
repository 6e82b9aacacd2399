"""What it takes to play a decoder with hostile bytes, and when that went wrong."""

from __future__ import annotations

import hashlib
import resource
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, final

from steadfed.errors import SteadfedError

CORPUS = Path(__file__).parent / "corpus"
"""One folder per decoder, one file per input; those that broke something once are called found-…"""
MEMORY = 256 << 20
"""Bytes by which one input may raise the peak of the process."""
LONGEST_REFUSAL = 100_000
"""Letters that a refusal may take; a person has to read it."""

Reader = Callable[[bytes], object]
"""Decodes an input, and raises `BrokenPromiseError` if what came of it is not what the decoder promises."""
Each = TypeVar("Each")


class BrokenPromiseError(Exception):
    """An input was accepted, and what came of it is not what was promised."""


def promise(kept: bool, words: str) -> None:
    """Raise an error if something that was promised is not so."""
    if not kept:
        raise BrokenPromiseError(words)


@final
@dataclass(frozen=True, kw_only=True)
class Harness:
    """One decoder and how it is played."""

    name: str
    reader: Callable[[], Reader]
    """Imports the decoder and returns what decodes one input; called once in a process."""
    seeds: Callable[[], Iterable[bytes]]
    """Inputs to begin with."""
    refusals: tuple[type[SteadfedError], ...]
    """The errors with which an input may be refused; every other one is a finding."""
    words: Sequence[str] = field(default=())
    """What such inputs are made of: names, brackets, numbers."""
    longest: int = 4096
    """Bytes of an input."""
    seconds: float = 2.0
    """CPU time that an input may take."""


@final
@dataclass(frozen=True)
class Finding:
    """Something that must not be."""

    kind: str
    where: str
    detail: str

    @property
    def name(self) -> str:
        """The same for the same mistake, whatever the input."""
        return f"found-{hashlib.sha256(f'{self.kind} {self.where}'.encode()).hexdigest()[:12]}"

    def __str__(self) -> str:
        return f"{self.kind} at {self.where}: {self.detail}"


def play(harness: Harness, read: Reader, data: bytes) -> Finding | None:
    """Decode one input; return what went wrong, None if nothing did."""
    peak, began = _peak(), time.process_time()
    finding = _outcome(harness, read, data)
    took, grown = time.process_time() - began, _peak() - peak
    if finding is None and took > harness.seconds:
        return Finding("time", harness.name, f"{took:.1f} s, allowed are {harness.seconds:g} s")
    if finding is None and grown > MEMORY:
        return Finding("memory", harness.name, f"{grown >> 20} MB, allowed are {MEMORY >> 20} MB")
    return finding


def _outcome(harness: Harness, read: Reader, data: bytes) -> Finding | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(data)
    except harness.refusals as error:
        words = _words(error)
        if words is None or len(words) > LONGEST_REFUSAL:
            said = "cannot be shown" if words is None else f"has {len(words):,} letters"
            return Finding("refusal", _place(error), f"{type(error).__name__} {said}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Finding(type(error).__name__, _place(error), (_words(error) or "")[:300])
    return None


def _words(error: BaseException) -> str | None:
    try:
        return str(error)
    except ValueError:  # whole numbers of more than 4,300 digits
        return None


def _place(error: BaseException) -> str:
    """Return where in our code an error was raised or passed last."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/steadfed/" in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].name}"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def corpus_of(name: str) -> list[Path]:
    """Return the inputs that are kept for a decoder."""
    folder = CORPUS / name
    return sorted(folder.iterdir()) if folder.is_dir() else []


@final
class Choices:
    """Bytes as a row of decisions, for what is built and not parsed; used up, they all are 0: the honest choice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def below(self, number: int) -> int:
        """Return a whole number from 0 on, below another of at most 256."""
        (chosen,) = self.take(1) or b"\0"
        return chosen % number

    def pick(self, options: Sequence[Each]) -> Each:
        """Return one of the options."""
        return options[self.below(len(options))]

    def take(self, number: int) -> bytes:
        """Return the next bytes, fewer if there are not as many."""
        taken = self._data[self._place : self._place + number]
        self._place += len(taken)
        return taken

    def sized(self) -> bytes:
        """Return bytes whose length stands before them, in two bytes."""
        return self.take(int.from_bytes(self.take(2), "little"))

    def text(self) -> str:
        """Return any text, with its length in bytes before it."""
        return self.sized().decode(errors="replace")

    def whole(self) -> int:
        """Return a whole number of up to nine bytes, with a sign."""
        return int.from_bytes(self.take(self.below(10)), "little", signed=True)

    @property
    def left(self) -> int:
        """How many bytes are not used up."""
        return len(self._data) - self._place


def sized(*parts: bytes) -> bytes:
    """Return parts as `Choices.sized` reads them."""
    return b"".join(len(part).to_bytes(2, "little") + part for part in parts)
