"""A report as figures for a paper: one PDF, SVG or PNG for every plot, the same bytes for the same report.

Letters stay letters, to be searched and copied, and their fonts lie in the file; no date is written.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from steadfed._core.durable import replace_file
from steadfed._core.wording import harmless
from steadfed.errors import ParameterError
from steadfed.reports._render.figure_style import FigureStyle
from steadfed.reports.panels import Bars, HeatMap, Lines, Panel, Report, Text

Kind = Literal["pdf", "svg", "png"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_ABOUT: Mapping[Kind, Mapping[str, str | None]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
_DPI = 300
_WIDE = FigureStyle(width=360.0, font_size=9.5)
"""Of two plots side by side, to be looked at on a screen."""


def write_pictures(report: Report, folder: Path, *, kind: Kind = "png", style: FigureStyle | None = None) -> list[Path]:
    """Write a file for every plot of a report, named after its key, and return them; the folder is made if need be.

    Raises:
        ParameterError: pictures are of another kind, or cannot be written.
        ImportError: matplotlib is not installed.
    """
    if kind not in KINDS:
        raise ParameterError(f"pictures are written as {' or '.join(KINDS)}, got {kind!r}")
    panels = [panel for section in report.sections for panel in section.panels]
    look = style or FigureStyle()
    drawn = {
        f"{panel.key}.{kind}": picture for panel in panels if (picture := picture_of(panel, kind, look)) is not None
    }
    return write_files(folder, drawn)


def write_files(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files by name into a folder, which is made if need be.

    Raises:
        ParameterError: they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            replace_file(folder / name, content)
    except OSError as error:
        raise ParameterError(
            f"cannot write to {str(folder)!r}: {error.strerror}; choose a folder that can be written"
        ) from None
    return [folder / name for name in contents]


def picture_of(panel: Panel, kind: Kind = "png", style: FigureStyle | None = None) -> bytes | None:
    """Return a panel as a picture; None if it is text or a table, or holds nothing to draw.

    Raises:
        ImportError: matplotlib is not installed.
    """
    if not isinstance(panel, (Lines, HeatMap, Bars)):
        return None
    return _picture([panel], kind, style or FigureStyle())


def write_picture(panels: Sequence[Lines | Text], path: Path) -> None:
    """Write curves, and words where there are none, side by side as one picture, .pdf, .svg or .png.

    Raises:
        ParameterError: the file is none of these, or cannot be written.
        ImportError: matplotlib is not installed.
    """
    content = _picture(panels, check_kind(path), _WIDE, notes=True)
    try:
        replace_file(path, content)
    except OSError as error:
        raise ParameterError(f"cannot write the plot {str(path)!r}: {error.strerror}") from None


def check_kind(path: Path) -> Kind:
    """Return what a plot is written as, by the name of its file.

    Raises:
        ParameterError: it is none that a plot can be written as.
    """
    for kind in KINDS:
        if path.suffix.lower() == f".{kind}":
            return kind
    raise ParameterError(f"a plot is written as .{' or .'.join(KINDS)}, got {str(path)!r}")


def _picture(panels: Sequence[Panel], kind: Kind, style: FigureStyle, *, notes: bool = False) -> bytes:
    """Return panels side by side; with notes, what there is to say of each stands in it."""
    import matplotlib as mpl

    from steadfed.reports._render.drawing import figure_of
    from steadfed.reports._render.svg_fonts import with_fonts

    chosen: Any = style.settings()
    with mpl.rc_context({**mpl.rcParamsDefault, **chosen}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names may be in any script
        figure = figure_of(panels, style, notes=notes)
        title = {"Title": harmless(panels[0].title, limit=200)} if kind != "png" else {}
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata={**_ABOUT[kind], **title}, dpi=_DPI)
    return with_fonts(buffer.getvalue()) if kind == "svg" else buffer.getvalue()
