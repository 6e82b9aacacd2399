"""What a notebook shows of a run: the facts that `steadfed show` prints, and the plots of the report."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import partial
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from steadfed._core.lookup import find
from steadfed._core.wording import prose
from steadfed.errors import RunError
from steadfed.reports._reporting import live_sections
from steadfed.reports._sections.overview import overview
from steadfed.reports.panels import Bars, HeatMap, Lines, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from steadfed.server._history import RunHistory

_FIRST = ("accuracy", "loss")
"""The plot that is shown first: of these the first that a run has."""
_DPI, _WIDTH, _LETTERS = 100, 175.0, 9.0
"""Of what a notebook shows: points to an inch, millimetres of a plot, points of a letter."""


def plots_of(history: RunHistory) -> dict[str, Panel]:
    """Return the plots of a run's report by their names; those that need data or a model are not among them."""
    panels = (panel for section in live_sections([history]) for panel in section.panels)
    return {panel.key: panel for panel in panels if isinstance(panel, (Lines, HeatMap, Bars))}


def figure_of_run(history: RunHistory, names: Sequence[str]) -> Figure:
    """Return plots of a run's report side by side, as a figure of matplotlib.

    Raises:
        RunError: matplotlib is not installed, or there is nothing to draw yet.
        UnknownNameError: the run has no plot of that name.
    """
    if find_spec("matplotlib") is None:
        raise RunError("matplotlib is not installed, and plot needs it: pip install 'steadfed[plot]'")
    found = plots_of(history)
    if not found:
        raise RunError(f"{str(history.path)!r} has no round yet that could be drawn")
    wanted = names or _usual(found)
    figure = _drawn([find("plot", name, found) for name in wanted])
    vars(figure)["_repr_png_"] = partial(_png, figure)  # a notebook shows it, with pyplot or without
    return figure


def _drawn(panels: Sequence[Panel]) -> Figure:
    import matplotlib as mpl

    from steadfed.reports._render.drawing import figure_of
    from steadfed.reports._render.figure_style import FigureStyle

    style = FigureStyle(width=_WIDTH * len(panels), font_size=_LETTERS)
    look: Any = style.settings()
    with mpl.rc_context({**mpl.rcParamsDefault, **look}):
        return figure_of(panels, style)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def page_of_run(history: RunHistory) -> str:
    """Return what a notebook shows of a run: a table of facts, and if matplotlib is there its first plot."""
    table = overview(history) if history.raw else None
    rows = "".join(
        f"<tr><th style='text-align:left'>{_shown(name)}</th><td style='text-align:left'>{_shown(value)}</td></tr>"
        for name, value in (table.rows if table is not None else (("state", str(history.state)),))
    )
    return f"<p><strong>{_shown(history.path)}</strong></p><table>{rows}</table>{_picture(history)}"


def _picture(history: RunHistory) -> str:
    found = plots_of(history) if find_spec("matplotlib") is not None and history.rounds_played else {}
    for name in _usual(found):
        data = base64.b64encode(_png(_drawn([found[name]]))).decode()
        return f"<img alt='{_shown(found[name].title)}' style='max-width:40rem' src='data:image/png;base64,{data}'>"
    return ""


def _usual(found: dict[str, Panel]) -> list[str]:
    return [name for name in (*_FIRST, *found) if name in found][:1]


def _shown(text: object) -> str:
    """Return text that comes from a run, as text."""
    return escape(prose(text))
