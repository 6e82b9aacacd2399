"""Numbers along the axes of pictures, in plain letters: what is no formula can be searched and copied."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steadfed.reports._render.letters import names_along
from steadfed.reports.panels import Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = range(-2, 4)
"""Powers of ten that are written as numbers."""
_FEW_DECADES = 1.2
"""Of an axis on which twice and five times a power are named, too."""


def power_text(value: float, _place: int | None = None) -> str:
    """Return a number of a logarithmic axis.

    >>> power_text(0.01), power_text(2e-7), power_text(1e6), power_text(500.0)
    ('0.01', '2·10⁻⁷', '10⁶', '500')
    """
    if value <= 0.0:
        return ""
    power = math.floor(math.log10(value) + 1e-9)
    if power in _PLAIN:
        return f"{value:.6g}"
    digit = f"{value / 10.0**power:.3g}"
    raised = f"10{str(power).translate(_RAISED)}"
    return raised if digit == "1" else f"{digit}·{raised}"


def format_axis(axis: Any, unit: Unit) -> None:
    """Write the numbers of an axis as what they are."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator, PercentFormatter

    if unit is Unit.PERCENT:
        axis.set_major_formatter(PercentFormatter(xmax=1.0, symbol=" %"))
    elif unit is Unit.BYTES:
        axis.set_major_formatter(EngFormatter(unit="B"))
        axis.set_major_locator(MaxNLocator(nbins=5))
    else:
        axis.set_major_formatter(FuncFormatter(_number))


def _number(value: float, _place: int | None = None) -> str:
    """Return a number of an even axis.

    >>> _number(200.0), _number(-0.25), _number(12000.0), _number(3e-05)
    ('200', '−0.25', '12,000', '3e−05')
    """
    text = f"{value:,.0f}" if abs(value) >= 1_000 and value == round(value) else f"{value:.6g}"
    return text.replace("-", "−")


def logarithmic(axis: Any, values: Sequence[float]) -> None:
    """Name powers of ten, and on a short axis twice and five times those."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = math.log10(max(values) / min(values)) if min(values) > 0.0 else math.inf
    text: Callable[[float, int | None], str] = power_text
    subs = (1.0, 2.0, 5.0) if decades < _FEW_DECADES else (1.0,)
    axis.set_major_locator(LogLocator(base=10.0, subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())


def name_below(axes: Axes, names: Sequence[str], points: float, size: float) -> list[int]:
    """Write names below an axis so that none covers another, and return the places of those that are there."""
    places, shown, turned = names_along(names, points, size)
    axes.set_xticks(places, shown)
    if turned:
        slanted: Any = {"rotation": turned, "ha": "right" if turned < 90.0 else "center", "rotation_mode": "anchor"}
        if turned >= 90.0:
            slanted = {"rotation": 90.0}
        for label in axes.get_xticklabels():
            label.set(**slanted)
    return places
