"""One line of the result: a rule on a cell. Written as JSON Lines, so that a run can be stopped and continued."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from holdfast.errors import ParameterError
from holdfast.gauntlet.grid import Cell

if sys.platform != "win32":
    import fcntl


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a rule made of a cell."""

    rule: str
    attack: str
    model: str
    cohort_size: int
    dim: int
    num_byzantine: int
    seed: int
    error: float | None = None
    """‖update − honest mean‖ / (σ₀ √ε); None if the rule refused."""
    honest_weight_lost: float | None = None
    """Share of the honest rows' weight that was taken from them."""
    byzantine_weight: float | None = None
    """Share of the update that comes from forged rows."""
    promise_broken: bool | None = None
    stop: str | None = None
    refused: str | None = None
    """Why the rule would not aggregate these rows."""
    seconds: float | None = None
    """Time of the aggregation; the only field that differs from run to run."""

    @property
    def key(self) -> str:
        """The identity of the cell and the rule."""
        return cell_key(self.rule, Cell(**{field.name: getattr(self, field.name) for field in fields(Cell)}))

    def line(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None}) + "\n"


def cell_key(rule: str, cell: Cell) -> str:
    """Return a hash of everything that decides the outcome."""
    return hashlib.blake2b(json.dumps([rule, asdict(cell)]).encode(), digest_size=12).hexdigest()


def read_records(path: Path) -> list[Record]:
    """Return the records of a file, each cell and rule once; a last line that was torn by a crash is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"cannot read {str(path)!r} as a result of the gauntlet: {error}"
        raise ParameterError(msg) from None
    whole = text[: text.rfind("\n") + 1]
    records = [_parsed(line, f"{path}:{number}") for number, line in enumerate(whole.splitlines(), 1)]
    return list({record.key: record for record in records}.values())


def drop_torn_line(path: Path) -> None:
    """Cut a last line without its end off a file, so that what is appended starts on a line of its own."""
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Hold a lock on the file, so that no other run appends to it meanwhile (where the system has such locks)."""
    with path.open("a", encoding="utf-8") as file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                msg = f"another run is writing to {str(path)!r}; wait until it is done, or choose another file"
                raise ParameterError(msg) from None
        yield


def append(path: Path, records: Iterable[Record]) -> None:
    """Append whole lines in one write."""
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(record.line() for record in records))


def _parsed(line: str, where: str) -> Record:
    known = {field.name for field in fields(Record)}
    try:
        values: Any = json.loads(line)
        if not isinstance(values, dict) or not set(values) <= known:
            msg = f"unexpected content {line[:80]!r}"
            raise ValueError(msg)  # noqa: TRY301  turned into one message with those of the JSON reader
        return Record(**values)
    except (ValueError, TypeError) as error:
        msg = f"{where} is no record of the gauntlet: {error}"
        raise ParameterError(msg) from None
