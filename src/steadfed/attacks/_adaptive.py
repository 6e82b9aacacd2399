"""Attackers that know the rule and try it out before they strike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BeforeValidator, Field, InstanceOf
from torch import Tensor

from steadfed._core.values import real_number
from steadfed.attacks._base import Aim, Attack, DirectedAttack, Forged, Strength, sent_by_all
from steadfed.attacks._geometry import POINTERS, Count, Shape, finite_rows, honest_shape, random_directions, unit
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._victim import Victim, expected_victim
from steadfed.attacks._view import AdversaryView, Knowledge

GRID_POINTS = 14
"""Strengths tried first, in geometric progression."""
PRECISION = 5e-3
"""Relative precision of a bisection."""
REFINEMENTS = 8
"""Strengths tried between the neighbours of the best of them."""
NEAREST, FARTHEST = 0.25, 4.0
"""The grid reaches from this multiple of the honest spread σ₀ to this multiple of an honest row's distance to the mean.

A row beyond is farther out than all honest ones, and every rule but the mean sees it."""
GRADES = (0.86, 0.89, 0.92, 0.95)
"""How far out the last of graded colluders is, as a share of the first."""


@ATTACKS.register("optimal")
@final
class Optimal(Attack):
    """Go as far along another attack's direction as hurts the server's rule most.

    The strength maximises ‖rule(forged and honest rows) − honest mean‖: a geometric grid of strengths, then eight more
    between the neighbours of the best one; the attack's own strength as well where that lies beyond the grid. The
    damage as a function of the strength rises until the rule sees the attack and is not concave, so this is a search
    and not a proof of the maximum. (byzfl calls the same idea "optimal" ALIE and IPM.)

    >>> from steadfed.aggregators import Median
    >>> from steadfed.attacks import Cluster
    >>> honest = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> view = AdversaryView(
    ...     num_byzantine=2, cohort_size=7, own_rows=torch.zeros(2, 1), honest_rows=honest, server_rule=Median())
    >>> forged = Optimal(attack=Cluster(direction="mean"))(view)
    >>> float(view.aggregate(forged.rows).update)  # the median of 7 rows, 2 of them below all others
    1.0
    """

    citation: ClassVar[str] = "line search as in Shejwalkar, Houmansadr 2021, section IV-B, with the rule itself"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN, Knowledge.RULE})
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    attack: Annotated[InstanceOf[DirectedAttack], Field(examples=["alie"])]
    """Where to go; how far is searched."""

    def forge(self, view: AdversaryView) -> Forged:
        """Search the strength and go there."""
        aim = self.attack.aim(view)
        victim, (centre, direction) = expected_victim(view, aim.centre, aim.direction)
        small = Aim(centre, direction, aim.strength)
        nearest, farthest = _reach(honest_shape(view.seen), direction)
        strength = most_damaging(lambda at: victim.damage(small.at(at)), nearest, farthest)
        if aim.strength > farthest:
            strength = max(strength, aim.strength, key=lambda at: victim.damage(small.at(at)))
        return sent_by_all(aim.at(strength))


@ATTACKS.register("below-threshold")
@final
class BelowThreshold(Attack):
    """Stay just below the test of a filter: the largest shift at which the rule keeps the forged rows' weight.

    RAGE in mode "auto" stops filtering as soon as the largest spread is at most κ λ_min. Colluders at one point, at
    distance s along v, add ε(1 − ε) s² to the spread along v and move the mean by ε s; so they choose the largest s
    that the rule still takes for honest, along the direction in which it does most damage: random ones, that of the
    honest mean, that of the largest honest spread, those of honest rows. Found by bisection on the rule itself, so it
    works against any rule that tells kept rows from removed ones.

    >>> from steadfed.aggregators import Rage
    >>> honest = torch.arange(20.0)[:, None]
    >>> view = AdversaryView(
    ...     num_byzantine=5, cohort_size=25, own_rows=honest[:5], honest_rows=honest, server_rule=Rage(num_byzantine=5))
    >>> result = view.aggregate(BelowThreshold()(view).rows)
    >>> bool(result.kept[:5].all()), round(float((result.update - honest.mean()).abs() / honest.std()), 1)
    (True, 0.6)
    """

    citation: ClassVar[str] = "the stop of mode auto, docs/theory/filter.md"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN, Knowledge.RULE})
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    kept_share: Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)] = 0.95
    """The part of their full weight that the forged rows must keep."""
    num_directions: Count = 2
    """Random directions tried besides the two of the honest rows."""

    def forge(self, view: AdversaryView) -> Forged:
        """Bisect the distance along every direction and take the one with the largest damage."""
        shape = honest_shape(view.seen)
        directions = _tried_directions(shape, self.num_directions, view)
        victim, (centre, basis) = expected_victim(view, shape.mean[None], directions)
        best = (-1.0, 0, 0.0)
        for index, direction in enumerate(basis):

            def rows(at: float, along: Tensor = direction) -> Tensor:
                return (centre + at * along).repeat(view.num_byzantine, 1)

            strength = self._largest_kept(victim, rows, _reach(shape, direction[None]), view)
            best = max(best, (victim.damage(rows(strength)), index, strength))
        _, index, strength = best
        return sent_by_all((shape.mean + strength * directions[index]).repeat(view.num_byzantine, 1).to(view.own_rows))

    def _largest_kept(
        self, victim: Victim, rows: Callable[[float], Tensor], reach: tuple[float, float], view: AdversaryView
    ) -> float:
        """Return the largest distance at which the forged rows keep their weight."""
        full = view.num_byzantine / (view.num_byzantine + len(victim.honest))

        def kept(at: float) -> bool:
            return float(victim.aggregate(rows(at)).weights[: view.num_byzantine].sum()) >= self.kept_share * full

        low, high = 0.0, reach[1]
        while high - low > PRECISION * max(low, reach[0]):
            middle = (low + high) / 2.0
            low, high = (middle, high) if kept(middle) else (low, middle)
        return low


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
        victim, (centre, along) = expected_victim(view, own, towards)
        reach = _reach(shape, along)
        found: list[tuple[float, float, float]] = []
        for grade in GRADES:

            def damage(at: float, last: float = grade) -> float:
                return victim.damage(_graded(centre, along, at, last))

            best = found[0][2] if found else most_damaging(damage, *reach)
            hurt, at = up_to_the_cliff(damage, best / 1.2, best * 1.2)
            found.append((hurt, grade, at))
        _, grade, strength = max(found)
        return sent_by_all(_graded(own, towards, strength, grade))


@ATTACKS.register("hill-climb")
@final
class HillClimb(Attack):
    """A black-box attacker: tries the rule out, keeps what hurts more, and lets every colluder differ.

    Forged rows are honest mean + Σ_k a_ik v_k over directions v_k: the honest mean, the largest honest spread, some
    differences of honest rows to their mean, random ones. Starts from the best cluster along one of them and then
    changes the coefficients of one, some or all colluders at random, keeping every change that does more damage.

    >>> from steadfed.aggregators import Median
    >>> honest = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> view = AdversaryView(
    ...     num_byzantine=2, cohort_size=7, own_rows=torch.zeros(2, 1), honest_rows=honest, server_rule=Median())
    >>> float((view.aggregate(HillClimb()(view).rows).update - honest.mean()).abs())
    1.0
    """

    citation: ClassVar[str] = "random restarts and hill climbing, docs/theory/filter.md"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN, Knowledge.RULE})
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    num_trials: Count = 100
    """How often the rule is tried out after the start."""
    num_directions: Count = 6
    """Directions besides the mean and the largest spread; half of them honest rows, half random."""

    def forge(self, view: AdversaryView) -> Forged:
        """Climb from the best of some clusters."""
        shape = honest_shape(view.seen)
        directions = _tried_directions(shape, self.num_directions, view)
        victim, (centre, basis) = expected_victim(view, shape.mean[None], directions)

        def damage(coefficients: Float[Tensor, "f k"]) -> float:
            return victim.damage(centre + coefficients.to(basis) @ basis)

        coefficients = self._climb(damage, self._start(damage, shape, basis, view), view.generator("hill-climb"))
        return sent_by_all(shape.mean + coefficients.to(directions) @ directions)

    def _start(self, damage: Callable[[Tensor], float], shape: Shape, basis: Tensor, view: AdversaryView) -> Tensor:
        """Return the coefficients of the best cluster: the best direction of four distances each, then the distance."""

        def cluster(index: int, strength: float) -> Tensor:
            coefficients = torch.zeros(view.num_byzantine, len(basis), dtype=torch.float64)
            coefficients[:, index] = strength
            return coefficients

        reach = [_reach(shape, direction[None]) for direction in basis]
        tried = [(damage(cluster(k, float(at))), k) for k in range(len(basis)) for at in np.geomspace(*reach[k], 4)]
        best = max(tried)[1]
        return cluster(best, most_damaging(lambda at: damage(cluster(best, at)), *reach[best]))

    def _climb(self, damage: Callable[[Tensor], float], start: Tensor, generator: np.random.Generator) -> Tensor:
        """Return the coefficients after `num_trials` random changes, each kept if it does more damage."""
        best, most = start, damage(start)
        for _ in range(self.num_trials):
            who = torch.from_numpy(generator.random(len(best)) < generator.choice([0.2, 0.5, 1.0]))
            size = float(best.abs().max()) * float(generator.choice([0.03, 0.1, 0.3]))
            together = 1 if generator.random() < 0.5 else len(best)
            noise = torch.from_numpy(generator.standard_normal((together, best.shape[1])))
            factor = float(np.exp(0.2 * generator.standard_normal()))
            tried = torch.where(who[:, None], factor * best + size * noise, best)
            hurt = damage(tried)
            if hurt > most:
                best, most = tried, hurt
        return best


def most_damaging(damage: Callable[[float], float], nearest: float, farthest: float) -> float:
    """Return the strength with the largest damage on a geometric grid and between the best one's neighbours."""
    grid = np.geomspace(nearest, farthest, GRID_POINTS)
    hurt = [damage(float(at)) for at in grid]
    best = int(np.argmax(hurt))
    inner = np.geomspace(grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)], REFINEMENTS + 2)[1:-1]
    tried = [*zip(hurt, grid, strict=True), *((damage(float(at)), at) for at in inner)]
    return float(max(tried)[1])


def up_to_the_cliff(damage: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return the largest damage found and its strength, by bisection to where damage stops growing with strength."""
    most = damage(low)
    best = (most, low)
    while high - low > PRECISION * low:
        middle = (low + high) / 2.0
        hurt = damage(middle)
        best = max(best, (hurt, middle))
        low, high = (middle, high) if hurt >= most else (low, middle)
        most = max(most, hurt)
    return best


def _reach(shape: Shape, direction: Float[Tensor, "f m"]) -> tuple[float, float]:
    """Return the smallest and the largest strength worth trying along a direction."""
    norm = float(torch.linalg.vector_norm(direction, dim=1).max())
    length = norm if 0.0 < norm < np.inf else 1.0
    scale = shape.sigma0 or float(torch.linalg.vector_norm(shape.mean)) or 1.0
    return NEAREST * scale / length, max(FARTHEST * shape.radius, 2.0 * NEAREST * scale) / length


def _tried_directions(shape: Shape, number: int, view: AdversaryView) -> Float[Tensor, "k d"]:
    """Return unit directions: against the mean, the largest spread, honest rows seen from their mean, random ones."""
    generator = view.generator("directions")
    rows = finite_rows(view.seen)
    some = rows[torch.from_numpy(generator.permutation(len(rows))[: number // 2])]
    chance = random_directions(generator, number - len(some), rows.shape[1])
    directions = torch.cat([-shape.mean[None], shape.direction[None], (some - shape.mean), chance.to(shape.mean)])
    norms = torch.linalg.vector_norm(directions, dim=1, keepdim=True)
    return torch.where(norms > 0, directions / torch.where(norms > 0, norms, 1.0), chance[-1].to(directions))


def _graded(centre: Float[Tensor, "f m"], along: Float[Tensor, "1 m"], at: float, last: float) -> Float[Tensor, "f m"]:
    """Return the rows moved along one direction, the first by `at`, the last by `last` times that."""
    steps = at * torch.linspace(1.0, last, len(centre), dtype=torch.float64)
    return centre + steps[:, None].to(centre) * along


def _sums_of_groups(view: AdversaryView, shape: Shape, generator: np.random.Generator) -> Float[Tensor, "f d"]:
    """Return unit vectors along the sums of disjoint groups of honest rows seen from their mean; zero for no group."""
    rows = finite_rows(view.seen)
    groups = np.array_split(generator.permutation(len(rows)), view.num_byzantine)
    return torch.stack([unit((rows[torch.from_numpy(group)] - shape.mean).sum(0)) for group in groups])
