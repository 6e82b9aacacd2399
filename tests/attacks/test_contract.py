"""The contract over every registered attack."""

from __future__ import annotations

from typing import ClassVar, final

import pytest
import torch

from holdfast.attacks.base import Attack, Forged, sent_by_all
from holdfast.attacks.registry import ATTACKS, build_attack
from holdfast.attacks.view import AdversaryView, Knowledge
from holdfast.errors import MissingKnowledgeError
from holdfast.testing.attack_contract import CHECKS, check_attack_contract, example_adversary_view

VARIANTS: dict[str, Attack] = {
    "alie": build_attack("alie"),
    "alternating": build_attack("alternating+sign-flip"),
    "below-threshold": build_attack("below-threshold"),
    "class-flip": build_attack("class-flip", source=3, target=5),
    "cluster mean": build_attack("cluster", direction="mean"),
    "cluster spread": build_attack("cluster", direction="spread"),
    "cluster": build_attack("cluster"),
    "covariance-shift": build_attack("covariance-shift"),
    "decoys": build_attack("decoys"),
    "duplicates": build_attack("duplicates"),
    "fang-krum": build_attack("fang-krum"),
    "fang-trimmed-mean": build_attack("fang-trimmed-mean"),
    "gaussian constant": build_attack("gaussian", mean=3.0, std=0.0),
    "gaussian": build_attack("gaussian"),
    "hidra chunks": build_attack("hidra", chunk_size=2, threshold=3.0),
    "hidra": build_attack("hidra"),
    "hill-climb": build_attack("hill-climb", num_trials=4, num_directions=2),
    "inf 10%": build_attack("inf", share=0.1),
    "inf": build_attack("inf"),
    "ipm large": build_attack("ipm", epsilon=100.0),
    "ipm": build_attack("ipm"),
    "label-flip": build_attack("label-flip"),
    "label-noise": build_attack("label-noise"),
    "mimic warm": build_attack("mimic", warm_up=2),
    "mimic": build_attack("mimic"),
    **{f"min-max {direction}": build_attack("min-max", direction=direction) for direction in ("unit", "std", "sign")},
    "min-max": build_attack("min-max"),
    **{f"min-sum {direction}": build_attack("min-sum", direction=direction) for direction in ("unit", "std", "sign")},
    "min-sum": build_attack("min-sum"),
    "nan one": build_attack("nan", share=1e-9),
    "nan": build_attack("nan"),
    "none": build_attack("none"),
    "ones": build_attack("ones"),
    "optimal sign-flip": build_attack("optimal+sign-flip"),
    "optimal staircase": build_attack("optimal+staircase"),
    "optimal": build_attack("optimal+alie"),
    "random-gradient": build_attack("random-gradient"),
    "reversed-gradient": build_attack("reversed-gradient"),
    "scaling 0": build_attack("scaling", factor=0.0),
    "scaling": build_attack("scaling"),
    "shift": build_attack("shift", value=-2.0),
    "sign-flip": build_attack("sign-flip", factor=4.0),
    "silence": build_attack("silence"),
    "sleeper nested": build_attack("sleeper", start=1, stop=2, attack=build_attack("alternating+zero")),
    "sleeper": build_attack("sleeper+gaussian"),
    "spread": build_attack("spread"),
    "staircase": build_attack("staircase"),
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


@final
class Aliasing(Attack):
    """Hands out the view's own rows."""

    citation: ClassVar[str] = "this test"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN})

    def forge(self, view: AdversaryView) -> Forged:
        return sent_by_all(view.own)


@final
class Greedy(Attack):
    """Reads more than it says, and shouts."""

    citation: ClassVar[str] = "this test"
    needs: ClassVar[frozenset[Knowledge]] = frozenset()

    def forge(self, view: AdversaryView) -> Forged:
        return sent_by_all(torch.full_like(view.own, float("inf")))


@final
class Peeping(Attack):
    """Reads a field of the view, and so what it was not granted."""

    citation: ClassVar[str] = "this test"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN})

    def forge(self, view: AdversaryView) -> Forged:
        rows = view.own if view.honest_rows is None else view.honest_rows
        return sent_by_all(rows.mean(0).repeat(view.num_byzantine, 1))


@final
class Hoarding(Attack):
    """Keeps what it was granted in another round."""

    citation: ClassVar[str] = "this test"
    needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN})

    def forge(self, view: AdversaryView) -> Forged:
        return sent_by_all(view.own.clone(), {"own": view.own})


def test_contract_catches_what_breaks_it() -> None:
    with pytest.raises(AssertionError, match="not granted"):
        CHECKS["knowledge"](Peeping(), example_adversary_view())
    with pytest.raises(AssertionError, match="memory"):
        CHECKS["pure"](Hoarding(), example_adversary_view())
    with pytest.raises(AssertionError, match="own rows must not change"):
        CHECKS["pure"](Aliasing(), example_adversary_view())
    with pytest.raises(MissingKnowledgeError):
        CHECKS["knowledge"](Greedy(), example_adversary_view())
    with pytest.raises(AssertionError, match="finite rows must give finite rows"):
        CHECKS["finite"](Greedy(), example_adversary_view())
