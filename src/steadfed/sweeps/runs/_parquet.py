"""Parquet files of anybody, read in a process of their own.

What a Parquet file claims of its sizes is believed by the compiled code that reads it: a few wrong bytes end the
process that reads them, without an exception. So it is another process, whose memory is bounded, and which hands over
text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from steadfed._core.parsing import parse_json
from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.server._reading import memory_of_machine

INSTALL = "pip install 'steadfed[compare]'"
MOST_ROWS = 1_000_000
"""Rows of a file; a comparison has 100,000 cells at most."""
MOST_BYTES = 1 << 30
"""Bytes of the rows as text."""
LONGEST = 600.0
"""Seconds that reading may take."""
_MODULE = "steadfed.sweeps.runs._parquet"


def require_polars() -> Any:
    """Return the library that reads and writes Parquet.

    Raises:
        RunError: it is not installed; the message says how to install it.
    """
    try:
        import polars as pl
    except ImportError:
        raise RunError(f"polars is not installed, and a comparison needs it: {INSTALL}") from None
    return pl


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, by the names of their columns.

    Raises:
        CorruptRunError: it holds no table of numbers, words and lists of them, or a larger one than is allowed.
        RunError: polars is not installed.
    """
    require_polars()
    words = [sys.executable, "-P", "-m", _MODULE, str(path.absolute())]
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"}
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=LONGEST)  # noqa: S603, PLW1510
        if done.returncode:
            raise CorruptRunError(_last_words(done.stderr) or "what it claims to hold fits into no memory")
    except subprocess.TimeoutExpired:
        raise CorruptRunError(f"it could not be read within {LONGEST:g} s") from None
    return rows_in(done.stdout)


def rows_in(text: bytes) -> list[dict[str, Any]]:
    """Return the rows that the other process has written.

    Raises:
        CorruptRunError: it is no list of tables.
    """
    try:
        rows = parse_json(text)
    except ParameterError as error:
        raise CorruptRunError(str(error)) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CorruptRunError("it holds no rows")
    return rows


def _last_words(errors: bytes) -> str:
    """Return the line in which the other process says why it did not read the file, if it could."""
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.startswith(_SAID)]
    return lines[-1].removeprefix(_SAID) if lines else ""


_SAID = "refused: "


def main(path: str) -> None:
    """Write the rows of a file to stdout, as JSON."""
    pl = require_polars()
    _limit_memory()
    known = (OSError, MemoryError, ValueError, TypeError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
    try:
        text = _text_of(pl, path)
    except known as error:
        sys.exit(f"{_SAID}{' '.join(str(error).split())[:500]}")
    sys.stdout.buffer.write(text)


def _text_of(pl: Any, path: str) -> bytes:
    table = pl.scan_parquet(path, glob=False).head(MOST_ROWS + 1).collect()
    if len(table) > MOST_ROWS:
        raise ValueError(f"it has more than {MOST_ROWS:,} rows")
    text = json.dumps(table.to_dicts()).encode()
    if len(text) > MOST_BYTES:
        raise ValueError(f"its rows take {len(text):,} bytes as text")
    return text


def _limit_memory() -> None:
    """Let this process take half of the machine's memory more than it has, and leave no image of itself if it dies."""
    if sys.platform != "linux":
        return
    import resource

    with Path("/proc/self/statm").open(encoding="ascii") as file:
        in_use = int(file.read().split()[0]) * resource.getpagesize()
    most = in_use + memory_of_machine() // 2
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(sys.argv[1])
