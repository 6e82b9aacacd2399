r"""The shape of a cloud of rows, and attacks that are told by where in it the forged rows lie.

Distances are given in units of σ₀ = √λ_max(Cov of the rows seen), the unit in which robust means promise their error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._core.values import real_number, whole_number
from steadfed._linalg.gram import LARGEST_SQUARE, pivoted_gram, squared_norms
from steadfed._linalg.sources import as_columns
from steadfed._linalg.spectrum import eigen_directions, scatter_matrix
from steadfed._linalg.threads import one_blas_thread
from steadfed.attacks._base import Aim, Attack, DirectedAttack, Forged, Strength, same_for_all, sent_by_all
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._view import AdversaryView, Knowledge

Count = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]
ROOM = 1e-8
"""A row's squared norm must stay below this share of the largest number, so that sums do not overflow."""
LARGEST_RATIO = 1e12
"""The last step of a staircase is at most this many times as far out as the first; more would overflow."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Where rows lie and how they spread."""

    mean: Float[Tensor, " d"]
    sigma0: float
    """σ₀ = √λ_max of the covariance (divided by the number of rows); 0 if the rows agree up to rounding."""
    direction: Float[Tensor, " d"]
    """The unit direction of the largest spread, the row farthest out on its positive side; zero if there is none."""
    radius: float
    """The largest distance of a row to the mean."""
    trace: float
    """The mean of the rows' squared distances to the mean, the trace of the covariance."""
    coordinates: Vector
    """The rows' coordinates along the direction, from the mean."""


def honest_shape(rows: Float[Tensor, "m d"]) -> Shape:
    """Measure mean, spread, direction and radius of the rows that are usable, in their Gram matrix, in float64.

    One pass over the rows and an m x m eigenproblem: no d x d matrix is formed.

    >>> shape = honest_shape(torch.tensor([[1.0, 5.0], [1.0, 8.0], [1.0, 2.0]]))
    >>> shape.mean, round(shape.sigma0**2, 6), round(shape.radius, 6), shape.direction.abs()
    (tensor([1., 5.]), 6.0, 3.0, tensor([0., 1.]))
    """
    rows = finite_rows(rows)
    columns = as_columns(rows)
    with one_blas_thread():
        gram = pivoted_gram(columns).matrix
        everyone = np.ones(len(gram))
        found = eigen_directions(gram, everyone, 1)
        squares = np.maximum(scatter_matrix(gram, everyone).diagonal(), 0.0)
        coordinates = found.coordinates[:, 0] - found.coordinates[:, 0].mean()
        side = -1.0 if coordinates[np.argmax(np.abs(coordinates))] < 0.0 else 1.0
        direction = unit(columns.combine(side * found.coefficients[:, 0]))
    sigma0 = float(np.sqrt(found.top / len(gram))) if bool(direction.any()) else 0.0
    farthest, trace = float(np.sqrt(squares.max())), float(squares.mean())
    return Shape(rows.mean(0), sigma0, direction, farthest, trace, side * coordinates)


def finite_rows(rows: Float[Tensor, "m d"]) -> Float[Tensor, "n d"]:
    """Return the rows that can be computed with; a row of zeros if there is none, as nothing else is known then.

    A row with NaN or Inf tells the adversary nothing, and one whose square overflows cannot be near honest ones.
    """
    usable = are_usable(rows)
    if bool(usable.all()):
        return rows
    return rows[usable] if bool(usable.any()) else torch.zeros_like(rows[:1])


def are_usable(rows: Float[Tensor, "m d"]) -> Bool[Tensor, " m"]:
    """Tell for each row whether it is finite and so short that sums of squares do not overflow."""
    return torch.from_numpy(squared_norms(as_columns(rows)) <= _largest_square(rows.dtype)).to(rows.device)


def _largest_square(dtype: torch.dtype) -> float:
    """Return the largest squared norm of a row of this dtype with which sums of squares do not overflow."""
    return ROOM * min(LARGEST_SQUARE, torch.finfo(dtype).max)


def unit(vector: Float[Tensor, " d"]) -> Float[Tensor, " d"]:
    """Return the vector at length one, computed in float64; zero stays zero."""
    exact = vector.double()
    norm = float(torch.linalg.vector_norm(exact))
    return (exact / norm).to(vector) if norm > 0.0 else torch.zeros_like(vector)


def deviation(rows: Float[Tensor, "n d"]) -> Float[Tensor, " d"]:
    """Return the standard deviation of every coordinate, divided by n: zero for a single row."""
    return rows.std(0, correction=0)


def random_directions(generator: np.random.Generator, number: int, dim: int) -> Float[Tensor, "r d"]:
    """Return unit vectors drawn uniformly from the sphere, in float64."""
    rows = generator.standard_normal((number, dim))
    return torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True))


Pointer = Callable[[Shape, np.random.Generator], Tensor]
POINTERS: Mapping[str, Pointer] = MappingProxyType(
    {
        "random": lambda shape, generator: random_directions(generator, 1, len(shape.mean))[0].to(shape.mean),
        "spread": lambda shape, _: shape.direction,
        "mean": lambda shape, _: -unit(shape.mean),
    }
)
"""Directions by name: any, that of the largest honest spread, against the honest mean."""


@ATTACKS.register("cluster")
@final
class Cluster(DirectedAttack):
    """All at one point, at a distance from the honest mean that is told in honest standard deviations.

    rows = mean + strength · σ₀ · u with a unit vector u: "random"; "spread", along the largest honest spread, where
    the cluster is hardest to tell from honest rows; "mean", against the honest mean, where it does most harm. Colluders
    at one point move the mean of f of K rows by strength · σ₀ · f/K and add ε(1 − ε) strength² σ₀² to the spread along
    u, ε = f/K. Without honest spread (σ₀ = 0) they send the mean.

    >>> view = AdversaryView(num_byzantine=2, cohort_size=5, own_rows=torch.zeros(2, 1), honest_rows=torch.tensor(
    ...     [[2.0], [4.0], [6.0]]))
    >>> Cluster(strength=10.0, direction="mean")(view).rows.round(decimals=2)
    tensor([[-12.3300],
            [-12.3300]])
    """

    citation: ClassVar[str] = "Huber 1964, contamination at one point"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    strength: Strength = 3.0
    """Distance to the mean in units of σ₀."""
    direction: Literal["random", "spread", "mean"] = "random"
    """Where to: anywhere, along the largest honest spread, or against the honest mean."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point all from the mean in one direction."""
        shape = honest_shape(view.seen)
        towards = POINTERS[self.direction](shape, view.generator("cluster"))
        return Aim(same_for_all(shape.mean, view), same_for_all(shape.sigma0 * towards, view), self.strength)


@ATTACKS.register("spread")
@final
class Spread(DirectedAttack):
    """Spread over several orthogonal directions, so that no single one shows much.

    row_i = mean + strength · σ₀ · u_(i mod k), with u_1 … u_k orthonormal and random. Along each of the k directions
    the forged rows add only a k-th of what a cluster adds to the spread; together they move the mean by
    strength · σ₀ · (f/K)/√k.

    >>> view = AdversaryView(num_byzantine=4, cohort_size=9, own_rows=torch.zeros(4, 3), honest_rows=torch.eye(5, 3))
    >>> rows = Spread(num_directions=2)(view).rows
    >>> bool((rows[0] == rows[2]).all()), bool((rows[0] == rows[1]).all())
    (True, False)
    """

    citation: ClassVar[str] = "none: a test of spectral filters"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    strength: Strength = 3.0
    """Distance to the mean in units of σ₀."""
    num_directions: Count = 5
    """k, at most the dimension."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point each from the mean in one of the directions, in turn."""
        shape = honest_shape(view.seen)
        count = min(self.num_directions, len(shape.mean), view.num_byzantine)
        drawn = view.generator("spread").standard_normal((len(shape.mean), count))
        basis = torch.from_numpy(np.ascontiguousarray(np.linalg.qr(drawn)[0].T)).to(shape.mean)
        own = basis[torch.arange(view.num_byzantine, device=basis.device) % count]
        return Aim(same_for_all(shape.mean, view), shape.sigma0 * own, self.strength)


@ATTACKS.register("covariance-shift")
@final
class CovarianceShift(DirectedAttack):
    """Honest rows, all shifted alike: around their own centre the forged rows look as honest ones do.

    row_i = g_j(i) + strength · σ₀ · u, with honest rows j(i) drawn at random and one random unit vector u. A rule that
    looks at how rows scatter around their neighbours sees nothing; only the distance between the two centres shows.

    >>> honest = torch.tensor([[0.0, 1.0], [2.0, 1.0]])
    >>> view = AdversaryView(num_byzantine=3, cohort_size=5, own_rows=torch.zeros(3, 2), honest_rows=honest)
    >>> bool(torch.isin(CovarianceShift(strength=0.0)(view).rows, honest).all())
    True
    """

    citation: ClassVar[str] = "none: a test of spectral filters"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    strength: Strength = 3.0
    """Length of the shift in units of σ₀."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point all in one random direction, each from an honest row."""
        rows = finite_rows(view.seen)
        shape = honest_shape(rows)
        generator = view.generator("covariance-shift")
        drawn = torch.from_numpy(generator.integers(len(rows), size=view.num_byzantine)).to(rows.device)
        towards = POINTERS["random"](shape, generator)
        return Aim(rows[drawn], same_for_all(shape.sigma0 * towards, view), self.strength)


@ATTACKS.register("staircase")
@final
class Staircase(DirectedAttack):
    """Each in its own direction, at distances that grow geometrically: the most filter steps per attacker.

    row_i = mean + strength · σ₀ · √m · q^i · u_i, m the number of rows seen, u_i random unit vectors, i = 0 … f − 1.
    A filter that removes what causes the largest spread sees one attacker at a time, as the next one has q² times less.

    Deviation: with many attackers the growth q is reduced so that the last one is 10¹² times as far out as the first;
    beyond that rows would overflow and be thrown out unseen.

    >>> view = AdversaryView(num_byzantine=3, cohort_size=6, own_rows=torch.zeros(3, 4), honest_rows=torch.eye(3, 4))
    >>> rows = Staircase(growth=2.0)(view).rows - view.honest.mean(0)
    >>> (rows[1:].norm(dim=1) / rows[:-1].norm(dim=1)).round(decimals=3)
    tensor([2., 2.])
    """

    citation: ClassVar[str] = "none: a test of the number of filter steps"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    strength: Strength = 3.0
    """Distance of the first to the mean in units of σ₀ √m."""
    growth: Annotated[float, Field(ge=1.0), BeforeValidator(real_number)] = 1.5
    """q, how many times as far out the next one is."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point each in its own direction, the next one farther."""
        shape = honest_shape(view.seen)
        number = view.num_byzantine
        own = random_directions(view.generator("staircase"), number, len(shape.mean))
        growth = min(self.growth, LARGEST_RATIO ** (1.0 / max(1, number - 1)))
        steps = shape.sigma0 * np.sqrt(len(shape.coordinates)) * growth ** np.arange(number)
        direction = (torch.from_numpy(steps)[:, None] * own).to(shape.mean)
        return Aim(same_for_all(shape.mean, view), direction, self.strength)


@ATTACKS.register("symmetric-pairs")
@final
class SymmetricPairs(Attack):
    r"""In pairs on both sides of the mean, enormously far out: the spread is huge and the mean hardly moves.

    row_i = mean ± strength · σ₀ · u, plus and minus in turn, with a unit vector u as for `Cluster`; of an odd number
    the last one sends the mean. In the coordinate in which u is largest, rows with a plus lie one unit in the last
    place farther out, so that a pair does not cancel: in single precision the mean of all rows moves by up to
    10⁻⁷ · strength · σ₀ · f/(2K). A rule that asks how far the mean has moved, and not how far the rows spread, keeps
    them; one that computes that distance from inner products finds what rounding leaves of numbers as large as
    (strength · σ₀)². Without honest spread (σ₀ = 0) they send the mean, but for that last place.

    Deviation: rows are nearer where their squares would overflow, as they would be thrown out unseen.

    >>> honest = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
    >>> view = AdversaryView(num_byzantine=3, cohort_size=7, own_rows=torch.zeros(3, 1), honest_rows=honest)
    >>> rows = SymmetricPairs(strength=1e9, direction="spread")(view).rows
    >>> [f"{float(row):.4e}" for row in rows.abs()]
    ['2.2361e+09', '2.2361e+09', '3.0000e+00']
    >>> 0.0 < abs(float(rows[0] + rows[1])) < 1e3
    True
    """

    citation: ClassVar[str] = "none: a test of rules that look at how far the mean moves"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    strength: Strength = 1e12
    """Distance to the mean in units of σ₀."""
    direction: Literal["random", "spread", "mean"] = "random"
    """The line on which they lie: any, along the largest honest spread, or through the origin."""

    def forge(self, view: AdversaryView) -> Forged:
        """Go out on both sides in turn, and one unit in the last place farther on one of them."""
        shape = honest_shape(view.seen)
        towards = POINTERS[self.direction](shape, view.generator("symmetric-pairs"))
        farthest = 0.5 * np.sqrt(_largest_square(towards.dtype))
        away = min(self.strength * shape.sigma0, farthest) * towards
        rows = same_for_all(shape.mean, view)
        paired = 2 * (view.num_byzantine // 2)
        rows[0:paired:2] += away
        rows[1:paired:2] -= away
        largest = int(towards.abs().argmax())
        outwards = torch.full_like(away[largest], -np.inf if float(towards[largest]) < 0.0 else np.inf)
        rows[0:paired:2, largest] = torch.nextafter(rows[0:paired:2, largest], outwards)
        return sent_by_all(rows)
