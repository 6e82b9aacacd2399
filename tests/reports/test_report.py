"""A report as a file, for programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reports.made import folder, four

import steadfed
from steadfed.errors import CorruptRunError
from steadfed.reports._report import gather


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder of two runs."""
    for name in ("one", "two"):
        folder(tmp_path / "runs" / name, [four(0)])
    return tmp_path / "runs"


def test_a_page_is_written_where_the_runs_are_or_where_it_is_wanted(runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    page = steadfed.report(runs, guarantee=False)
    assert page == runs / "report.html"
    assert "The runs side by side" in page.read_text(encoding="utf-8")
    assert steadfed.report(runs / "one", out=tmp_path / "page.html", guarantee=False) == tmp_path / "page.html"


def test_whoever_waits_is_told_which_run_is_read(runs: Path) -> None:
    told: list[str] = []
    gather([runs], guarantee=False, notify=told.append)
    assert told[:2] == [f"reading run {place} of 2: {runs / name}" for place, name in enumerate(("one", "two"), 1)]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptRunError, match="there is no run in"):
        steadfed.report(tmp_path)
