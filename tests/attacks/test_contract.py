"""The contract over every registered attack."""

from __future__ import annotations

import pytest

from holdfast.attacks.base import Attack
from holdfast.attacks.registry import ATTACKS, build_attack
from holdfast.testing.attack_contract import CHECKS, check_attack_contract, example_adversary_view

VARIANTS: dict[str, Attack] = {
    "alternating": build_attack("alternating+sign-flip"),
    "class-flip": build_attack("class-flip", source=3, target=5),
    "gaussian": build_attack("gaussian"),
    "gaussian constant": build_attack("gaussian", mean=3.0, std=0.0),
    "inf": build_attack("inf"),
    "inf 10%": build_attack("inf", share=0.1),
    "label-flip": build_attack("label-flip"),
    "label-noise": build_attack("label-noise"),
    "nan": build_attack("nan"),
    "nan one": build_attack("nan", share=1e-9),
    "none": build_attack("none"),
    "ones": build_attack("ones"),
    "random-gradient": build_attack("random-gradient"),
    "reversed-gradient": build_attack("reversed-gradient"),
    "scaling": build_attack("scaling"),
    "scaling 0": build_attack("scaling", factor=0.0),
    "shift": build_attack("shift", value=-2.0),
    "sign-flip": build_attack("sign-flip", factor=4.0),
    "silence": build_attack("silence"),
    "sleeper": build_attack("sleeper+gaussian"),
    "sleeper nested": build_attack("sleeper", start=1, stop=2, attack=build_attack("alternating+zero")),
    "zero": build_attack("zero"),
}


def test_every_registered_attack_has_a_variant_under_contract() -> None:
    assert {name.split()[0] for name in VARIANTS} == set(ATTACKS)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_attack_keeps_the_contract(variant: str, check: str) -> None:
    CHECKS[check](VARIANTS[variant], example_adversary_view())


@pytest.mark.parametrize("variant", VARIANTS)
def test_attack_works_on_long_rows_of_a_large_cohort(variant: str) -> None:
    view = example_adversary_view(num_byzantine=12, cohort_size=40, dim=300, seed=5)
    CHECKS["finite"](VARIANTS[variant], view)


def test_contract_can_be_run_on_an_attack_of_ones_own() -> None:
    check_attack_contract(VARIANTS["sign-flip"])
