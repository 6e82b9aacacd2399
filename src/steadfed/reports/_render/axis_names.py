"""Names along the axes of plots: short, each once, upright or slanted, as there is room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from steadfed._core.wording import harmless
from steadfed.reports._render.labels import label

FLAG = "◆"
"""What stands before the name of a truly Byzantine client."""
LONGEST_NAME = 18
"""Letters of the name of a row or a bar; the whole name is shown by the pointer."""
_UPRIGHT = {6: 16, 13: 6}
"""Letters of names that stand side by side, and how many of such names do."""
_WORDS, _LINE = 16, 110
"""So many words are all shown on an axis, and so many letters stand side by side in the window of a desktop."""


def axis_names(texts: Iterable[str], flagged: Iterable[int] = ()) -> list[str]:
    """Return names for an axis, short and each once: a space without width after it tells a name from its equals."""
    marked, taken, found = set(flagged), set[str](), []
    for place, short in enumerate(shorten_names(list(texts))):
        name = f"<b>{FLAG} {label(short)}</b>" if place in marked else label(short)
        while name in taken:
            name += "\u200b"
        taken.add(name)
        found.append(name)
    return found


def shorten_names(texts: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Return texts cut in their middles, as their ends often tell them apart; less if they would look the same.

    >>> shorten_names(["dirichlet alpha=1.0", "dirichlet alpha=0.1"])
    ['dirichle…alpha=1.0', 'dirichle…alpha=0.1']
    """
    whole = [harmless(text, limit=400) for text in texts]
    for limit in (longest, 2 * longest):
        half = limit // 2
        cut = [text if len(text) <= limit else f"{text[: half - 1]}…{text[-half:]}" for text in whole]
        if len(set(cut)) == len(set(whole)):
            break
    return cut


def category_axis(title: str, names: Sequence[str]) -> dict[str, Any]:
    """Return an axis of names: few words are all shown, slanted if need be; of numbers of rounds some are left out."""
    axis = {"type": "category", "title": {"text": label(title)}, "showgrid": False}
    if _few_words(names):
        return {**axis, "tickmode": "linear", "dtick": 1, "tickangle": "auto"}
    many = _side_by_side(names)
    return axis if many is None else {**axis, "nticks": many, "tickangle": 0, "automargin": False}


def needs_slant(names: Sequence[str]) -> bool:
    """Tell whether names along an axis have no room upright, in the window of a desktop."""
    if _few_words(names):
        return len(names) * (max(map(len, names), default=0) + 2) > _LINE
    return _side_by_side(names) is None


def _few_words(names: Sequence[str]) -> bool:
    return len(names) <= _WORDS and not are_numbers(names)


def _side_by_side(names: Sequence[str]) -> int | None:
    """Return how many of such names stand side by side upright; None if they are too long for that."""
    longest = max(map(len, names), default=0)
    return next((number for letters, number in _UPRIGHT.items() if longest <= letters), None)


def are_numbers(names: Sequence[str]) -> bool:
    """Tell whether names are numbers or spans of them, such as rounds, so that those left out can be guessed.

    >>> are_numbers(["0–4", "5–9"]), are_numbers(["ipm-0.1", "ipm-100"])
    (True, False)
    """
    return all(name.strip("0123456789–-., ") == "" for name in names)
