"""The demonstration: one matrix of updates, several attacks, four rules; who was removed and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from holdfast.aggregators import Aggregation, Aggregator, Krum, Mean, Median, Rage
from holdfast.attacks import (
    ALittleIsEnough,
    Attack,
    Cluster,
    CovarianceShift,
    Honest,
    InnerProductManipulation,
    NotANumber,
    Spread,
)
from holdfast.scenes import Scene, scene

COHORT_SIZE, DIM, NUM_BYZANTINE = 50, 20_000, 10
ATTACKS: Mapping[str, Attack] = MappingProxyType(
    {
        "no attack": Honest(),
        "far cluster": Cluster(strength=40.0),
        "a little is enough": ALittleIsEnough(z=1.0),
        "inner product": InnerProductManipulation(epsilon=30.0),
        "5 directions": Spread(num_directions=5, strength=12.0),
        "shifted honest": CovarianceShift(strength=6.0),
        "one NaN each": NotANumber(share=1e-9),
    }
)


@dataclass(frozen=True)
class Outcome:
    """One rule against one attack."""

    attack: str
    rule: str
    error: float
    """Distance to the honest mean, in units of the honest spread σ₀."""
    liars_weight: float
    """Share of the update that comes from Byzantine clients."""
    distrusted: list[int]
    """Clients with less than half of the largest share; 0 to 9 are the Byzantine ones, if there is an attack."""


def rules() -> dict[str, Aggregator]:
    """Return the rules that are compared, all told the same bound."""
    fraction = NUM_BYZANTINE / COHORT_SIZE
    return {
        "mean": Mean(),
        "median": Median(),
        "krum": Krum(byzantine_fraction=fraction),
        "rage": Rage(byzantine_fraction=fraction),
    }


def run(seed: int = 0) -> Iterator[Outcome]:
    """Yield the outcome of every rule against every attack."""
    for name, attack in ATTACKS.items():
        number = 0 if name == "no attack" else NUM_BYZANTINE
        staged = scene("clusters", attack, cohort_size=COHORT_SIZE, dim=DIM, num_byzantine=number, seed=seed)
        for rule_name, rule in rules().items():
            yield _outcome(name, rule_name, staged, staged.aggregate(rule))


def _outcome(attack: str, rule: str, staged: Scene, result: Aggregation) -> Outcome:
    return Outcome(
        attack=attack,
        rule=rule,
        error=staged.error(result.update) * (staged.epsilon**0.5 or 1.0),
        liars_weight=staged.byzantine_weight(result.weights),
        distrusted=result.distrusted,
    )
