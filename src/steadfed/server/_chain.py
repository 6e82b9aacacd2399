"""The lines of a run as a chain: each holds the SHA-256 of the one before it, the first that of the configuration.

A line that was changed, removed, inserted, swapped or repeated breaks it. No line comes after the last one: the
checkpoint and the summary, which are written after it, hold its hash. Lines of old versions hold nothing and are read
as they are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple, final

from steadfed._core.digests import sha256
from steadfed.errors import CorruptRunError
from steadfed.server._record import RoundRecord

_START: Final = re.compile(rb'\{(?:"previous":"([0-9a-f]{64})",)?"round":(\d{1,18}),')
"""How a line begins that `RoundRecord.to_line` wrote."""


def hash_of_line(line: bytes) -> str:
    """Return the SHA-256 of a line without its end: what the next one holds."""
    return sha256(line.removesuffix(b"\n"))


class LineStart(NamedTuple):
    """What a line says at its beginning."""

    previous: str | None
    """The SHA-256 of the line before it; None in lines of old versions."""
    round: int

    @classmethod
    def of(cls, line: bytes, path: Path) -> LineStart:
        """Read the beginning of a line of a file; the rest, which may be long, is not looked at.

        Raises:
            CorruptRunError: a run writes no such line.
        """
        found = _START.match(line)
        if found is None:
            raise CorruptRunError(f"the last line of {path} begins with {line[:40]!r}, as no round does")
        return cls(found[1].decode() if found[1] else None, int(found[2]))


@final
class Chain:
    """Goes along the lines of a run and says where one does not follow from the one before.

    Args:
        path: the file, for messages.
        root: the SHA-256 of the configuration; None if that cannot be read, and then the first line is believed.
    """

    def __init__(self, path: Path, root: str | None) -> None:
        self.head = root or ""
        """The SHA-256 of the last line, of the configuration before the first."""
        self.length = 0
        """How many lines there were."""
        self.protected = True
        """Whether the lines hold hashes; those of old versions do not."""
        self._path = path

    def follow(self, line: bytes) -> RoundRecord:
        """Return the record of the next line; the n-th must hold round n and the hash of the one before.

        Raises:
            CorruptRunError: it does not; the message says what is whole, and what to do.
        """
        try:
            record = RoundRecord.from_line(line.decode())
        except (UnicodeDecodeError, CorruptRunError) as error:
            raise self._damage(str(error)) from None
        if record.round != self.length:
            raise self._damage(f"it holds round {record.round} in the place of {self.length}")
        if not self.length:
            self.protected = record.previous is not None
        self._check(record.previous)
        self.head = hash_of_line(line)
        self.length += 1
        return record

    def _check(self, previous: str | None) -> None:
        if (previous is not None) != self.protected:
            lacks, has = "lacks the hash of the line before it, which line 1 has", "has a hash, and line 1 has none"
            raise self._damage(f"it {lacks if self.protected else has}")
        if previous is None or previous == self.head or not self.head:
            return
        if not self.length:
            raise CorruptRunError(
                f"line 1 of {self._path} does not belong to config.toml: it holds the SHA-256 {previous[:12]}…, and "
                f"config.toml has {self.head[:12]}…. Either was changed: restore it from a copy"
            )
        kept = self.length - 1
        raise CorruptRunError(
            f"line {self.length + 1} of {self._path} does not follow from line {self.length}: it holds the SHA-256 "
            f"{previous[:12]}…, and line {self.length} has {self.head[:12]}…. One of the two was changed, or lines "
            f"were removed, inserted or moved. The {kept} before them are whole: {_remedy(kept)}"
        )

    def _damage(self, problem: str) -> CorruptRunError:
        return CorruptRunError(
            f"line {self.length + 1} of {self._path} is damaged: {problem}. The {self.length} before it are whole: "
            f"{_remedy(self.length)}"
        )


def _remedy(lines: int) -> str:
    return (
        f"restore the file from a copy, or cut it to its first {lines} lines and resume, which computes the rest again"
    )
