"""What came of a run in a few counts: rows kept and removed, the last and the best accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from holdfast.reports.columns import Status
from holdfast.reports.stories import Story

EVALUATED = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
"""What is known of a model in rounds with an evaluation."""

_HALF = 0.5
_ROUNDING = 1e-5
"""Errors below this part of the updates' size are rounding, of rounds without Byzantine rows."""


@final
@dataclass(frozen=True, kw_only=True)
class Tally:
    """How the rule of a run told rows apart, and what came of it; counts of Byzantine rows only if they are known."""

    rows: int
    """Rows that were kept or removed; malformed replies count in skipped rounds as well."""
    removed: int
    byzantine: int | None
    """How many of the rows were Byzantine; None in a deployment."""
    byzantine_removed: int
    byzantine_weight: float | None
    """The share of the updates' weight that came from Byzantine rows; None if it is not known."""
    honest_reduced: int
    """Honest rows that were kept, with less than half of an equal share; all rows in a deployment."""
    absent: int
    """How often a client sent nothing."""
    malformed: int
    """How often a reply was no model, or held no usable numbers."""
    skipped: int
    """Rounds that changed nothing."""
    promise_broken: int
    """Rounds whose rows contradicted what was assumed."""

    @property
    def honest(self) -> int:
        """How many rows were honest, as far as the records know."""
        return self.rows - (self.byzantine or 0)

    @property
    def honest_removed(self) -> int:
        """How many of those were removed."""
        return self.removed - self.byzantine_removed

    @property
    def byzantine_kept(self) -> int:
        """How many Byzantine rows got weight."""
        return (self.byzantine or 0) - self.byzantine_removed

    @property
    def precision(self) -> float | None:
        """Which share of the removals hit Byzantine rows; None without removals, or if nobody knows."""
        return self.byzantine_removed / self.removed if self.removed and self.byzantine is not None else None

    @property
    def recall(self) -> float | None:
        """Which share of the Byzantine rows was removed; None without any, or if nobody knows."""
        return self.byzantine_removed / self.byzantine if self.byzantine else None


def tally_of(story: Story) -> Tally:
    """Count."""
    entries = story.entries
    judged, removed = entries.judged, entries.removed
    lying = entries.byzantine & judged
    weight = np.nansum(entries.weight[judged])
    return Tally(
        rows=int(judged.sum()),
        removed=int(removed.sum()),
        byzantine=None if story.deployed else int(lying.sum()),
        byzantine_removed=0 if story.deployed else int((lying & removed).sum()),
        byzantine_weight=None if story.deployed or not weight else float(np.nansum(entries.weight[lying]) / weight),
        honest_reduced=int((judged & ~removed & ~lying & (entries.weight < _HALF)).sum()),
        absent=int((entries.status == Status.ABSENT).sum()),
        malformed=int((entries.status >= Status.UNUSABLE).sum()),
        skipped=int(np.nansum(story.column("skipped"))),
        promise_broken=int(np.nansum(story.column("promise_broken"))),
    )


def evaluated(story: Story) -> NDArray[np.int64]:
    """Return the rounds after which the model was looked at."""
    known = [np.isfinite(story.column(name)) for name in EVALUATED]
    return np.flatnonzero(np.logical_or.reduce(known))


def real_errors(story: Story) -> NDArray[np.float64]:
    """Return every round's distance between its update and the honest mean, NaN if it is unknown or mere rounding."""
    error, size = story.column("error"), story.column("update_norm")
    scatter = np.sqrt(np.nan_to_num(story.column("honest_scatter")))
    return np.where(error > _ROUNDING * np.fmax(np.nan_to_num(size), scatter), error, np.nan)


def last_and_best(story: Story, name: str) -> tuple[float, float, int] | None:
    """Return a figure's last value, its largest, and the round of that; None if it was never known."""
    column = story.column(name)
    known = np.flatnonzero(np.isfinite(column))
    if not len(known):
        return None
    best = int(known[np.argmax(column[known])])
    return float(column[known[-1]]), float(column[best]), best
