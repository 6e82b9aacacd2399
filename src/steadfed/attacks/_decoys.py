"""Attackers that stand at different distances along one direction, so that a filter does not see them as one."""

from __future__ import annotations

from typing import ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.attacks._base import Attack, Forged, Strength, sent_by_all
from steadfed.attacks._geometry import POINTERS, Shape, finite_rows, honest_shape, unit
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._search import Profile, along, best_on_grid, best_profile, reach_along
from steadfed.attacks._victim import expected_victim
from steadfed.attacks._view import AdversaryView, Knowledge

GRADES = (0.86, 0.89, 0.92, 0.95)
"""How far out the last of graded colluders is, as a share of the first."""
LEVELS = ((0.7, 2.5), (0.7, 4.0), (0.4, 2.5), (0.9, 4.0))
"""Which part of the colluders stands near, and how many times as far out the others stand."""


@ATTACKS.register("decoys")
@final
class Decoys(Attack):
    r"""Make a filter that learns its threshold learn a larger one, and stay just below that.

    RAGE in mode "spread" filters down to mass n − 2f to see the smallest spread λ_min on the way, which is about σ₀²
    where a single step removes all colluders and leaves the honest rows alone. So they do not fall together:

        row_i = mean + s · q_i · u + length · ρ · w_i ,    q_i = 1 … q_f falling evenly, q_f the best of four values,

    with ρ the largest distance of an honest row to the mean and w_i the unit vector along the sum of (g_j − mean) over
    a group of honest rows, every one in one group. The step along u leaves a little weight at those with q_i < 1, and
    that is enough to keep w_i a direction of large spread, in which the filter takes more from the honest rows of the
    group than from row i. The mass is used up before any state with all honest rows and without colluders is seen. In
    the state that counts, the rows stand for λ_min > σ₀² and move the mean along u by (f/K) s times the mean of q.
    The distance s is searched on the rule itself, and by bisection between the best one and where the rule sees it.

    >>> from steadfed.aggregators import Rage
    >>> honest, rule = torch.eye(30), Rage(num_byzantine=10, mode="spread")
    >>> view = AdversaryView(
    ...     num_byzantine=10, cohort_size=40, own_rows=honest[:10], honest_rows=honest, server_rule=rule)
    >>> bool(view.aggregate(Decoys()(view).rows).kept.all())
    True
    """

    citation: ClassVar[str] = "none: a test of thresholds that are learned from the rows, docs/theory/filter.md"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN, Knowledge.RULE})
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    length: Strength = 1.0
    """How long the parts of their own are, in units of the largest distance of an honest row to the mean."""

    def forge(self, view: AdversaryView) -> Forged:
        """Search the distance for the first grade, and from there for the others."""
        shape = honest_shape(view.seen)
        generator = view.generator("decoys")
        own = shape.mean + self.length * shape.radius * _sums_of_groups(view, shape, generator)
        towards = POINTERS["random"](shape, generator)[None]
        victim, (centre, direction) = expected_victim(view, own, towards)
        _, strength, profile = best_profile(
            lambda at, profile: victim.damage(along(centre, direction, at, profile)),
            (torch.linspace(1.0, last, view.num_byzantine, dtype=torch.float64) for last in GRADES),
            reach_along(shape, direction),
        )
        return sent_by_all(along(own, towards, strength, profile))


@ATTACKS.register("anchor-poisoning")
@final
class AnchorPoisoning(Attack):
    r"""Some stand near and move the state that a filter trusts most, the others far out and within its reach.

    A filter that goes down to mass n − 2f and takes the state with the smallest spread λ_a on the way for its anchor
    may return any state whose mean lies within ρ √(λ_a f/n) of the anchor's. Colluders at one point are either too far
    out to be in the anchor or too near to do harm. At two points along one direction u,

        row_i = mean + s · q_i · u ,    q_i = q for a share p of them, r q for the others, the mean of all q_i being 1,

    the near ones look like honest rows, stay in the anchor and draw it along u; the filter sees the far ones first, and
    the state before it has removed them is within reach of where the anchor lies now. Four pairs (p, r) are tried on
    both sides of the mean, the distance s of each on a grid, and of the best ones by bisection up to where the rule
    sees it: all on the rule itself, so that it works against any.

    `Decoys` has the same search along one direction, but other distances q_i, and parts beside it that keep the filter
    busy.

    >>> from steadfed.aggregators import Rage
    >>> honest, rule = torch.arange(20.0)[:, None], Rage(num_byzantine=5, rho=0.0)  # the anchor itself
    >>> view = AdversaryView(
    ...     num_byzantine=5, cohort_size=25, own_rows=honest[:5], honest_rows=honest, server_rule=rule)
    >>> moved = view.aggregate(AnchorPoisoning()(view).rows).update - honest.mean()
    >>> bool(moved.abs() > 0.4 * honest.std())
    True
    """

    citation: ClassVar[str] = "none: a test of filters that trust the state with the smallest spread"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN, Knowledge.RULE})
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    direction: Literal["random", "spread", "mean"] = "spread"
    """Where to: anywhere, along the largest honest spread, or against the honest mean."""

    def forge(self, view: AdversaryView) -> Forged:
        """Search the side, the two levels and the distance."""
        shape = honest_shape(view.seen)
        towards = POINTERS[self.direction](shape, view.generator("anchor-poisoning"))[None]
        victim, (centre, direction) = expected_victim(view, shape.mean[None], towards)
        number = view.num_byzantine
        strength, profile = best_on_grid(
            lambda at, profile: victim.damage(along(centre, direction, at, profile)),
            [side * two_levels(number, share, ratio) for side in (1.0, -1.0) for share, ratio in LEVELS],
            reach_along(shape, direction),
        )
        return sent_by_all(along(shape.mean[None], towards, strength, profile))


def two_levels(number: int, share: float, ratio: float) -> Profile:
    """Return a profile with mean 1 in which a share stands near, at least one, the others `ratio` times as far out.

    >>> two_levels(4, 0.5, 3.0)
    tensor([0.5000, 0.5000, 1.5000, 1.5000], dtype=torch.float64)
    """
    near = min(number, max(1, round(share * number)))
    profile = torch.full((number,), ratio, dtype=torch.float64)
    profile[:near] = 1.0
    return profile / profile.mean()


def _sums_of_groups(view: AdversaryView, shape: Shape, generator: np.random.Generator) -> Float[Tensor, "f d"]:
    """Return unit vectors along the sums of disjoint groups of honest rows seen from their mean; zero for no group."""
    rows = finite_rows(view.seen)
    groups = np.array_split(generator.permutation(len(rows)), view.num_byzantine)
    return torch.stack([unit((rows[torch.from_numpy(group)] - shape.mean).sum(0)) for group in groups])
