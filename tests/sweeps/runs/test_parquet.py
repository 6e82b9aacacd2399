"""Parquet files of anybody: whatever they claim, this process lives on and says that they are no results."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from steadfed.errors import CorruptRunError
from steadfed.sweeps.runs import _parquet
from steadfed.sweeps.runs._parquet import rows_of
from steadfed.sweeps.runs._results import read_results

FOUND = Path(__file__).parent / "parquet"
"""Files that the fuzzer made of a comparison's: some end the process that reads them, without an exception."""


@pytest.mark.parametrize("name", sorted(path.name for path in FOUND.iterdir()))
def test_a_file_that_ends_the_process_that_reads_it_is_refused(name: str) -> None:
    with pytest.raises(CorruptRunError, match="not what a comparison writes"):
        read_results(FOUND / name)


def test_rows_come_as_they_were_written(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"rule": "räge", "seed": 2**62, "lr": 0.1, "curve": [0.5, 1e-300], "none": None},
        {"rule": '"', "seed": -1, "lr": float("inf"), "curve": [], "none": None},
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "a [b]*.parquet")
    assert rows_of(tmp_path / "a [b]*.parquet") == rows


@pytest.mark.parametrize("rows", [[{"when": b"bytes"}], [{"rule": "a"}] * 20])
def test_what_is_no_text_or_too_long_is_refused(
    rows: Sequence[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_parquet, "MOST_ROWS", 19)
    monkeypatch.setattr(_parquet, "_limit_memory", lambda: None)
    pl.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(SystemExit, match="refused: ") as stopped:
        _parquet.main(str(tmp_path / "rows.parquet"))
    assert str(stopped.value).isprintable()
    assert capfd.readouterr().out == ""


def test_why_it_could_not_be_read_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = SimpleNamespace(returncode=1, stderr=b"warning\nrefused: no magic\nnoise", stdout=b"")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: said)
    with pytest.raises(CorruptRunError, match=r"^no magic$"):
        rows_of(tmp_path / "rows.parquet")
    said.returncode, said.stdout = 0, b'{"a": 1}'
    with pytest.raises(CorruptRunError, match="no rows"):
        rows_of(tmp_path / "rows.parquet")
