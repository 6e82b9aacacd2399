"""Comparisons: rules against attacks over a grid of settings, with training, side by side, once each.

Names are imported when they are asked for: the table of results needs polars, of the extra `compare`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadfed._core.lazy import lazy_names

if TYPE_CHECKING:
    from steadfed.sweeps.runs._comparison import Comparison, ComparisonProgress
    from steadfed.sweeps.runs._figures import Figures
    from steadfed.sweeps.runs._grid import ComparisonGrid, parse_grid, read_grid, shipped_grids
    from steadfed.sweeps.runs._results import Result, read_results
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_comparison": ("Comparison", "ComparisonProgress"),
            "_figures": ("Figures",),
            "_grid": ("ComparisonGrid", "parse_grid", "read_grid", "shipped_grids"),
            "_results": ("Result", "read_results"),
        },
    )

__all__ = [
    "Comparison",
    "ComparisonGrid",
    "ComparisonProgress",
    "Figures",
    "Result",
    "parse_grid",
    "read_grid",
    "read_results",
    "shipped_grids",
]
