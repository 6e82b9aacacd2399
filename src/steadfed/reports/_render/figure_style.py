"""How a figure for a paper looks: its width, its letters, its colours.

Curves have the colours of Okabe and Ito (Color Universal Design, 2008, https://jfly.uni-koeln.de/color/), the pale ones
darkened so that a thin line is seen on white, and lightened for dark slides; and each a marker of its own, so that
nothing hangs on colour. Maps have cividis (Nuñez, Anderton and Renslow, PLOS ONE 13(7), 2018,
https://doi.org/10.1371/journal.pone.0199239): its lightness rises evenly, also for people who see no red or green, and
in print without colours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from pydantic import BeforeValidator, Field

from steadfed._core.values import ValueObject

SINGLE, DOUBLE = 85.0, 178.0
"""Millimetres of one column of a paper, and of both."""
NARROWEST, WIDEST = 40.0, 400.0
SMALLEST, LARGEST = 4.0, 24.0
"""Points of letters."""
POINT = 72.0 / 25.4
"""Points in a millimetre."""
_COLUMNS: Mapping[str, float] = {"single": SINGLE, "double": DOUBLE}


def _width(value: Any) -> Any:
    """Return a width as it is meant: a name, or millimetres, also as a text with the unit."""
    if value in _COLUMNS:
        return value
    try:
        found = float(value.removesuffix("mm") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        found = math.nan
    if not NARROWEST <= found <= WIDEST:
        named = ", ".join(f"{name} ({wide:g} mm)" for name, wide in _COLUMNS.items())
        raise ValueError(f"should be {named}, or from {NARROWEST:g} to {WIDEST:g} millimetres")
    return found


Width = Annotated[Literal["single", "double"] | float, BeforeValidator(_width)]


@final
class FigureStyle(ValueObject):
    """How figures look: as wide as a column, with letters as large as those of the paper.

    >>> FigureStyle(width="double", font_size=9).millimetres
    178.0
    >>> FigureStyle(width="120mm").millimetres
    120.0
    """

    width: Width = "single"
    """Of a figure: single (85 mm), double (178 mm), or from 40 to 400 millimetres."""
    font_size: float = Field(default=8.0, ge=SMALLEST, le=LARGEST)
    """Points of the letters, from 4 to 24; nothing is written smaller than seven eighths of it."""
    style: Literal["light", "dark"] = "light"
    """Dark letters on white paper, or light ones on a dark slide."""

    @property
    def millimetres(self) -> float:
        """How wide a figure is."""
        return _COLUMNS[self.width] if isinstance(self.width, str) else self.width

    @property
    def colours(self) -> Colours:
        """What is drawn in which colour."""
        return DARK if self.style == "dark" else LIGHT

    @property
    def small(self) -> float:
        """Points of what explains the rest."""
        return 0.875 * self.font_size

    def settings(self) -> dict[str, Any]:
        """Return what matplotlib is told."""
        colours, size = self.colours, self.font_size
        inks = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
        lines = ("axes.edgecolor", "xtick.color", "ytick.color")
        papers = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
        return {
            **dict.fromkeys(inks, colours.ink),
            **dict.fromkeys(lines, colours.quiet),
            **dict.fromkeys(papers, colours.paper),
            **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), size),
            **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), self.small),
            "font.family": "DejaVu Sans",
            "axes.linewidth": 0.6,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.axisbelow": True,
            "axes.labelpad": 2.5,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "xtick.major.size": 2.5,
            "ytick.major.size": 2.5,
            "xtick.major.pad": 2.0,
            "ytick.major.pad": 2.0,
            "hatch.linewidth": 0.5,
            "legend.frameon": False,
            "legend.handlelength": 1.8,
            "legend.handletextpad": 0.5,
            "legend.labelspacing": 0.3,
            "pdf.fonttype": 42,
            "svg.fonttype": "none",
            "svg.hashsalt": "steadfed",
            "text.parse_math": False,  # dollar signs begin no formula
        }


@final
@dataclass(frozen=True, kw_only=True)
class Colours:
    """What is drawn in which colour."""

    paper: str
    ink: str
    quiet: str
    grid: str
    flag: str
    """Of truly Byzantine clients, and where an attack starts."""
    series: tuple[str, ...]


LIGHT = Colours(
    paper="#FFFFFF", ink="#1B2430", quiet="#586474", grid="#E0E5EB", flag="#C8440B",
    series=(
        "#0072B2", "#D55E00", "#009E73", "#B8578F", "#D99500", "#3FA3DC", "#6A51A3", "#39424E", "#8C6D31", "#8A94A0",
    ),
)  # fmt: skip
"""On white paper; curves in the order of the page's."""
DARK = Colours(
    paper="#161D26", ink="#E4EAF1", quiet="#9BA8B8", grid="#2B3542", flag="#FF8C4D",
    series=(
        "#4EA8DE", "#FF8C42", "#3EC79A", "#E294C2", "#F2BD4B", "#8FD0F5", "#AB97E0", "#D5DCE4", "#CDAE6F", "#8C98A6",
    ),
)  # fmt: skip
"""On a dark slide."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
"""One for each colour."""
