"""The attack on a filter's guard against more Byzantine clients than assumed."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Matrix
from steadfed._core.values import whole_number
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators._rage.displacement import filter_path, safest
from steadfed.aggregators._rage.guard import LIMIT, most_byzantine, typical_square
from steadfed.attacks._base import Aim, DirectedAttack, same_for_all
from steadfed.attacks._geometry import POINTERS, finite_rows, honest_shape, random_directions
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._search import largest_allowed, most_damaging, reach_along
from steadfed.attacks._view import AdversaryView, Knowledge

APART = 0.01
"""How far colluders stand from their common point, as a share of their distance to the mean, so that no two are one."""
OUT_OF_SIGHT = 1e4
"""A guard that is silent at this multiple of the largest strength worth trying is silent at every one."""


@ATTACKS.register("below-guard")
@final
class BelowGuard(DirectedAttack):
    r"""More colluders than the server assumes, as far out as the guard of a filter does not notice.

    A filter that assumes f of n rows to be Byzantine keeps some of more than f colluders wherever they are. A guard
    notices that even the smallest spread λ_a of its way is then larger than honest rows can explain,

        λ_a > C m² ,    m the distance to the geometric median that a share (n − F)/n of the distinct rows keeps,

    F = min(⌊(n − 1)/2⌋, f + ⌈3 √(f (1 − f/n))⌉) and C = 1 (`guard_statistic`). The rows are

        row_i = mean + s · (u + w_i/100) ,

    with a unit vector u and random ones w_i, as equal rows would count once in m. s is the distance at which the mean
    of the state with the smallest spread lies farthest from the honest mean, of all distances at which the guard is
    silent. With many more than f colluders that is the largest of these distances; with f or fewer it is one at which
    the filter does not remove them. The adversary computes all this itself, from the rows it sees.

    >>> honest = torch.eye(28)  # σ₀² = 1/28
    >>> view = AdversaryView(num_byzantine=22, cohort_size=50, own_rows=honest[:22], honest_rows=honest)
    >>> [round(float((BelowGuard(assumed=f)(view).rows.mean(0) - 1 / 28).norm() * 28**0.5)) for f in (15, 22)]
    [19, 1]
    """

    citation: ClassVar[str] = "none: a test of guards against more Byzantine clients than assumed"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST, Knowledge.RULE})

    direction: Literal["random", "spread", "mean"] = "mean"
    """Where to: anywhere, along the largest honest spread, or against the honest mean."""
    assumed: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] | None = None
    """f, how many Byzantine rows the server assumes; if left out, what its rule says if that is known, or as many as
    there are."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point all from the mean in almost one direction, as far as the guard is silent and the damage grows."""
        shape = honest_shape(view.seen)
        generator = view.generator("below-guard")
        towards = POINTERS[self.direction](shape, generator)
        own = random_directions(generator, view.num_byzantine, len(towards)).to(towards)
        directions = towards + APART * own
        inner, assumed = _inner_products(view, shape.mean, directions), self._assumed(view)

        def moved_in_silence(at: float) -> float:
            gram = _gram_at(inner, len(directions), at)
            return _moved(gram, assumed) if guard_statistic(gram, assumed) <= LIMIT else 0.0

        with one_blas_thread():
            nearest, farthest = reach_along(shape, directions)
            far = OUT_OF_SIGHT * farthest
            if guard_statistic(_gram_at(inner, len(directions), far), assumed) > LIMIT:
                farthest = largest_allowed(lambda at: moved_in_silence(at) > 0.0, nearest, far)
            strength = most_damaging(moved_in_silence, min(nearest, farthest), farthest)
        return Aim(same_for_all(shape.mean, view), directions, strength)

    def _assumed(self, view: AdversaryView) -> int:
        """Return f, less than half of the rows."""
        rule = view.rule.assumed_byzantine(view.cohort_size) if view.may(Knowledge.RULE) else 0
        return min(self.assumed or rule or view.num_byzantine, (view.cohort_size - 1) // 2)


def guard_statistic(gram: Matrix, num_byzantine: int) -> float:
    """Return λ_a/m²: the smallest spread on the way of the filter, over the squared distance that most rows keep.

    m is the distance to the geometric median that ⌈k (n − F)/n⌉ of the k distinct rows do not exceed.
    """
    spread = safest(filter_path(gram, num_byzantine, confirm=False)).spread
    kept = typical_square(gram, most_byzantine(len(gram), num_byzantine)) / LIMIT
    if kept > 0.0:
        return spread / kept
    return math.inf if spread > 0.0 else 0.0


def _inner_products(view: AdversaryView, mean: Float[Tensor, " d"], directions: Float[Tensor, "f d"]) -> Matrix:
    """Return the inner products of the directions and of as many honest rows as there will be, seen from their mean."""
    rows = finite_rows(view.seen)
    number = max(1, view.cohort_size - view.num_byzantine)
    honest = rows[torch.arange(number, device=rows.device) % len(rows)] - mean
    vectors = torch.cat([directions, honest]).double()
    return np.asarray((vectors @ vectors.T).cpu().numpy())


def _gram_at(inner: Matrix, number: int, strength: float) -> Matrix:
    """Return the inner products of the forged rows at this strength and the honest ones, seen from the honest mean."""
    scale = np.ones(len(inner))
    scale[:number] = strength
    return inner * scale * scale[:, None]


def _moved(gram: Matrix, num_byzantine: int) -> float:
    """Return how far the mean of the anchor lies from the origin, where the honest mean is."""
    weights = safest(filter_path(gram, num_byzantine, confirm=False)).weights
    share = weights / weights.sum()
    return math.sqrt(max(0.0, float(share @ gram @ share)))
