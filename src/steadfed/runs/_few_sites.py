"""What can and cannot be promised in a federation of a few sites, in words, from what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import final

from steadfed.aggregators import Aggregator, Need, Rage

FEWEST_TO_COMPARE = 6
"""In smaller cohorts RAGE costs accuracy where nobody attacks, by removing an honest site now and then, and attacks
that stay near the honest updates harm it more than the mean."""
_MANY = 10
"""The largest federation that was measured; in larger ones averages over sites do their work."""
_LABELS = 8
"""From so many sites on RAGE gains on the mean under flipped labels by more than the seeds differ."""
_ALIKE, _NOTHING = 2.0, 0.1
"""Points by which seeds differ anyway: under flipped signs, and where RAGE and the mean agree."""
_QUARTER = 4
"""RAGE's bound is good up to a share of one in so many."""


@final
@dataclass(frozen=True, kw_only=True)
class _Figures:
    """Test accuracies in percent, RAGE's and the mean's, with one Byzantine site; and what RAGE loses to the mean."""

    far: tuple[float, float]
    flipped: tuple[float, float]
    near: float
    """Under the worst attack near the honest updates."""
    peace: float
    """Where nobody attacks."""


MEASURED = MappingProxyType(
    {
        4: _Figures(far=(83.0, 10.3), flipped=(70.1, 35.3), near=5.3, peace=1.8),
        5: _Figures(far=(88.7, 10.1), flipped=(69.1, 62.2), near=1.4, peace=0.9),
        6: _Figures(far=(88.0, 10.5), flipped=(75.9, 62.2), near=1.1, peace=0.2),
        8: _Figures(far=(90.5, 10.9), flipped=(77.9, 76.6), near=0.1, peace=0.0),
        10: _Figures(far=(91.0, 10.7), flipped=(82.7, 82.1), near=0.1, peace=0.0),
    }
)
"""By the number of sites: digits, ten seeds (benchmarks/README.md, "Few sites")."""


def judges_blindly(rule: Aggregator, cohort: int) -> bool:
    """Tell whether a rule assumes Byzantine clients, and has nothing but updates to tell them by."""
    return bool(rule.assumed_byzantine(cohort)) and not rule.all_needs() & {Need.TRUSTED_ROW, Need.TRUSTED_LOSS}


def few_sites_promise(rule: Aggregator, cohort: int) -> list[str]:
    """Return what a rule can do in a cohort of at most ten, what it cannot, and what it costs; nothing of others.

    >>> can, cannot, costs = few_sites_promise(Rage(num_byzantine=1), 6)
    >>> cannot.partition(" (")[0]
    'not told from honest sites: flipped labels, and updates near the others'
    >>> few_sites_promise(Rage(num_byzantine=1), 11)
    []
    """
    if cohort > _MANY or not judges_blindly(rule, cohort):
        return []
    known = max((each for each in MEASURED if each <= cohort), default=0)
    if not known:
        return [f"nothing was measured with fewer than {min(MEASURED)} sites"]
    found, assumed = MEASURED[known], rule.assumed_byzantine(cohort)
    return [_removed(rule, known, found), _not_told(known, found), _cost(found), *_unmeasured(cohort, known, assumed)]


def few_sites_warning(rule: Aggregator, cohort: int) -> str | None:
    """Return what a cohort of fewer than six must know; None for others."""
    if cohort >= FEWEST_TO_COMPARE or not judges_blindly(rule, cohort):
        return None
    return (
        f"K = {cohort} < {FEWEST_TO_COMPARE}: among so few updates no rule tells a Byzantine one near the others from "
        f"that of an honest site with unlike data, and one of those may be removed; if the server can have clean "
        f"points of its own, try rules that judge by them (zeno, fltrust)"
    )


def _removed(rule: Aggregator, known: int, found: _Figures) -> str:
    whose = "" if isinstance(rule, Rage) and rule.mode == "auto" else ", of RAGE as it is by default"
    harm = "do less harm" if found.flipped[0] - found.flipped[1] > _ALIKE else "harm it about as they harm the mean"
    return (
        f"measured with one Byzantine site of {known}{whose}: updates far from the others are removed (digits: "
        f"{found.far[0]:.0f} % where the mean ends at {found.far[1]:.0f}), and flipped signs {harm} "
        f"({found.flipped[0]:.0f} % against {found.flipped[1]:.0f})"
    )


def _not_told(known: int, found: _Figures) -> str:
    worse = f"up to {found.near:.1f} points below the mean, averaged over seeds"
    near = f"updates near the others ({worse if found.near > _NOTHING else 'it does as the mean does'})"
    if known >= _LABELS:
        return f"not told from honest sites: {near}; flipped labels harm it 2 points less than the mean"
    return f"not told from honest sites: flipped labels, and {near}"


def _cost(found: _Figures) -> str:
    if not found.peace:
        return "where nobody attacks it costs nothing"
    rare = ", nearly all of it in runs that remove an honest site in half of the rounds" if found.peace > 0.5 else ""
    return f"where nobody attacks it costs {found.peace:.1f} points on average{rare}"


def _unmeasured(cohort: int, known: int, assumed: int) -> list[str]:
    """Return how the federation differs from those that were measured."""
    said = [] if cohort == known else [f"{cohort} sites were not measured"]
    if assumed > 1:
        two = "of two among 8 or 10 far updates are removed, and flipped signs harm as they harm the mean"
        said.append(f"f = {assumed} is more than one: {two}")
    if _QUARTER * assumed > cohort:
        said.append(f"f/K = {assumed}/{cohort} is above 1/{_QUARTER}, up to which RAGE's bound is good")
    return said
