"""Reports of runs and comparisons as files: what `steadfed report` does, for programs.

folders ──► gather ──► Report ──► write: one page, figures and tables of a paper, or numbers
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from steadfed._core.lookup import nearest
from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.reports._render.html import missing_package, write_page

if TYPE_CHECKING:
    from steadfed.reports._render.figure_style import FigureStyle
    from steadfed.reports.panels import Report
    from steadfed.server._history import RunHistory

PAGE = "report.html"
"""The page in the folder of a run."""
RESULTS = "results.parquet"
"""What the folder of a comparison holds."""


class Format(StrEnum):
    """What a report is written as."""

    HTML = "html"
    PDF = "pdf"
    SVG = "svg"
    PNG = "png"
    LATEX = "latex"
    CSV = "csv"


PICTURES: Mapping[Format, Literal["pdf", "svg", "png"]] = {
    Format.PDF: "pdf",
    Format.SVG: "svg",
    Format.PNG: "png",
}
"""What is drawn as figures for a paper."""
_NEEDED = {Format.HTML: (("jinja2", "plotly"), "report"), **dict.fromkeys(PICTURES, (("matplotlib",), "plot"))}
"""The packages that write a format, and the extra that brings them."""
_LOOKS = {**dict.fromkeys(PICTURES, ("width", "font_size", "style")), Format.LATEX: ("width", "font_size")}
"""What may be chosen of the looks of a format; nothing for the others."""


def report(
    *paths: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    format: str = Format.HTML,  # noqa: A002  as the option is called
    width: str | float | None = None,
    font_size: float | None = None,
    style: str | None = None,
    guarantee: bool = True,
    code: bool = True,
) -> Path:
    """Write the report of a run, of several side by side, or of a comparison, and return where it is.

    Args:
        paths: folders of runs, folders that hold such folders, or the folder of one comparison.
        out: the page, or the folder of what is several files; in the folder of the run if left out, in the current one
            if several are given.
        format: html for one page; pdf, svg or png for a figure of every plot; latex for every table and map of numbers;
            csv for all the numbers.
        width: of figures and tables: single (85 mm, if left out), double (178 mm), or of figures so many millimetres.
        font_size: of the letters of figures and tables, in points; 8 if left out.
        style: of figures: light or dark.
        guarantee: whether to say which theorems apply and what they guarantee, which takes some seconds a run.
        code: whether data may be loaded and models built, which executes code that a configuration names for them.

    Returns:
        The page, or the folder that holds the files.

    Raises:
        CorruptRunError: there is no run in one of the folders.
        ParameterError: no folder is given, a comparison is not alone, or the looks are none that the format has.
        RunError: the page cannot be written, or the extra is not installed; the message says how to get it.
    """
    folders = [Path(path) for path in paths]
    kind = _format_named(format)
    look = look_of(kind, width=width, font_size=font_size, style=style)
    check_installed(kind)
    place = Path(out) if out is not None else usual_place(folders, kind)
    found = gather(folders, guarantee=guarantee, code=code, whole=kind is Format.CSV)
    written = write(found, kind, place, look)
    return written[0] if kind is Format.HTML else place


def _format_named(name: str) -> Format:
    known = [each.value for each in Format]
    if name not in known:
        raise ParameterError(f"no format {name!r}{nearest(name, known)}; known: {', '.join(known)}")
    return Format(name)


def look_of(
    kind: Format, *, width: str | float | None, font_size: float | None, style: str | None, dashes: str = ""
) -> FigureStyle | None:
    """Return how the figures or tables of a format look; None if it is neither.

    Args:
        kind: the format.
        width: as it was given, or None.
        font_size: as it was given, or None.
        style: as it was given, or None.
        dashes: what stands before the names of what was given, as on a command line.

    Raises:
        ParameterError: the format has no such look, or the value is none of those that are allowed.
    """
    given = {"width": width, "font_size": font_size, "style": style}
    given = {name: value for name, value in given.items() if value is not None}
    allowed = _LOOKS.get(kind, ())
    for name, value in given.items():
        if name not in allowed:
            option = dashes + (name.replace("_", "-") if dashes else name)
            having = ", ".join(each.value for each in Format if name in _LOOKS.get(each, ()))
            raise ParameterError(f"{option} is for {having}, got {value!r} for {kind.value}; leave it out")
    if not allowed:
        return None
    from steadfed.reports._render.figure_style import FigureStyle

    look = FigureStyle(**given)
    if kind is Format.LATEX and not isinstance(look.width, str):
        raise ParameterError(f"a table is as wide as its cells: {dashes}width is single or double, got {width!r}")
    return look


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


def write(found: Report, kind: Format, place: Path, look: FigureStyle | None = None) -> list[Path]:
    """Write a report, and return the files: one page, or a picture or table for every panel."""
    if kind is Format.HTML:
        path = place / PAGE if place.is_dir() else place
        write_page(found, path)
        return [path]
    if kind is Format.CSV:
        from steadfed.reports._render.csv import write_tables

        return write_tables(found, place)
    if kind is Format.LATEX:
        from steadfed.reports._render.latex import write_latex

        return write_latex(found, place, style=look)
    from steadfed.reports._render.image import write_pictures

    return write_pictures(found, place, kind=PICTURES[kind], style=look)


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
