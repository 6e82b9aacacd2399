"""The demonstration: one matrix of updates, several attacks, four rules; who was removed and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.aggregators import Aggregation, Aggregator, Krum, Mean, Median, Rage
from holdfast.testing.clouds import Scene, scene

COHORT_SIZE, DIM, NUM_BYZANTINE = 50, 20_000, 10
ATTACKS = (
    ("no attack", "cluster", 0.0),
    ("far cluster", "cluster", 40.0),
    ("a little is enough", "little", 1.0),
    ("inner product", "inner-product", 30.0),
    ("5 directions", "spread-5", 12.0),
    ("shifted honest", "covariance", 6.0),
    ("NaN and 1e30", "broken", 0.0),
)
"""What it is called, the forgery of `holdfast.testing.clouds`, and its strength."""


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
    for attack, forgery, strength in ATTACKS:
        staged = _staged(attack, forgery, strength, seed)
        for name, rule in rules().items():
            yield _outcome(attack, name, staged, rule(staged.updates))


def _staged(attack: str, forgery: str, strength: float, seed: int) -> Scene:
    number = 0 if attack == "no attack" else NUM_BYZANTINE
    name = "cluster" if forgery == "broken" else forgery
    staged = scene(
        "clusters", name, cohort_size=COHORT_SIZE, dim=DIM, num_byzantine=number, strength=strength, seed=seed
    )
    if forgery == "broken":
        staged.updates[: number // 2] = float("nan")
        staged.updates[number // 2 : number] = 1e30
    return staged


def _outcome(attack: str, rule: str, staged: Scene, result: Aggregation) -> Outcome:
    return Outcome(
        attack=attack,
        rule=rule,
        error=staged.error(result.update) * (staged.epsilon**0.5 or 1.0),
        liars_weight=float(result.weights[: staged.num_byzantine].sum()),
        distrusted=result.distrusted,
    )
