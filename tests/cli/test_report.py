"""`steadfed report`, and the report that ends the demonstration."""

from __future__ import annotations

import re
import subprocess
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import refused, run
from tests.reports.made import folder, four

from steadfed.errors import ParameterError
from steadfed.reports import _report as report


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two runs, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        folder(tmp_path / "both" / name, [four(number) for number in range(4)])
    return Path("both")


def test_the_report_of_a_run_lies_in_its_folder(runs: Path) -> None:
    assert run("report", str(runs / "one"), "--no-guarantee").split() == ["both/one/report.html"]
    page = (runs / "one" / "report.html").read_text(encoding="utf-8")
    assert "<title>one</title>" in page


def test_a_folder_of_runs_has_one_report_over_all_of_them(runs: Path) -> None:
    assert run("report", str(runs), "--no-guarantee").split() == ["both/report.html"]
    page = (runs / "report.html").read_text(encoding="utf-8")
    assert "<title>both</title>" in page
    assert not (runs / "one" / "report.html").exists()


def test_the_report_of_several_runs_lies_in_the_current_folder(runs: Path) -> None:
    assert run("report", str(runs / "one"), str(runs / "two"), "--no-guarantee").split() == ["report.html"]
    assert Path("report.html").is_file()


def test_the_page_goes_where_one_says(runs: Path) -> None:
    Path("there").mkdir()
    assert run("report", str(runs), "--no-guarantee", "--out", "there").split() == ["there/report.html"]
    assert run("report", str(runs), "--no-guarantee", "--out", "there/page.html").split() == ["there/page.html"]


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("csv", b"")])
def test_pictures_and_tables_are_files_in_a_folder(runs: Path, kind: str, start: bytes) -> None:
    found = [Path(line) for line in run("report", str(runs / "one"), "--no-guarantee", "--format", kind).splitlines()]
    assert found
    assert {path.parent for path in found} == {runs / "one" / f"report-{kind}"}
    assert all(path.suffix == f".{kind}" and path.read_bytes().startswith(start) for path in found)


def test_figures_and_tables_of_a_paper_have_the_looks_that_were_chosen(runs: Path) -> None:
    chosen = ("--format", "pdf", "--width", "double", "--font-size", "9", "--style", "dark", "--out", "figures")
    run("report", str(runs), "--no-guarantee", *chosen)
    found = re.search(rb"/MediaBox \[ ?0 0 ([0-9.]+)", Path("figures/accuracy.pdf").read_bytes())
    assert found is not None
    assert float(found.group(1)) == pytest.approx(178 * 72 / 25.4, abs=0.01)
    run("report", str(runs), "--no-guarantee", "--format", "latex", "--width", "double")
    assert "\\begin{table*}" in (runs / "report-latex" / "runs.tex").read_text(encoding="ascii")


def test_python_writes_what_the_command_writes(runs: Path) -> None:
    run("report", str(runs / "one"), "--no-guarantee", "--format", "svg", "--width", "60", "--out", "by-command")
    place = report.report(runs / "one", guarantee=False, format="svg", width=60, out="by-python")
    assert place == Path("by-python")
    files = {path.name: path.read_bytes() for path in place.iterdir()}
    assert files
    assert files == {path.name: path.read_bytes() for path in Path("by-command").iterdir()}
    with pytest.raises(ParameterError, match="no format 'pfd', did you mean 'pdf'"):
        report.report(runs / "one", format="pfd")
    with pytest.raises(ParameterError, match="width is for pdf, svg, png, latex, got 'single' for html"):
        report.report(runs / "one", width="single")


def test_tables_hold_every_round(tmp_path: Path) -> None:
    folder(tmp_path / "long", (four(number) for number in range(2_100)), rounds=2_100)
    run("report", str(tmp_path / "long"), "--no-guarantee", "--format", "csv", "--out", str(tmp_path / "csv"))
    lines = (tmp_path / "csv" / "accuracy.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in lines] == ["round", *map(str, range(2_100))]
    cells = (tmp_path / "csv" / "weights.csv").read_text(encoding="utf-8").splitlines()
    assert len(cells) == 1 + 4 * 2_100


def test_a_run_that_is_named_twice_is_shown_once(runs: Path) -> None:
    run("report", str(runs / "one"), str(runs / ".." / runs / "one"), "--no-guarantee", "--out", "page.html")
    assert "<title>one</title>" in Path("page.html").read_text(encoding="utf-8")


def test_a_browser_is_shown_the_page(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", asked.append)
    run("report", str(runs), "--no-guarantee", "--open")
    assert asked == [(runs / "report.html").resolve().as_uri()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "'nowhere' does not exist; expected the folder of a run"),
        (("file",), "'file' is not a folder"),
        (("nothing",), "there is no run in 'nothing' or below"),
        (("both", "--out", "nowhere/report.html"), "cannot write the report 'nowhere/report.html'"),
        (("both", "--open", "--format", "csv"), "--open shows the page, got --format csv"),
        (("both", "compared"), "a comparison has a report of its own; give 'compared' alone"),
        (("compared",), "results.parquet"),
        (("both", "--width", "single"), "--width is for pdf, svg, png, latex, got 'single' for html; leave it out"),
        (("both", "--format", "csv", "--font-size", "9"), "--font-size is for pdf, svg, png, latex, got 9.0 for csv"),
        (("both", "--format", "latex", "--style", "dark"), "--style is for pdf, svg, png, got 'dark' for latex"),
        (("both", "--format", "latex", "--width", "90"), "--width is single or double, got '90'"),
        (("both", "--format", "pdf", "--width", "3"), "or from 40 to 400 millimetres, got '3'"),
        (("both", "--format", "pdf", "--style", "drak"), "should be 'light' or 'dark', got 'drak'"),
    ],
)
def test_what_cannot_be_reported_is_an_error_that_says_why(
    runs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    Path("file").touch()
    Path("nothing").mkdir()
    Path("compared").mkdir()
    Path("compared", "results.parquet").write_bytes(b"not a table")
    assert said in refused(capsys, monkeypatch, "report", "--no-guarantee", *arguments)


def without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def found(name: str, package: str | None = None) -> Any:
        return None if name == missing else find_spec(name, package)

    monkeypatch.setattr(report, "find_spec", found)


@pytest.mark.parametrize(
    ("missing", "kind", "extra"),
    [("plotly", "html", "report"), ("jinja2", "html", "report"), ("matplotlib", "png", "plot")],
)
def test_a_missing_extra_is_named_with_the_command_that_gets_it(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, missing: str, kind: str, extra: str
) -> None:
    without(monkeypatch, missing)
    told = refused(capsys, monkeypatch, "report", str(runs), "--format", kind)
    assert f"{missing} is not installed, and a report needs it: pip install 'steadfed[{extra}]'" in told


def test_the_demonstration_ends_with_the_path_of_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = run("demo", "--rounds", "2", "--jobs", "1")
    assert output.splitlines()[-1].strip() == "Look at the report: runs/demo-1/report.html"
    page = Path("runs/demo-1/report.html").read_text(encoding="utf-8")
    assert "<title>demo-1</title>" in page


def test_the_demonstration_needs_no_extra_and_says_which_one_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    without(monkeypatch, "plotly")
    output = run("demo", "--rounds", "1", "--jobs", "1")
    assert "No report: plotly is not installed" in output
    assert "pip install 'steadfed[report]'" in output


def test_the_help_imports_nothing_that_draws() -> None:
    names = ("torch", "plotly", "jinja2", "polars", "matplotlib", "starlette")
    code = f"import sys, steadfed._cli; sys.exit(any(name in sys.modules for name in {names}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603
