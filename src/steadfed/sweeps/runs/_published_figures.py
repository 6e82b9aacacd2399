"""Figures that somebody else has published, to be put beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from steadfed._core.ranges import check_between
from steadfed.errors import ParameterError

_FIGURE = "percent"


@final
@dataclass(frozen=True, kw_only=True)
class PublishedFigure:
    """An accuracy that others report, and the settings of the grid that it belongs to."""

    settings: Mapping[str, str | int | float]
    """Keys of the grid to the labels of their choices; keys that are not named may be anything."""
    accuracy: float
    """A share, mean over the seeds of those who report it."""

    def belongs_to(self, settings: Mapping[str, Any]) -> bool:
        """Return whether this is about these settings."""
        return all(settings.get(key) == value for key, value in self.settings.items())


def published_figures(entries: Any) -> tuple[PublishedFigure, ...]:
    """Return the figures of the tables [[published]]: settings shared by a table, and percentages by attack.

    >>> published_figures([{"rule": "rfa", "percent": {"alie": 79.7, "mimic": 78.9}}])[1].settings
    {'rule': 'rfa', 'attack': 'mimic'}
    """
    if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
        raise ParameterError(f"published must be tables [[published]], got {entries!r}")
    return tuple(figure for entry in entries for figure in _figures(entry))


def _figures(entry: Mapping[str, Any]) -> list[PublishedFigure]:
    by_attack = entry.get(_FIGURE)
    if not isinstance(by_attack, Mapping) or not by_attack:
        raise ParameterError(f"a table [[published]] needs {_FIGURE} = {{ attack = number, … }}, got {dict(entry)!r}")
    shared = {key: value for key, value in entry.items() if key != _FIGURE}
    return [
        PublishedFigure(settings={**shared, "attack": attack}, accuracy=_share(attack, value))
        for attack, value in by_attack.items()
    ]


def _share(attack: str, value: Any) -> float:
    return check_between(f"published.{_FIGURE}.{attack}", value, 0.0, 100.0, "a number from 0 to 100") / 100.0
