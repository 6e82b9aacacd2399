"""How much room letters take in a picture before it is drawn, so that titles break and names turn where they must."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from steadfed._core.wording import harmless
from steadfed.reports._render.axis_names import LONGEST_NAME, are_numbers, shorten_names

_MOST_TURNED = 60
"""Words along an axis; of more, some are left out."""
_GAP = 1.2
"""Letters between two names that stand side by side."""
_SLANT = 40.0
_MOST_SLANTED = 16


def plain(text: str, *, limit: int = 60) -> str:
    """Return text that a picture can show, in a line."""
    return harmless(text, limit=limit)


def widths(texts: Iterable[str], size: float, *, bold: bool = False) -> list[float]:
    """Return how many points texts are wide in letters of a size."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return [float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) for text in texts]


def widest(texts: Iterable[str], size: float) -> float:
    """Return how many points the widest of some texts takes; 0 of none."""
    return max(widths(texts, size), default=0.0)


def wrapped(text: str, points: float, size: float, *, bold: bool = False) -> list[str]:
    """Return a text in lines that are no wider than so many points."""
    whole = widths([text], size, bold=bold)[0]
    if whole <= points:
        return [text] if text else []
    letters = max(8, int(0.94 * points * len(text) / whole))
    return textwrap.wrap(text, letters)


def names_along(names: Sequence[str], points: float, size: float) -> tuple[list[int], list[str], float]:
    """Return which places of an axis have their names written, the names, and by how many degrees they are turned.

    Of numbers, such as rounds, some are left out until the others fit side by side; words that do not fit are slanted,
    or turned by a quarter if there are many.

    Args:
        names: of all places, evenly spread.
        points: how long the axis is.
        size: of the letters.
    """
    short = [plain(name, limit=80) for name in shorten_names(names, most_letters(points, size))]
    room = points / max(1, len(short))
    needed = widest(short, size) + _GAP * size
    if needed <= room:
        return list(range(len(short))), short, 0.0
    if are_numbers(names):
        places = round_steps(len(short), max(2, int(points / needed)))
        return places, [short[place] for place in places], 0.0
    places = spread(len(short), min(_MOST_TURNED, max(2, int(points / (1.15 * size)))))
    chosen = [short[place] for place in places]
    return places, chosen, _SLANT if len(places) <= _MOST_SLANTED else 90.0


def most_letters(points: float, size: float) -> int:
    """Return how many letters a name along an axis of some points may have before it is cut."""
    return max(LONGEST_NAME, int(points / (1.6 * size)))


def round_steps(number: int, most: int) -> list[int]:
    """Return at most so many places of an axis of numbers, a round number of places apart.

    >>> round_steps(200, 7)
    [0, 50, 100, 150]
    """
    least = max(1, -(-number // most))
    step = next(digit * 10**power for power in range(20) for digit in (1, 2, 5) if digit * 10**power >= least)
    return list(range(0, number, step))


def spread(number: int, most: int) -> list[int]:
    """Return at most so many places of an axis, evenly spread from the first."""
    return list(range(0, number, max(1, -(-number // most))))
