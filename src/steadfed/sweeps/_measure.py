"""What trials are ranked by: a name, a unit, a direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from steadfed._core.wording import number, percent


@final
@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a value means.

    >>> ACCURACY.text(0.912), Measure(name="mae", title="mean absolute error", is_share=False).text(0.912)
    ('91.2 %', '0.912')
    """

    name: str
    title: str
    """What people call it."""
    is_share: bool = True
    """Whether it is shown in percent."""
    higher_is_better: bool = True

    def rank(self, value: float) -> float:
        """Return the value, or its negative, so that larger is better."""
        return value if self.higher_is_better else -value

    def text(self, value: float) -> str:
        """Return a value as people read it."""
        return percent(value) if self.is_share else number(value)

    def distance(self, value: float) -> str:
        """Return how far two values are apart, in words."""
        return f"{100 * abs(value):.1f} points" if self.is_share else number(abs(value))


ACCURACY = Measure(name="accuracy", title="accuracy")
