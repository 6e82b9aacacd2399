"""One line of the result: a rule on a cell. Written as JSON Lines, so that a run can be stopped and continued."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from holdfast.durable import append_lines, drop_torn_line, sole_holder, whole_lines
from holdfast.errors import ParameterError, RunError
from holdfast.gauntlet.grid import Cell

__all__ = ["Record", "append", "cell_key", "drop_torn_line", "read_records", "sole_writer"]


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
        lines = b"".join(whole_lines(path)).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"cannot read {str(path)!r} as a result of the gauntlet: {error}") from None
    records = [_parsed(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]
    return list({record.key: record for record in records}.values())


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Hold a lock on the file, so that no other run appends to it meanwhile (where the system has such locks)."""
    with ExitStack() as stack:
        try:
            stack.enter_context(sole_holder(path))
        except BlockingIOError:
            raise ParameterError(
                f"another run is writing to {str(path)!r}; wait until it is done, or choose another file"
            ) from None
        yield


def append(path: Path, records: Iterable[Record]) -> None:
    """Append whole lines; `RunError` if they cannot be written, and then the file is as it was."""
    try:
        append_lines(path, "".join(record.line() for record in records).encode())
    except OSError as error:
        raise RunError(
            f"cannot append to {str(path)!r}: {error.strerror}; what it holds is whole, so run again to go on from it"
        ) from None


def _parsed(line: str, where: str) -> Record:
    known = {field.name for field in fields(Record)}
    try:
        values: Any = json.loads(line)
        if not isinstance(values, dict) or not set(values) <= known:
            raise ValueError(f"unexpected content {line[:80]!r}")  # noqa: TRY301  turned into one message with those of the JSON reader
        return Record(**values)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"{where} is no record of the gauntlet: {error}") from None
