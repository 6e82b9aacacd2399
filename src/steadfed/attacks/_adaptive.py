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
from steadfed.attacks._base import Aim, Attack, DirectedAttack, Forged, sent_by_all
from steadfed.attacks._geometry import Count, Shape, honest_shape
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._search import largest_allowed, most_damaging, reach_along, tried_directions
from steadfed.attacks._victim import Victim, expected_victim
from steadfed.attacks._view import AdversaryView, Knowledge


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
        nearest, farthest = reach_along(honest_shape(view.seen), direction)
        strength = most_damaging(lambda at: victim.damage(small.at(at)), nearest, farthest)
        if aim.strength > farthest:
            strength = max(strength, aim.strength, key=lambda at: victim.damage(small.at(at)))
        return sent_by_all(aim.at(strength))


@ATTACKS.register("below-threshold")
@final
class BelowThreshold(Attack):
    """Stay just below the test of a filter: the largest shift at which the rule keeps the forged rows' weight.

    RAGE in mode "spread" stops filtering as soon as the largest spread is at most κ λ_min. Colluders at one point, at
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
        directions = tried_directions(shape, self.num_directions, view)
        victim, (centre, basis) = expected_victim(view, shape.mean[None], directions)
        best = (-1.0, 0, 0.0)
        for index, direction in enumerate(basis):

            def rows(at: float, along: Tensor = direction) -> Tensor:
                return (centre + at * along).repeat(view.num_byzantine, 1)

            strength = self._largest_kept(victim, rows, reach_along(shape, direction[None]), view)
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

        return largest_allowed(kept, *reach)


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
        directions = tried_directions(shape, self.num_directions, view)
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

        reach = [reach_along(shape, direction[None]) for direction in basis]
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
