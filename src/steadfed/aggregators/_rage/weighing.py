r"""How much each row counts, and how much of that may be Byzantine: docs/theory/filter.md, section 5.5.

The filter starts from c = w in the place of 1, w_i the weight that the operator gave to the site of row i over the
largest one. What was counted in rows is then counted in weight: W = Σ w for n, F for f, W − 2F for the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Vector
from steadfed._core.wording import percent
from steadfed.errors import CohortTooSmallError

ROUNDING = 1e-9
"""Share of a weight that is rounding: a site that holds exactly F may be Byzantine."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighing:
    """What the rows weigh, in units of the largest usable one, and what of it may be Byzantine."""

    weights: Vector
    """Of all K rows."""
    byzantine: float
    """F, as it was told: ε of the weight of all that were asked, or the f largest weights."""

    @classmethod
    def of_share(cls, weights: Vector, usable: NDArray[np.bool_], share: float, asked: float) -> Weighing:
        """Return the weighing in which so large a share of what the asked ones weigh may be Byzantine."""
        largest = float(weights[usable].max())
        return cls(weights=weights / largest, byzantine=share * max(asked, float(weights.sum())) / largest)

    @classmethod
    def of_number(cls, weights: Vector, usable: NDArray[np.bool_], number: int) -> Weighing:
        """Return the weighing in which any `number` of rows may be Byzantine: those with the largest weights, too."""
        scaled = weights / float(weights[usable].max())
        return cls(weights=scaled, byzantine=float(np.sort(scaled)[::-1][:number].sum()))

    @property
    def most_rows(self) -> int:
        """How many rows may be Byzantine at the most: the lightest ones, as far as F goes."""
        return most_within(self.weights, self.byzantine)

    def evidence(self) -> dict[str, list[float] | float]:
        """Return what each row holds of the weight of those that answered, and which share may be Byzantine."""
        total = float(self.weights.sum())
        return {"site_shares": (self.weights / total).tolist(), "byzantine_weight": self.byzantine / total}

    def unusable(self, usable: NDArray[np.bool_]) -> float:
        """Return what the unusable rows weigh; they count as Byzantine."""
        return float(self.weights[~usable].sum())

    def exceeded(self, usable: NDArray[np.bool_]) -> bool:
        """Return whether the unusable rows weigh more than may be Byzantine."""
        return self.unusable(usable) > self.byzantine + ROUNDING * float(self.weights.sum())

    def excess_words(self, usable: NDArray[np.bool_]) -> str | None:
        """Return a sentence that says that unusable rows weigh more than may be Byzantine; None if they do not."""
        if not self.byzantine or not self.exceeded(usable):
            return None
        total = float(self.weights.sum())
        return (
            f"updates with {percent(self.unusable(usable) / total)} of the weight are unusable, more than the "
            f"{percent(self.byzantine / total)} assumed to be Byzantine"
        )

    def left(self, usable: NDArray[np.bool_]) -> float:
        """Return F of the usable rows."""
        left = self.byzantine - self.unusable(usable)
        return left if left > ROUNDING * float(self.weights.sum()) else 0.0

    def check(self, usable: NDArray[np.bool_], rule: object) -> None:
        """Refuse to filter if half of the weight, or more, may be Byzantine.

        Raises:
            CohortTooSmallError: that is so.
        """
        total, bad = float(self.weights[usable].sum()), self.left(usable)
        if 2.0 * bad < total * (1.0 - ROUNDING):
            return
        raise CohortTooSmallError(
            f"{rule!r} lets {percent(bad / total)} of the weight of {int(usable.sum())} updates be Byzantine, and it "
            f"must be less than half (the heaviest holds {percent(1.0 / total)}): assume less, as byzantine_weight, or "
            f"cap shares by max_share"
        )


def most_within(weights: Vector, limit: float) -> int:
    """Return how many of the weights fit into a limit together, the lightest first.

    >>> most_within(np.array([5.0, 1.0, 2.0]), 3.0), most_within(np.array([5.0, 1.0, 2.0]), 8.0)
    (2, 3)
    """
    return int((np.cumsum(np.sort(weights)) <= limit + ROUNDING * float(weights.sum())).sum())
