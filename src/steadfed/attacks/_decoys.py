"""Attackers that stand at different distances along one direction, so that a filter does not see them as one."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.attacks._base import Attack, Forged, Strength, sent_by_all
from steadfed.attacks._geometry import POINTERS, Shape, finite_rows, honest_shape, unit
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._search import along, best_profile, reach_along
from steadfed.attacks._victim import expected_victim
from steadfed.attacks._view import AdversaryView, Knowledge

GRADES = (0.86, 0.89, 0.92, 0.95)
"""How far out the last of graded colluders is, as a share of the first."""


@ATTACKS.register("decoys")
@final
class Decoys(Attack):
    r"""Make a filter that learns its threshold learn a larger one, and stay just below that.

    RAGE in mode "auto" filters down to mass n − 2f to see the smallest spread λ_min on the way, which is about σ₀²
    where a single step removes all colluders and leaves the honest rows alone. So they do not fall together:

        row_i = mean + s · q_i · u + length · ρ · w_i ,    q_i = 1 … q_f falling evenly, q_f the best of four values,

    with ρ the largest distance of an honest row to the mean and w_i the unit vector along the sum of (g_j − mean) over
    a group of honest rows, every one in one group. The step along u leaves a little weight at those with q_i < 1, and
    that is enough to keep w_i a direction of large spread, in which the filter takes more from the honest rows of the
    group than from row i. The mass is used up before any state with all honest rows and without colluders is seen. In
    the state that counts, the rows stand for λ_min > σ₀² and move the mean along u by (f/K) s times the mean of q.
    The distance s is searched on the rule itself, and by bisection between the best one and where the rule sees it.

    >>> from steadfed.aggregators import Rage
    >>> honest, rule = torch.eye(30), Rage(num_byzantine=10)
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


def _sums_of_groups(view: AdversaryView, shape: Shape, generator: np.random.Generator) -> Float[Tensor, "f d"]:
    """Return unit vectors along the sums of disjoint groups of honest rows seen from their mean; zero for no group."""
    rows = finite_rows(view.seen)
    groups = np.array_split(generator.permutation(len(rows)), view.num_byzantine)
    return torch.stack([unit((rows[torch.from_numpy(group)] - shape.mean).sum(0)) for group in groups])
