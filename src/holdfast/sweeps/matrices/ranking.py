"""What the records say: the worst case of every rule, ranked, and where which rule is best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.sweeps.matrices.record import Record

NO_ATTACK = "none"
"""The label of the cells in which nobody attacks."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One rule over all its records."""

    rule: str
    worst: Record | None
    """The record with the largest error under attack; None if the rule refused everything."""
    mean_error: float
    worst_by_dim: dict[int, float]
    """The largest error under attack for every dimension."""
    honest_weight_lost: float
    """The mean share of honest weight lost where nobody attacks."""
    byzantine_weight: float
    """The mean share of the update that came from forged rows."""
    seconds: float
    """The median time of an aggregation of the largest matrices."""
    num_refused: int

    @property
    def worst_error(self) -> float:
        """The largest error under attack; infinite if there is none to show."""
        return float("inf") if self.worst is None or self.worst.error is None else self.worst.error


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Where another rule had a smaller worst case."""

    cohort_size: int
    dim: int
    num_byzantine: int
    model: str
    winner: str
    winner_error: float
    error: float


def standings(records: Iterable[Record]) -> list[Standing]:
    """Return every rule's standing, the smallest worst case first."""
    by_rule: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_rule[record.rule].append(record)
    return sorted((_standing(rule, each) for rule, each in by_rule.items()), key=lambda standing: standing.worst_error)


def better_than(rule: str, records: Sequence[Record]) -> list[Contest]:
    """Return every (K, d, f, model) in which another rule has a smaller worst case over all attacks, and which one.

    Only rules that refused none of the attacks there take part: a rule that declines has no worst case.
    """
    worst: dict[tuple[int, int, int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for record in records:
        if record.attack != NO_ATTACK:
            cell = (record.cohort_size, record.dim, record.num_byzantine, record.model)
            error = float("inf") if record.error is None else record.error
            worst[cell][record.rule] = max(worst[cell][record.rule], error)
    contests = []
    for (cohort_size, dim, num_byzantine, model), errors in sorted(worst.items()):
        winner = min(errors, key=errors.__getitem__)
        if rule in errors and errors[winner] < errors[rule]:
            contests.append(
                Contest(
                    cohort_size=cohort_size,
                    dim=dim,
                    num_byzantine=num_byzantine,
                    model=model,
                    winner=winner,
                    winner_error=errors[winner],
                    error=errors[rule],
                )
            )
    return contests


def _standing(rule: str, records: Sequence[Record]) -> Standing:
    attacked = [record for record in records if record.attack != NO_ATTACK and record.error is not None]
    peaceful = [record for record in records if record.attack == NO_ATTACK and record.error is not None]
    by_dim: dict[int, float] = defaultdict(float)
    for record in attacked:
        by_dim[record.dim] = max(by_dim[record.dim], record.error or 0.0)
    largest = max((record.dim * record.cohort_size for record in attacked), default=0)
    return Standing(
        rule=rule,
        worst=max(attacked, key=lambda record: record.error or 0.0, default=None),
        mean_error=_mean([record.error for record in attacked]),
        worst_by_dim=dict(by_dim),
        honest_weight_lost=_mean([record.honest_weight_lost for record in peaceful]),
        byzantine_weight=_mean([record.byzantine_weight for record in attacked]),
        seconds=float(np.median([r.seconds or 0.0 for r in attacked if r.dim * r.cohort_size == largest] or [0.0])),
        num_refused=sum(record.refused is not None for record in records),
    )


def _mean(values: Sequence[float | None]) -> float:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else float("nan")
