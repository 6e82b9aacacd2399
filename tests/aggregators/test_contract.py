"""The contract over every registered aggregator."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.aggregators import RULES, Aggregator, build_rule
from holdfast.attacks import build_attack
from holdfast.sweeps.matrices.populations import MODELS, scene
from holdfast.testing.contract import CHECKS, check_contract, example_updates

VARIANTS: dict[str, Aggregator] = {
    "arc trimmed-mean": build_rule("arc+trimmed-mean", num_byzantine=3),
    "arc nnm trimmed-mean": build_rule("arc+nnm+trimmed-mean", byzantine_fraction=0.2),
    "bucketing median": build_rule("bucketing+median", num_byzantine=2),
    "bucketing geometric-median": build_rule("bucketing+geometric-median", num_byzantine=2),
    "bulyan f=2": build_rule("bulyan", num_byzantine=2),
    "bulyan f=0": build_rule("bulyan", num_byzantine=0),
    "caf f=3": build_rule("caf", num_byzantine=3),
    "caf 20%": build_rule("caf", byzantine_fraction=0.2),
    "caf f=0": build_rule("caf", num_byzantine=0),
    "centered-clipping": build_rule("centered-clipping"),
    "centered-clipping origin": build_rule("centered-clipping", start="origin", radius=2.0),
    "centered-clipping median": build_rule("centered-clipping", start="median"),
    "clipping mean": build_rule("clipping", radius=3.0, rule=build_rule("mean", num_byzantine=3)),
    "clustered median": build_rule("clustered+median", num_byzantine=3),
    "clustered rage": build_rule("clustered+rage", num_byzantine=2),
    "dnc f=3": build_rule("dnc", num_byzantine=3),
    "dnc subsample": build_rule("dnc", byzantine_fraction=0.2, subsample=8),
    "flame": build_rule("flame"),
    "fltrust": build_rule("fltrust"),
    "foolsgold": build_rule("foolsgold"),
    "geometric-median": build_rule("geometric-median"),
    "geometric-median-of-means": build_rule("geometric-median-of-means", num_byzantine=3),
    "krum f=3": build_rule("krum", num_byzantine=3),
    "krum 20%": build_rule("krum", byzantine_fraction=0.2),
    "krum f=0": build_rule("krum", num_byzantine=0),
    "mda f=3": build_rule("mda", num_byzantine=3),
    "mda f=0": build_rule("mda", num_byzantine=0),
    "meamed 20%": build_rule("meamed", byzantine_fraction=0.2),
    "meamed f=0": build_rule("meamed", num_byzantine=0),
    "mean": build_rule("mean"),
    "median": build_rule("median"),
    "multi-krum f=3": build_rule("multi-krum", num_byzantine=3),
    "multi-krum 5 of them": build_rule("multi-krum", byzantine_fraction=0.2, num_selected=5),
    "nnm geometric-median": build_rule("nnm+geometric-median", num_byzantine=3),
    "nnm median": build_rule("nnm+median", num_byzantine=3),
    "nnm rage": build_rule("nnm+rage", byzantine_fraction=0.2),
    "rage 20%": build_rule("rage", byzantine_fraction=0.2),
    "rage f=0": build_rule("rage", num_byzantine=0),
    "rage f=3": build_rule("rage", num_byzantine=3),
    "rage known": build_rule("rage", byzantine_fraction=0.2, mode="known", sigma0=3.0),
    "rage exact": build_rule("rage", byzantine_fraction=0.2, mode="exact", sigma0=3.0),
    "norm-filter 20%": build_rule("norm-filter", byzantine_fraction=0.2),
    "rfa": build_rule("rfa"),
    "rsa": build_rule("rsa"),
    "signguard": build_rule("signguard"),
    "slsgd f=3": build_rule("slsgd", num_byzantine=3),
    "smea f=1": build_rule("smea", num_byzantine=1),
    "smea f=0": build_rule("smea", num_byzantine=0),
    "trimmed-mean f=3": build_rule("trimmed-mean", num_byzantine=3),
    "trimmed-mean 20%": build_rule("trimmed-mean", byzantine_fraction=0.2),
    "trimmed-mean f=0": build_rule("trimmed-mean", num_byzantine=0),
    "zeno f=3": build_rule("zeno", num_byzantine=3),
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
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
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
    # Copies of honest rows tie, and a tie may be broken either way by rounding.
    skipped = {"permutation", "dtypes and containers"} if attack in COPIES or strength == 0.0 else set()
    for name, check in CHECKS.items():
        if name not in skipped:
            check(rule, updates)


def test_contract_can_be_run_on_a_rule_of_ones_own() -> None:
    check_contract(VARIANTS["median"])
