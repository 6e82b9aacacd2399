"""The contract over every registered aggregator."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from steadfed.aggregators import RULES, Aggregator, BoundedAggregator, LooselyBoundedAggregator
from steadfed.aggregators._wrappers.base import ShrinkingWrapper
from steadfed.attacks import ATTACKS
from steadfed.sweeps.matrices._populations import AT_REST, POPULATIONS, attacked_population
from steadfed.testing.contract import CHECKS, check_contract, example_updates

WITH_PARAMETERS: dict[str, Aggregator] = {
    "arc nnm trimmed-mean": RULES.build("arc+nnm+trimmed-mean", byzantine_fraction=0.2),
    "bucketing geometric-median": RULES.build("bucketing+geometric-median", num_byzantine=2),
    "bulyan f=0": RULES.build("bulyan", num_byzantine=0),
    "caf 20%": RULES.build("caf", byzantine_fraction=0.2),
    "caf f=0": RULES.build("caf", num_byzantine=0),
    "centered-clipping origin": RULES.build("centered-clipping", start="origin", radius=2.0),
    "centered-clipping median": RULES.build("centered-clipping", start="median"),
    "clipping mean": RULES.build("clipping", radius=3.0, rule=RULES.build("mean", num_byzantine=3)),
    "clustered rage": RULES.build("clustered+rage", num_byzantine=2),
    "dnc subsample": RULES.build("dnc", byzantine_fraction=0.2, subsample=8),
    "krum 20%": RULES.build("krum", byzantine_fraction=0.2),
    "krum f=0": RULES.build("krum", num_byzantine=0),
    "mda f=0": RULES.build("mda", num_byzantine=0),
    "meamed 20%": RULES.build("meamed", byzantine_fraction=0.2),
    "meamed f=0": RULES.build("meamed", num_byzantine=0),
    "multi-krum 5 of them": RULES.build("multi-krum", byzantine_fraction=0.2, num_selected=5),
    "nnm geometric-median": RULES.build("nnm+geometric-median", num_byzantine=3),
    "nnm rage": RULES.build("nnm+rage", byzantine_fraction=0.2),
    "rage 20%": RULES.build("rage", byzantine_fraction=0.2),
    "rage f=0": RULES.build("rage", num_byzantine=0),
    "rage known": RULES.build("rage", byzantine_fraction=0.2, mode="known", sigma0=3.0),
    "rage exact": RULES.build("rage", byzantine_fraction=0.2, mode="exact", sigma0=3.0),
    "rage lazy": RULES.build("rage", byzantine_fraction=0.2, mode="lazy", sigma0=3.0),
    "norm-filter 20%": RULES.build("norm-filter", byzantine_fraction=0.2),
    "smea f=0": RULES.build("smea", num_byzantine=0),
    "trimmed-mean 20%": RULES.build("trimmed-mean", byzantine_fraction=0.2),
    "trimmed-mean f=0": RULES.build("trimmed-mean", num_byzantine=0),
}
"""Rules whose other parameters, or the rules inside, deserve a look of their own."""
FEWER = {"bucketing": 2, "bulyan": 2, "smea": 1}
"""How many Byzantine rows these are told, as they need many rows (bucketing, Bulyan) or try all subsets (SMEA)."""


def registered() -> dict[str, Aggregator]:
    """Return every registered rule with its defaults, told how many rows are Byzantine if it has to be or wraps."""
    return {name: RULES.example(name, **_bound(name)) for name in RULES}


def _bound(name: str) -> dict[str, int]:
    told_nothing = issubclass(RULES[name], LooselyBoundedAggregator) and not issubclass(RULES[name], BoundedAggregator)
    return {} if told_nothing else {"num_byzantine": FEWER.get(name, 3)}


VARIANTS = {**registered(), **WITH_PARAMETERS}


SCALED = ("cluster", "covariance-shift", "spread", "staircase")
COPIES = ("duplicates", "mimic")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_rule_keeps_the_contract(variant: str, check: str) -> None:
    rule = VARIANTS[variant]
    CHECKS[check](rule, example_updates(rule))


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=5, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.sampled_from(sorted(POPULATIONS)),
    attack=st.sampled_from([*SCALED, *COPIES]),
    cohort_size=st.integers(12, 40),
    dim=st.sampled_from([1, 2, 17, 300]),
    strength=st.sampled_from([0.0, 1.0, 5.0, 1e4]),
    seed=st.integers(0, 2**32),
)
def test_rule_keeps_the_contract_on_every_cloud(
    variant: str, model: str, attack: str, cohort_size: int, dim: int, strength: float, seed: int
) -> None:
    rule = VARIANTS[variant]
    number = min(3, rule.assumed_byzantine(cohort_size))
    staged = ATTACKS.build(attack) if attack in COPIES else ATTACKS.build(attack, strength=strength)
    updates = attacked_population(
        model, staged, cohort_size=cohort_size, dim=dim, num_byzantine=number, seed=seed
    ).updates
    # Copies of honest rows tie, as do clients at rest, and in one dimension rows that are clipped to one norm; a tie
    # may be broken either way by rounding.
    ties = attack in COPIES or model in AT_REST or strength == 0.0 or (dim == 1 and isinstance(rule, ShrinkingWrapper))
    skipped = {"permutation", "dtypes and containers"} if ties else set()
    for name, check in CHECKS.items():
        if name not in skipped:
            check(rule, updates)


def test_contract_can_be_run_on_a_rule_of_ones_own() -> None:
    check_contract(VARIANTS["median"])
