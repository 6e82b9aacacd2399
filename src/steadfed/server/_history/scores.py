"""What the score of a rule means, in words and with its unit.

A record holds the number as the rule has it; what it says of a client is told here, for everybody who tells it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from steadfed._core.own_code import IMPORT

_MANY = 1e6
"""Beyond this a number is written with a power of ten."""


@final
@dataclass(frozen=True, kw_only=True)
class ScoreMeaning:
    """How a rule's scores are told."""

    sentence: str
    """What a score says of an update; {} is where the number stands."""
    unit: str
    """The same in a word or two, with {}."""
    squared: bool = False
    """Whether the score is the square of what is told."""
    infinite: str = "it lay farther from the others than a number can say"
    """What no score says, of an update that can be used."""

    @property
    def quantity(self) -> str:
        """What the number is of, without it: "distance", "standard deviations"; nothing where nobody knows."""
        return self.unit.replace("{}", "").strip().removeprefix("score")

    def value(self, score: float) -> float:
        """Return what is told: in the unit, not as the rule computes it."""
        return math.sqrt(score) if self.squared and score >= 0.0 else score

    def told(self, scores: Iterable[float]) -> str:
        """Return what scores say of an update, or of several: from the smallest to the largest."""
        return self.sentence.format(self.number(scores))

    def briefly(self, score: float) -> str:
        """Return the number and its unit."""
        return self.unit.format(self.number([score]))

    def number(self, scores: Iterable[float]) -> str:
        """Return the number alone, or those from the smallest to the largest."""
        values = sorted(map(self.value, scores))
        ends = dict.fromkeys((_digits(values[0]), _digits(values[-1])))
        return " to ".join(ends)


_DEVIATIONS = ScoreMeaning(
    sentence="its update lay {} standard deviations from the others along one direction",
    unit="{} standard deviations",
    squared=True,
    infinite="its update lay apart from the others, which agree",
)
_NEIGHBOURS = ScoreMeaning(
    sentence="the squared distances of its update to the nearest others sum to {}", unit="squared distances {}"
)
_DISTANCE = ScoreMeaning(sentence="its update lay at a distance of {} from the centre", unit="distance {}")
_LENGTH = ScoreMeaning(sentence="its update was {} long", unit="length {}")
_COORDINATES = ScoreMeaning(sentence="its update lay far out in a share of {} of the coordinates", unit="share {}")
_MEANINGS: Mapping[str, ScoreMeaning] = {
    **dict.fromkeys(("rage", "caf"), _DEVIATIONS),
    **dict.fromkeys(("krum", "multi-krum"), _NEIGHBOURS),
    **dict.fromkeys(("geometric-median", "geometric-median-of-means", "rfa", "centered-clipping", "smea"), _DISTANCE),
    "mda": ScoreMeaning(sentence="its update lay up to {} from the kept ones", unit="distance {}"),
    **dict.fromkeys(("mean", "norm-filter"), _LENGTH),
    **dict.fromkeys(("trimmed-mean", "median", "meamed", "slsgd"), _COORDINATES),
    "fltrust": ScoreMeaning(
        sentence="1 minus the cosine of its update's angle to the server's own was {}", unit="1 − cosine {}"
    ),
}


def meaning_of(rule: Any) -> ScoreMeaning:
    """Return how the scores of a rule are told, given the rule as config.toml has it.

    A wrapper hands on what the rule inside it says of the mixtures that stand for clients. RAGE's score is the largest
    squared deviation of an update from the weighted mean of the kept ones, along any direction that the filter looked
    along, divided by λ_max of the covariance of the kept ones. Its root is a number of standard deviations; the unit
    is the largest that the kept updates have along any direction, so along that very one they are at least so many.

    >>> meaning_of({"name": "rage", "num_byzantine": 1}).told([41.2**2, 38.0**2])
    'its update lay 38 to 41 standard deviations from the others along one direction'
    >>> meaning_of({"name": "my-rule"}).briefly(2.5)
    'score 2.5'
    """
    name, wrapped = "its rule", False
    while isinstance(rule, Mapping):
        name = str(rule.get("name", rule.get(IMPORT, name)))
        wrapped = wrapped or "rule" in rule
        rule = rule.get("rule")
    own = ScoreMeaning(sentence=f"its score was {{}}, as {_plain(name)} measures suspicion", unit="score {}")
    found = _MEANINGS.get(name, own)
    if not wrapped or found is own:
        return found
    return ScoreMeaning(
        sentence=found.sentence.replace("its update", "the mixture that stands for its update"),
        unit=found.unit,
        squared=found.squared,
        infinite=found.infinite.replace("its update", "the mixture that stands for its update"),
    )


def _plain(name: str) -> str:
    """Return a name that a sentence with places for numbers may hold."""
    return name.replace("{", "").replace("}", "")


def _digits(value: float) -> str:
    """Return a number with as many digits as one compares.

    >>> [_digits(each) for each in (0.0, 0.041234, 3.14, 41.2, 98765.4, 3.5e12)]
    ['0', '0.041', '3.1', '41', '98,765', '3.5e+12']
    """
    if abs(value) >= _MANY:
        return f"{value:.1e}"
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"
