"""`holdfast report`: what happened, as a page that one rather looks at than reads; or as pictures and tables."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from holdfast.cli.folders import runs_in
from holdfast.errors import CorruptRunError, ParameterError, RunError

if TYPE_CHECKING:
    from holdfast.reports.panels import Report

PAGE = "report.html"
"""The page in the folder of a run."""
RESULTS = "results.parquet"
"""What the folder of a comparison holds."""


class Format(StrEnum):
    """What a report is written as."""

    HTML = "html"
    PNG = "png"
    SVG = "svg"
    CSV = "csv"


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="The folder of a run, complete or not; of several, such as runs/demo-1; or of a comparison.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="The page, or the folder of pictures or tables; in the folder of the run if left out, in the current "
            "one if several are given.",
        ),
    ] = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format", help="html: one page. png, svg: a picture of every plot. csv: all the numbers of each."
        ),
    ] = Format.HTML,
    guarantee: Annotated[
        bool,
        typer.Option(
            "--guarantee/--no-guarantee",
            help="Whether to say which theorems apply and what they promise; it takes some seconds a run to measure.",
        ),
    ] = True,
    open_: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
) -> None:
    """Write a report of a run, or of several side by side, and print where it is.

    The page is one file that needs no network: did it learn, who was trusted, who was removed and why, was anybody
    wronged, what is proved, how to do it again. Empty, interrupted and damaged runs have a report, too; it says what is
    missing.

    Exit code 0, or 2 if there is no run, or the report cannot be written.
    """
    if open_ and format_ is not Format.HTML:
        raise ParameterError(f"--open shows the page, got --format {format_.value}; leave one of them out")
    _check_installed(format_)
    place = out if out is not None else _usual_place(paths, format_)
    with Console(stderr=True).status("looking at the runs"):
        found = gathered(paths, guarantee=guarantee, whole=format_ is Format.CSV)
        written = _write(found, format_, place)
    for path in written:
        typer.echo(path)
    if open_:
        webbrowser.open(written[0].resolve().as_uri())


def write_report(folder: Path, *, guarantee: bool = True) -> Path:
    """Write the page of the runs in a folder into it, and return where it is.

    Raises:
        RunError: it cannot be written, or the extra is not installed; the message says how to get it.
    """
    _check_installed(Format.HTML)
    return _write(gathered([folder], guarantee=guarantee), Format.HTML, folder / PAGE)[0]


def gathered(paths: Sequence[Path], *, guarantee: bool, whole: bool = False) -> Report:
    """Return the report of runs, of the runs in folders, or of one comparison; whole, or as much as can be looked at.

    Raises:
        CorruptRunError: there is no run in one of the folders.
        ParameterError: a comparison is not alone.
    """
    comparisons = [path for path in paths if (path / RESULTS).is_file()]
    if not comparisons:
        return _report_of_runs(paths, guarantee=guarantee, whole=whole)
    if len(paths) > 1:
        raise ParameterError(
            f"a comparison has a report of its own; give {str(comparisons[0])!r} alone, got {len(paths)} folders"
        )
    return _report_of_comparison(comparisons[0])


def _report_of_runs(paths: Sequence[Path], *, guarantee: bool, whole: bool) -> Report:
    for path in paths:
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            raise CorruptRunError(f"{str(path)!r} {what}; expected the folder of a run, or of several")
    runs = _each_once(paths)
    from holdfast.reports.reporting import report_of
    from holdfast.reports.thinning import FULL, REPORT
    from holdfast.server.history import RunHistory

    found = report_of([RunHistory(run) for run in runs], guarantee=guarantee, limits=FULL if whole else REPORT)
    together = len(paths) == 1 and runs != list(paths)
    return replace(found, title=paths[0].resolve().name) if together else found


def _each_once(paths: Sequence[Path]) -> list[Path]:
    """Return the runs in all folders; one that is named in two ways is one."""
    found: dict[Path, Path] = {}
    for run in (run for path in paths for run in runs_in(path)):
        found.setdefault(run.resolve(), run)
    return list(found.values())


def _report_of_comparison(path: Path) -> Report:
    try:
        from holdfast.reports.comparisons import comparison_report

        return comparison_report(path)
    except ImportError as error:
        raise _missing(str(error.name), "compare") from None


def _usual_place(paths: Sequence[Path], kind: Format) -> Path:
    folder = paths[0] if len(paths) == 1 else Path()
    return folder / (PAGE if kind is Format.HTML else f"report-{kind.value}")


def _write(found: Report, kind: Format, place: Path) -> list[Path]:
    return _WRITERS[kind](found, place)


def _write_page(found: Report, place: Path) -> list[Path]:
    from holdfast.reports.page import write_page

    path = place / PAGE if place.is_dir() else place
    write_page(found, path)
    return [path]


def _write_png(found: Report, place: Path) -> list[Path]:
    from holdfast.reports.pictures import write_pictures

    return write_pictures(found, place, kind="png")


def _write_svg(found: Report, place: Path) -> list[Path]:
    from holdfast.reports.pictures import write_pictures

    return write_pictures(found, place, kind="svg")


def _write_tables(found: Report, place: Path) -> list[Path]:
    from holdfast.reports.tables import write_tables

    return write_tables(found, place)


_WRITERS: dict[Format, Callable[[Report, Path], list[Path]]] = {
    Format.HTML: _write_page,
    Format.PNG: _write_png,
    Format.SVG: _write_svg,
    Format.CSV: _write_tables,
}


def _check_installed(kind: Format) -> None:
    """Refuse before anything is computed if what writes the report is not installed."""
    packages, extra = _NEEDED.get(kind, ((), ""))
    for package in packages:
        if find_spec(package) is None:
            raise _missing(package, extra)


_NEEDED = {
    Format.HTML: (("jinja2", "plotly"), "report"),
    Format.PNG: (("matplotlib",), "plot"),
    Format.SVG: (("matplotlib",), "plot"),
}
"""The packages that write a format, and the extra that brings them."""


def _missing(package: str, extra: str) -> RunError:
    return RunError(f"{package} is not installed, and this report needs it: pip install 'holdfast[{extra}]'")
