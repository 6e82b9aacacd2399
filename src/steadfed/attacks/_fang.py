"""The local model poisoning attacks of Fang et al. 2020, in update space.

The paper speaks of models w_i = x − g_i; the rows here are updates g_i with descent sign, and the received global
model x is the origin. Where the paper pushes a parameter against the direction s in which honest clients change it,
a row is pushed against the sign of the honest mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.values import real_number
from steadfed._linalg.gram import pivoted_gram, squared_distances, squared_norms
from steadfed._linalg.sources import as_columns
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators._selection.krum import krum_scores
from steadfed.attacks._base import Aim, DirectedAttack, Strength, same_for_all
from steadfed.attacks._geometry import deviation, finite_rows, random_directions
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._view import AdversaryView, Knowledge

HALVINGS = 17
"""λ is given up when it has been halved this often, to less than 10⁻⁵ of its bound."""
NEAR, FAR = 3.0, 4.0
"""Standard deviations between which the trimmed-mean attack draws if it knows its own rows only."""


@ATTACKS.register("fang-krum")
@final
class FangKrum(DirectedAttack):
    r"""Make Krum select a row that points against the honest mean, as long as possible (Fang et al. 2020, section 3.2).

    row_1 = −λ s with s = sign(honest mean); the other forged rows are its supporters, drawn at random so close to it
    that they are its nearest neighbours and lower its score. λ starts at a bound above which Krum cannot select the
    row, and is halved until it does; if it never does, the last λ is used.

    The bound: of the K − f − 2 neighbours that count, at least k = K − 2f − 1 are honest, and each of them lies at
    least λ‖s‖ − max_i ‖g_i‖ away, so that the score of row_1 is at least k (λ‖s‖ − max_i ‖g_i‖)². The best honest row
    scores at most S, the best score among honest rows alone. So selection needs λ ≤ (√(S/k) + max_i ‖g_i‖)/‖s‖. ∎

    An adversary that sees its own rows only takes them for the honest ones and forges 1, 2, … rows in its mind until
    Krum would select one (the paper's partial knowledge); that many Byzantine rows Krum is then assumed to expect.

    Deviations: distances are squared, as Krum's are; the paper's Theorem 1 bounds λ for plain ones. Its ε = 0.01 and
    the smallest λ of 10⁻⁵ are lengths; here they are relative, to the distance from the most central honest row to its
    neighbours and to the bound, so that scaling all rows scales the attack.

    >>> honest = torch.tensor([[0.9, 1.1], [1.1, 0.9], [-1.0, 0.5], [0.5, -1.0], [0.1, 0.1]])
    >>> view = AdversaryView(num_byzantine=2, cohort_size=7, own_rows=torch.zeros(2, 2), honest_rows=honest)
    >>> FangKrum(closeness=0.0)(view).rows.sign()
    tensor([[-1., -1.],
            [-1., -1.]])
    """

    citation: ClassVar[str] = "Fang, Cao, Jia, Gong 2020, section 3.2"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    closeness: Strength = 0.01
    """ε, how far supporters lie from the row they support, relative to the distances of the most central honest row."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point all from about the origin against the sign of the mean, as far as Krum selects one of them."""
        rows = finite_rows(view.seen)
        against = -rows.mean(0).sign()
        with one_blas_thread():
            squared = squared_distances(pivoted_gram(as_columns(rows)).matrix)
            distance = np.sqrt(krum_scores(squared, 0).min() / max(1, len(rows) - 2))
            centre = _supporters(view, rows, self.closeness * float(distance))
            stage = _staged(squared, rows, centre, against)
        largest = view.num_byzantine
        tried = [largest] if view.may(Knowledge.HONEST) else range(1, largest + 1)
        strength = 0.0
        for number in tried if bool(against.any()) else []:
            strength, selected = _longest_selected(stage, number)
            if selected:
                break
        return Aim(centre, same_for_all(against, view), strength)


@dataclass(frozen=True)
class _Stage:
    """Honest rows g_j and forged rows o_i + λ a as Krum sees them: squared distances that are quadratic in λ."""

    honest: Matrix
    """‖g_i − g_j‖²."""
    forged: Matrix
    """‖o_i − o_j‖²."""
    between: Matrix
    """‖o_i − g_j‖²."""
    slope: Matrix
    """⟨o_i − g_j, a⟩."""
    curvature: float
    """‖a‖²."""
    longest: float
    """max_j ‖g_j‖."""

    def at(self, strength: float, number: int) -> Matrix:
        """Return the squared distances among the first `number` forged rows at λ, followed by the honest ones."""
        across = self.between[:number] + strength * (2.0 * self.slope[:number] + strength * self.curvature)
        across = np.maximum(across, 0.0)
        return np.block([[self.forged[:number, :number], across], [across.T, self.honest]])

    def bound(self, number: int) -> float:
        """Return a λ above which Krum cannot select one of `number` forged rows."""
        honest_neighbours = max(1, len(self.honest) - 1 - number)
        score = float(krum_scores(self.honest, 0).min())
        return float((np.sqrt(score / honest_neighbours) + self.longest) / np.sqrt(self.curvature))


def _staged(
    squared: Matrix, rows: Float[Tensor, "n d"], centre: Float[Tensor, "f d"], against: Float[Tensor, " d"]
) -> _Stage:
    """Measure what the distances depend on; forged rows start at the origin, where differences lose no digits."""
    columns = as_columns(rows)
    points = [*centre, against]
    with_honest = columns.products(None, points).T
    with_forged = as_columns(centre).products(None, points).T
    norms: Vector = squared_norms(columns)
    own_norms = with_forged[:-1].diagonal()
    return _Stage(
        honest=squared,
        forged=squared_distances(with_forged[:-1]),
        between=own_norms[:, None] + norms - 2.0 * with_honest[:-1],
        slope=with_forged[-1][:, None] - with_honest[-1],
        curvature=float(against.count_nonzero()),
        longest=float(np.sqrt(norms.max())),
    )


def _longest_selected(stage: _Stage, number: int) -> tuple[float, bool]:
    """Return the first λ, halving from its bound, at which a forged row beats all honest ones, and whether one did."""
    strength = 2.0 * stage.bound(number)
    for _ in range(HALVINGS + 1):
        strength /= 2.0
        scores = krum_scores(stage.at(strength, number), number)
        if scores[:number].min() < scores[number:].min():
            return strength, True
    return strength, False


def _supporters(view: AdversaryView, rows: Float[Tensor, "n d"], radius: float) -> Float[Tensor, "f d"]:
    """Return points at random distances up to `radius` from the origin, and the origin itself as the first."""
    generator = view.generator("fang-krum")
    points = random_directions(generator, view.num_byzantine, rows.shape[1])
    distances = torch.from_numpy(radius * generator.random((view.num_byzantine, 1)))
    distances[0] = 0.0
    return (points * distances).to(rows)


@ATTACKS.register("fang-trimmed-mean")
@final
class FangTrimmedMean(DirectedAttack):
    """Beyond the honest values of every coordinate, on the side against their mean (Fang et al. 2020, section 3.3).

    Where the honest mean of a coordinate is positive, values are drawn uniformly just below the smallest honest value,
    between min and b · min (min / b if min > 0); where it is negative, just above the largest one, between max and
    b · max (max / b if max < 0). Every client draws its own values. A trimmed mean then trims honest values on that
    side, or keeps forged ones that are no worse than the most extreme honest one.

    An adversary that sees its own rows only draws between 3 and 4 standard deviations from their mean (the paper's
    partial knowledge).

    Deviations: the paper scales the extremes of model parameters, here those of updates are scaled; a coordinate whose
    mean is zero, which the paper does not speak of, is pushed below.

    >>> honest = torch.tensor([[1.0, -1.0], [2.0, -4.0]])
    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.zeros(1, 2), honest_rows=honest)
    >>> below, above = FangTrimmedMean()(view).rows[0]
    >>> bool(0.5 <= below <= 1.0), bool(-1.0 <= above <= -0.5)
    (True, True)
    """

    citation: ClassVar[str] = "Fang, Cao, Jia, Gong 2020, section 3.3"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    factor: Annotated[float, Field(gt=1.0), BeforeValidator(real_number)] = 2.0
    """b, how far beyond the extremes values may be drawn."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point each from the near end of the interval to a point drawn in it."""
        rows = finite_rows(view.seen)
        near, far = self._interval(rows) if view.may(Knowledge.HONEST) else _guessed_interval(rows)
        shape = (view.num_byzantine, rows.shape[1])
        drawn = torch.from_numpy(view.generator("fang-trimmed-mean").random(shape, dtype=np.float32)).to(rows)
        return Aim(same_for_all(near, view), drawn.mul_(far - near), 1.0)

    def _interval(self, rows: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
        """Return the extreme honest values against the mean, and the ends of the intervals beyond them."""
        below = rows.mean(0) >= 0
        near = torch.where(below, rows.amin(0), rows.amax(0))
        outward = torch.where(below, near < 0, near > 0)  # scaling up leads away from the honest values
        return near, torch.where(outward, near * self.factor, near / self.factor)


def _guessed_interval(rows: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
    """Return 3 and 4 standard deviations from the mean, against it."""
    mean = rows.mean(0)
    step = torch.where(mean >= 0, -1.0, 1.0) * deviation(rows)
    return mean + NEAR * step, mean + FAR * step
