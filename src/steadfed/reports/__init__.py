"""What a run shows: histories of runs as panels, and panels as a page, as figures and tables of a paper, or numbers.

Names are imported when they are asked for: pages, pictures and tables each need libraries of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadfed._core.lazy import lazy_names

if TYPE_CHECKING:
    from steadfed.reports._comparisons import comparison_report
    from steadfed.reports._render.csv import write_tables
    from steadfed.reports._render.figure_style import FigureStyle
    from steadfed.reports._render.html import render, write_page
    from steadfed.reports._render.image import write_pictures
    from steadfed.reports._render.latex import write_latex
    from steadfed.reports._render.terminal import show
    from steadfed.reports._report import Format, report
    from steadfed.reports._reporting import report_of
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_comparisons": ("comparison_report",),
            "_render.csv": ("write_tables",),
            "_render.figure_style": ("FigureStyle",),
            "_render.html": ("render", "write_page"),
            "_render.image": ("write_pictures",),
            "_render.latex": ("write_latex",),
            "_render.terminal": ("show",),
            "_report": ("Format", "report"),
            "_reporting": ("report_of",),
        },
        always=("panels",),
    )

__all__ = [
    "FigureStyle",
    "Format",
    "comparison_report",
    "render",
    "report",
    "report_of",
    "show",
    "write_latex",
    "write_page",
    "write_pictures",
    "write_tables",
]
