"""Attacks of the literature that are crafted from what honest rows look like: statistics, copies, distances."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from statistics import NormalDist
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.values import whole_number
from steadfed._linalg.gram import pivoted_gram, squared_distances
from steadfed._linalg.sources import as_columns
from steadfed._linalg.spectrum import scatter_matrix
from steadfed._linalg.threads import one_blas_thread
from steadfed.attacks._base import Aim, Attack, DirectedAttack, Forged, Strength, same_for_all, sent_by_all
from steadfed.attacks._geometry import deviation, finite_rows, honest_shape, random_directions, unit
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._view import AdversaryView, Knowledge

COLUMNS_AT_A_TIME = 65536
"""Columns of which a copy in float64 is made at a time."""


@ATTACKS.register("alie")
@final
class ALittleIsEnough(DirectedAttack):
    r"""A little is enough: as far from the mean as an honest client could be, in every coordinate at once.

    rows = μ − z σ, with the mean μ and standard deviation σ of every coordinate over the rows seen (Baruch et al. 2019,
    Algorithm 3). z is the largest number with Φ(z) < (n − f − s)/(n − f), where s = ⌊n/2 + 1⌋ − f is how many honest
    clients must lie farther out for the attackers and them to be a majority of the n clients; so a median may select a
    forged value, although none of them is an outlier.

    Deviations: where the fraction is below 1/2, that is with so few attackers that more than half of the honest
    clients would have to lie farther out, the formula gives z < 0, and z = 0 is taken; where it is 1 or more, that is
    with attackers in the majority, z would be infinite, and the fraction half a client short of 1 is taken.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.zeros(1, 2), honest_rows=torch.tensor(
    ...     [[1.0, 0.0], [3.0, 0.0]]))
    >>> ALittleIsEnough(z=1.5)(view).rows
    tensor([[0.5000, 0.0000]])
    """

    citation: ClassVar[str] = "Baruch, Baruch, Goldberg 2019, Algorithm 3"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    z: Strength | None = None
    """How many standard deviations; computed from n and f if left out."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point all from the mean against the standard deviation."""
        rows = finite_rows(view.seen)
        strength = largest_z(view.cohort_size, view.num_byzantine) if self.z is None else self.z
        return Aim(same_for_all(rows.mean(0), view), same_for_all(-deviation(rows), view), strength)


def largest_z(cohort_size: int, num_byzantine: int) -> float:
    """Return the largest z with Φ(z) < (n − f − s)/(n − f), s = ⌊n/2 + 1⌋ − f; never negative, never infinite.

    >>> round(largest_z(50, 24), 3)  # s = 2, Φ(z) < 24/26
    1.426
    """
    honest = max(1, cohort_size - num_byzantine)
    supporters = (cohort_size + 2) // 2 - num_byzantine
    fraction = (honest - supporters) / honest
    return max(0.0, NormalDist().inv_cdf(min(max(fraction, 0.5), 1.0 - 0.5 / honest)))


@ATTACKS.register("ipm")
@final
class InnerProductManipulation(DirectedAttack):
    """Inner-product manipulation ("fall of empires"): a negative multiple of the honest mean.

    rows = −ε · mean (Xie, Koyejo, Gupta 2020, section 4). With a small ε the forged rows hide among honest ones near
    the origin and the update keeps its direction but loses length; with a large one the update turns around.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.zeros(1, 2), honest_rows=torch.tensor(
    ...     [[1.0, 0.0], [3.0, 4.0]]))
    >>> InnerProductManipulation(epsilon=0.5)(view).rows
    tensor([[-1., -1.]])
    """

    citation: ClassVar[str] = "Xie, Koyejo, Gupta 2020, section 4"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    epsilon: Strength = 0.1
    """ε, how many times as long as the honest mean: below 1 hides, above K/f − 1 turns a plain mean around."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point all from the origin against the mean."""
        against = same_for_all(-finite_rows(view.seen).mean(0), view)
        return Aim(torch.zeros_like(against), against, self.epsilon)


@ATTACKS.register("mimic")
@final
class Mimic(Attack):
    r"""All copy one honest client, the one farthest out along the direction in which honest clients differ most.

    No forged row is an outlier, as it is an honest one; but that client's data is over-represented, and a rule that
    discards what is rare discards the others (Karimireddy, He, Jaggi 2022, appendix on the mimic attack). The
    direction z is learned during the first T = `warm_up` rounds t = 0 … T − 1,

        μ_{t+1} = (t μ_t + ḡ)/(t + 1) ,    z_{t+1} ∝ t z_t + w/‖w‖ ,    w = Σ_i ⟨g_i − μ_{t+1}, z_t⟩ (g_i − μ_{t+1}) ,

    from a random z_0, and stays; the client copied is argmax_i ⟨g_i, z⟩, from the first round on. μ, z, t and the
    client travel in the memory.

    Deviations: without warm-up (the default) z is the direction of the largest spread of this very round's rows, from
    their Gram matrix. After the warm-up the paper copies one client for good; as a view does not say who sent which
    row, this is done only if `same_clients` promises that row i comes from the same client in every round, and
    otherwise the row with the largest projection on z is copied.

    >>> view = AdversaryView(num_byzantine=2, cohort_size=5, own_rows=torch.zeros(2, 2), honest_rows=torch.tensor(
    ...     [[1.0, 0.1], [9.0, 0.2], [2.0, 0.3]]))
    >>> Mimic()(view).rows
    tensor([[9.0000, 0.2000],
            [9.0000, 0.2000]])
    """

    citation: ClassVar[str] = "Karimireddy, He, Jaggi 2022, appendix, mimic attack"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    warm_up: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 0
    """T, the rounds during which the direction is learned."""
    same_clients: bool = False
    """Whether row i (of those usable) comes from the same client in every round."""

    def forge(self, view: AdversaryView) -> Forged:
        """Copy the row that lies farthest out."""
        rows = finite_rows(view.seen)
        if self.warm_up == 0:
            return sent_by_all(same_for_all(rows[int(np.argmax(honest_shape(rows).coordinates))], view))
        memory = self._learn(view, rows)
        return sent_by_all(same_for_all(rows[int(memory["client"]) % len(rows)], view), memory)

    def remembers(self) -> bool:
        """Return whether a direction is learned over the rounds."""
        return self.warm_up > 0

    def _learn(self, view: AdversaryView, rows: Float[Tensor, "n d"]) -> Mapping[str, Tensor]:
        """Return the memory after this round: one step of the power iteration, or the choice of a client only."""
        memory = dict(view.memory) or {
            "round": torch.tensor(0),
            "mean": torch.zeros_like(rows[0]),
            "direction": random_directions(view.generator("mimic"), 1, rows.shape[1])[0].to(rows),
        }
        t = int(memory["round"])
        if t < self.warm_up:
            memory["mean"] = (t * memory["mean"] + rows.mean(0)) / (t + 1)
            centred = rows - memory["mean"]
            image = unit((centred @ memory["direction"]) @ centred)
            memory["direction"] = unit(t * memory["direction"] + image) if image.any() else memory["direction"]
        if t < self.warm_up or not self.same_clients:
            memory["client"] = (rows @ memory["direction"]).argmax()
        return {**memory, "round": torch.tensor(t + 1)}


@ATTACKS.register("duplicates")
@final
class Duplicates(Attack):
    """Each copies another honest client, those first that lie farthest out along the largest honest spread.

    Like `Mimic`, but no two forged rows are equal as long as there are enough honest ones: the mean moves a little
    less, and looking for equal rows finds pairs only. With more attackers than honest rows the copies repeat.

    >>> view = AdversaryView(num_byzantine=2, cohort_size=5, own_rows=torch.zeros(2, 1), honest_rows=torch.tensor(
    ...     [[1.0], [2.0], [9.0]]))
    >>> Duplicates()(view).rows
    tensor([[9.],
            [2.]])
    """

    citation: ClassVar[str] = "after Karimireddy, He, Jaggi 2022, mimic attack"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    def forge(self, view: AdversaryView) -> Forged:
        """Copy rows in the order of their coordinate along the largest spread."""
        rows = finite_rows(view.seen)
        order = np.argsort(-honest_shape(rows).coordinates, kind="stable")
        chosen = order[np.arange(view.num_byzantine) % len(order)]
        return sent_by_all(rows[torch.from_numpy(chosen).to(rows.device)])


PERTURBATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "unit": lambda rows: -rows.mean(0),
        "std": lambda rows: -deviation(rows),
        "sign": lambda rows: -rows.mean(0).sign(),
    }
)
"""The three directions of Shejwalkar and Houmansadr, of any length."""


class DistanceBound(DirectedAttack, ABC):
    """An attack that goes as far along a perturbation as distances between honest rows allow.

    rows = mean + γ p with p one of the paper's three perturbations: "unit", against the mean; "std", minus the standard
    deviation of every coordinate; "sign", minus the sign of every coordinate of the mean. p is scaled to length one, so
    that γ is a distance; the row is the same. A perturbation of zero leaves the mean.

    Deviation: the paper halves its way to γ; here it is solved for exactly, from inner products.
    """

    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    direction: Literal["unit", "std", "sign"] = "std"
    """The perturbation: against the mean, minus the standard deviations, or minus the signs of the mean."""

    @abstractmethod
    def reach(self, squared: Matrix, from_mean: Vector, along: Vector) -> float:
        """Return the largest γ that is allowed.

        Args:
            squared: ‖g_i − g_j‖².
            from_mean: ‖g_i − mean‖².
            along: ⟨g_i − mean, p⟩ for the perturbation p of length one.
        """

    def aim(self, view: AdversaryView) -> Aim:
        """Point all from the mean along the perturbation, as far as is allowed."""
        rows = finite_rows(view.seen)
        mean, towards = rows.mean(0), unit(PERTURBATIONS[self.direction](rows))
        with one_blas_thread():
            gram = pivoted_gram(as_columns(rows)).matrix
            from_mean = np.maximum(scatter_matrix(gram, np.ones(len(gram))).diagonal(), 0.0)
        gamma = self.reach(squared_distances(gram), from_mean, products_along(rows, mean, towards))
        return Aim(same_for_all(mean, view), same_for_all(towards, view), gamma if bool(towards.any()) else 0.0)


@ATTACKS.register("min-max")
@final
class MinMax(DistanceBound):
    r"""As far out as possible without being farther from any honest row than two honest rows are from each other.

    γ is the largest number with max_i ‖mean + γ p − g_i‖ ≤ D = max_ij ‖g_i − g_j‖ (Shejwalkar, Houmansadr 2021,
    section IV-C, Min-Max). In closed form, with ‖p‖ = 1, a_i = ⟨g_i − mean, p⟩ and r_i = D² − ‖g_i − mean‖²,

        γ = min_i  a_i + √(a_i² + r_i) .

    Proof: ‖mean + γ p − g_i‖² = γ² − 2 a_i γ + ‖g_i − mean‖², so row i allows γ² − 2 a_i γ ≤ r_i. The mean is a convex
    combination of the rows, hence ‖g_i − mean‖ ≤ max_j ‖g_i − g_j‖ ≤ D and r_i ≥ 0: γ = 0 is allowed, and the γ ≥ 0
    that are make up the interval from 0 to the larger root of the quadratic. All rows allow up to the smallest root. ∎

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.zeros(1, 1), honest_rows=torch.tensor(
    ...     [[0.0], [4.0]]))
    >>> MinMax()(view).rows
    tensor([[0.]])
    """

    citation: ClassVar[str] = "Shejwalkar, Houmansadr 2021, section IV-C, Min-Max"

    def reach(self, squared: Matrix, from_mean: Vector, along: Vector) -> float:
        """Return the smallest of the larger roots; where a_i < 0, as r_i / (√(a_i² + r_i) − a_i), to keep digits."""
        room = np.maximum(squared.max() - from_mean, 0.0)
        size = np.abs(along) + np.sqrt(along**2 + room)
        inner = np.divide(room, size, out=np.zeros_like(size), where=size > 0.0)
        return float(np.where(along < 0.0, inner, size).min())


@ATTACKS.register("min-sum")
@final
class MinSum(DistanceBound):
    r"""As far out as possible without being farther from all honest rows together than an honest row is.

    γ is the largest number with Σ_i ‖mean + γ p − g_i‖² ≤ max_j Σ_i ‖g_j − g_i‖² (Shejwalkar, Houmansadr 2021,
    section IV-C, Min-Sum). In closed form, with ‖p‖ = 1,

        γ = max_j ‖g_j − mean‖ .

    Proof: Σ_i ‖x − g_i‖² = n ‖x − mean‖² + Σ_i ‖g_i − mean‖² for every x, since Σ_i (g_i − mean) = 0. With
    x = mean + γ p on the left and x = g_j on the right the bound reads n γ² ≤ n max_j ‖g_j − mean‖². ∎

    So whatever the perturbation, the forged rows lie as far from the mean as the farthest honest row.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=4, own_rows=torch.zeros(1, 1), honest_rows=torch.tensor(
    ...     [[1.0], [1.0], [7.0]]))
    >>> MinSum()(view).rows
    tensor([[-1.]])
    """

    citation: ClassVar[str] = "Shejwalkar, Houmansadr 2021, section IV-C, Min-Sum"

    def reach(self, squared: Matrix, from_mean: Vector, along: Vector) -> float:
        """Return the largest distance to the mean."""
        return math.sqrt(from_mean.max())


def products_along(rows: Float[Tensor, "n d"], mean: Float[Tensor, " d"], direction: Float[Tensor, " d"]) -> Vector:
    """Return ⟨g_i − mean, direction⟩ in float64; differences first, as the mean may be much longer than they are."""
    total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    for start in range(0, rows.shape[1], COLUMNS_AT_A_TIME):
        some = slice(start, start + COLUMNS_AT_A_TIME)
        total += (rows[:, some].double() - mean[some].double()) @ direction[some].double()
    return np.asarray(total.cpu().numpy())
