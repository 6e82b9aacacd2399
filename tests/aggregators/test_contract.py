"""The contract over every registered aggregator."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.aggregators import RULES, Aggregator, build_rule
from holdfast.attacks import build_attack
from holdfast.scenes import MODELS, scene
from holdfast.testing.contract import CHECKS, check_contract, example_updates

VARIANTS: dict[str, Aggregator] = {
    "geometric-median": build_rule("geometric-median"),
    "krum f=3": build_rule("krum", num_byzantine=3),
    "krum 20%": build_rule("krum", byzantine_fraction=0.2),
    "krum f=0": build_rule("krum", num_byzantine=0),
    "mean": build_rule("mean"),
    "median": build_rule("median"),
    "nnm geometric-median": build_rule("nnm+geometric-median", num_byzantine=3),
    "nnm median": build_rule("nnm+median", num_byzantine=3),
    "nnm rage": build_rule("nnm+rage", byzantine_fraction=0.2),
    "rage 20%": build_rule("rage", byzantine_fraction=0.2),
    "rage f=0": build_rule("rage", num_byzantine=0),
    "rage f=3": build_rule("rage", num_byzantine=3),
    "rage known": build_rule("rage", byzantine_fraction=0.2, mode="known", sigma0=3.0),
    "rage exact": build_rule("rage", byzantine_fraction=0.2, mode="exact", sigma0=3.0),
}


SCALED = ("cluster", "covariance-shift", "spread", "staircase")
COPIES = ("duplicates", "mimic")


def test_every_registered_rule_has_a_variant_under_contract() -> None:
    assert {name.split()[0] for name in VARIANTS} == set(RULES)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_rule_keeps_the_contract(variant: str, check: str) -> None:
    rule = VARIANTS[variant]
    CHECKS[check](rule, example_updates(rule))


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.sampled_from(sorted(MODELS)),
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
    staged = build_attack(attack) if attack in COPIES else build_attack(attack, strength=strength)
    updates = scene(model, staged, cohort_size=cohort_size, dim=dim, num_byzantine=number, seed=seed).updates
    # Duplicated rows tie, and a tie may be broken either way by rounding; permutation is checked on distinct rows.
    skipped = {"permutation"} if attack in COPIES or strength == 0.0 else set()
    for name, check in CHECKS.items():
        if name not in skipped:
            check(rule, updates)


def test_contract_can_be_run_on_a_rule_of_ones_own() -> None:
    check_contract(VARIANTS["median"])
