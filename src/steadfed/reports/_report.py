"""Reports of runs and comparisons as files: what `steadfed report` does, for programs.

folders ──► gather ──► Report ──► write: one page, pictures, or tables
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.reports._render.html import missing_package, write_page

if TYPE_CHECKING:
    from steadfed.reports.panels import Report
    from steadfed.server._history import RunHistory

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


_NEEDED = {
    Format.HTML: (("jinja2", "plotly"), "report"),
    Format.PNG: (("matplotlib",), "plot"),
    Format.SVG: (("matplotlib",), "plot"),
}
"""The packages that write a format, and the extra that brings them."""


def report(
    *paths: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    guarantee: bool = True,
    code: bool = True,
) -> Path:
    """Write the page of a run, of several side by side, or of a comparison, and return where it is.

    Args:
        paths: folders of runs, folders that hold such folders, or the folder of one comparison.
        out: the page; report.html in the folder if left out, in the current one if several are given.
        guarantee: whether to say which theorems apply and what they guarantee, which takes some seconds a run.
        code: whether data may be loaded and models built, which executes code that a configuration names for them.

    Raises:
        CorruptRunError: there is no run in one of the folders.
        ParameterError: no folder is given, or a comparison is not alone.
        RunError: the page cannot be written, or the extra is not installed; the message says how to get it.
    """
    folders = [Path(path) for path in paths]
    check_installed(Format.HTML)
    place = Path(out) if out is not None else usual_place(folders, Format.HTML)
    return write(gather(folders, guarantee=guarantee, code=code), Format.HTML, place)[0]


def gather(
    paths: Sequence[Path],
    *,
    guarantee: bool,
    code: bool = True,
    whole: bool = False,
    notify: Callable[[str], None] = lambda _: None,
) -> Report:
    """Return the report of runs, of the runs in folders, or of one comparison.

    Args:
        paths: the folders.
        guarantee: whether to judge runs by the theorems.
        code: whether data may be loaded and models built.
        whole: whether every number is there, or as many as can be looked at.
        notify: is told what is being done, now and then.

    Raises:
        CorruptRunError: there is no run in one of the folders.
        ParameterError: a comparison is not alone.
    """
    comparisons = [path for path in paths if (path / RESULTS).is_file()]
    if not comparisons:
        histories = _histories(paths, notify)
        from steadfed.reports._reporting import report_of
        from steadfed.reports._thinning import FULL, REPORT

        limits = FULL if whole else REPORT
        found = report_of(histories, guarantee=guarantee, code=code, limits=limits, notify=notify)
        together = len(paths) == 1 and [history.path for history in histories] != list(paths)
        return replace(found, title=paths[0].resolve().name) if together else found
    if len(paths) > 1:
        raise ParameterError(
            f"a comparison has a report of its own; give {str(comparisons[0])!r} alone, got {len(paths)} folders"
        )
    return _report_of_comparison(comparisons[0])


def usual_place(paths: Sequence[Path], kind: Format) -> Path:
    """Return where a report goes if nobody says.

    Raises:
        RunError: a link lies there, as in the folder of a run that comes from elsewhere; it is not followed.
    """
    folder = paths[0] if len(paths) == 1 else Path()
    place = folder / (PAGE if kind is Format.HTML else f"report-{kind.value}")
    if place.is_symlink():
        raise RunError(f"{str(place)!r} is a symbolic link, which is not followed; give another place with --out")
    return place


def write(found: Report, kind: Format, place: Path) -> list[Path]:
    """Write a report, and return the files: one page, or a picture or table for every panel."""
    if kind is Format.HTML:
        path = place / PAGE if place.is_dir() else place
        write_page(found, path)
        return [path]
    if kind is Format.CSV:
        from steadfed.reports._render.csv import write_tables

        return write_tables(found, place)
    from steadfed.reports._render.image import write_pictures

    return write_pictures(found, place, kind="png" if kind is Format.PNG else "svg")


def check_installed(kind: Format) -> None:
    """Refuse before anything is computed if what writes the report is not installed.

    Raises:
        RunError: it is not; the message says how to get it.
    """
    packages, extra = _NEEDED.get(kind, ((), ""))
    for package in packages:
        if find_spec(package) is None:
            raise missing_package(package, extra)


def _histories(paths: Sequence[Path], notify: Callable[[str], None]) -> list[RunHistory]:
    """Return the runs in all folders."""
    for path in paths:
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            raise CorruptRunError(f"{str(path)!r} {what}; expected the folder of a run, or of several")
    runs = _each_once(paths)
    from steadfed.server._history import RunHistory

    histories = []
    for place, run in enumerate(runs, 1):
        notify(f"reading run {place} of {len(runs)}: {run}")
        histories.append(RunHistory(run))
    return histories


def _each_once(paths: Sequence[Path]) -> list[Path]:
    """Return the runs in all folders; one that is named in two ways is one."""
    from steadfed.server._folder import runs_in

    found: dict[Path, Path] = {}
    for run in (run for path in paths for run in runs_in(path)):
        found.setdefault(run.resolve(), run)
    return list(found.values())


def _report_of_comparison(path: Path) -> Report:
    try:
        from steadfed.reports._comparisons import comparison_report

        return comparison_report(path)
    except ImportError as error:
        raise missing_package(str(error.name), "compare") from None
