"""What the records of the gauntlet say: the worst case of every rule, and where which rule is best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steadfed.sweeps import _ranking as sweep
from steadfed.sweeps._ranking import NO_ATTACK, Duel, mean_of
from steadfed.sweeps.matrices._record import GauntletRecord


@dataclass(frozen=True, kw_only=True)
class GauntletRank:
    """One rule over all its records."""

    rule: str
    worst: GauntletRecord | None
    """The record with the largest error under attack; None if the rule refused everything."""
    mean_error: float | None
    worst_by_dim: dict[int, float]
    """The largest error under attack for every dimension."""
    trace_coefficient: float | None
    """The largest squared error over the trace of the honest covariance under attack: a lower bound of κ of the rule's
    (f, κ)-robustness (Allouah et al. 2023). None unless it was measured on all of these matrices, which older results
    did not: the largest of some would not compare with the largest of all."""
    spectral_coefficient: float | None
    """The same over λ_max of the honest covariance."""
    honest_weight_lost: float | None
    """The mean share of honest weight lost where nobody attacks."""
    byzantine_weight: float | None
    """The mean share of the update that came from forged rows."""
    seconds: float
    """The median time of an aggregation of the largest matrices."""
    num_refused: int

    @property
    def worst_error(self) -> float:
        """The largest error under attack; infinite if there is none to show."""
        return float("inf") if self.worst is None or self.worst.error is None else self.worst.error


def ranking(records: Iterable[GauntletRecord]) -> list[GauntletRank]:
    """Return every rule, the smallest worst case first."""
    by_rule: dict[str, list[GauntletRecord]] = defaultdict(list)
    for record in records:
        by_rule[record.rule].append(record)
    return sorted((_rank_rule(rule, each) for rule, each in by_rule.items()), key=lambda each: each.worst_error)


def lost_duels(records: Iterable[GauntletRecord], subject: str = sweep.SUBJECT) -> list[Duel[GauntletRecord]]:
    """Return every (K, d, f, model) in which another rule has a smaller worst case over all attacks, and which one.

    Only rules that met every attack there take part: one that refuses has no worst case. What is drawn is the
    adversary's choice too, as a worst case is the worst of all draws.
    """
    draws = (
        replace(record, attack=f"{record.attack}, draw {record.seed}", seed=0)
        for record in records
        if record.attack != NO_ATTACK
    )
    return [duel for duel in sweep.duels(draws, subject) if duel.difference.mean < 0.0]


def _rank_rule(rule: str, records: Sequence[GauntletRecord]) -> GauntletRank:
    hostile = [record for record in records if record.attack != NO_ATTACK and record.error is not None]
    unattacked = [record for record in records if record.attack == NO_ATTACK and record.error is not None]
    by_dim: dict[int, float] = defaultdict(float)
    for record in hostile:
        by_dim[record.dim] = max(by_dim[record.dim], record.error or 0.0)
    largest = max((record.dim * record.cohort_size for record in hostile), default=0)
    return GauntletRank(
        rule=rule,
        worst=max(hostile, key=lambda record: record.error or 0.0, default=None),
        mean_error=mean_of(record.error for record in hostile),
        worst_by_dim=dict(by_dim),
        trace_coefficient=_largest([record.trace_coefficient for record in hostile]),
        spectral_coefficient=_largest([record.spectral_coefficient for record in hostile]),
        honest_weight_lost=mean_of(record.honest_weight_lost for record in unattacked),
        byzantine_weight=mean_of(record.byzantine_weight for record in hostile),
        seconds=float(np.median([r.seconds or 0.0 for r in hostile if r.dim * r.cohort_size == largest] or [0.0])),
        num_refused=sum(record.refused is not None for record in records),
    )


def _largest(values: Sequence[float | None]) -> float | None:
    """Return the largest value; None if there is none, or if one is not known."""
    known = [value for value in values if value is not None]
    return max(known, default=None) if len(known) == len(values) else None
