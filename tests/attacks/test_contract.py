"""The contract over every registered attack."""

from __future__ import annotations

from typing import ClassVar, final

import pytest
import torch

from steadfed.attacks._base import Attack, Forged, sent_by_all
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._view import AdversaryView, Knowledge
from steadfed.errors import MissingKnowledgeError
from steadfed.testing.attack_contract import CHECKS, check_attack_contract, example_adversary_view

WITH_PARAMETERS: dict[str, Attack] = {
    "class-flip": ATTACKS.build("class-flip", source=3, target=5),
    "cluster mean": ATTACKS.build("cluster", direction="mean"),
    "cluster spread": ATTACKS.build("cluster", direction="spread"),
    "gaussian constant": ATTACKS.build("gaussian", mean=3.0, std=0.0),
    "hidra chunks": ATTACKS.build("hidra", chunk_size=2, threshold=3.0),
    "inf 10%": ATTACKS.build("inf", share=0.1),
    "ipm large": ATTACKS.build("ipm", epsilon=100.0),
    "mimic warm": ATTACKS.build("mimic", warm_up=2),
    **{f"min-max {direction}": ATTACKS.build("min-max", direction=direction) for direction in ("unit", "std", "sign")},
    **{f"min-sum {direction}": ATTACKS.build("min-sum", direction=direction) for direction in ("unit", "std", "sign")},
    "nan one": ATTACKS.build("nan", share=1e-9),
    "optimal sign-flip": ATTACKS.build("optimal+sign-flip"),
    "optimal staircase": ATTACKS.build("optimal+staircase"),
    "scaling 0": ATTACKS.build("scaling", factor=0.0),
    "shift": ATTACKS.build("shift", value=-2.0),
    "sign-flip": ATTACKS.build("sign-flip", factor=4.0),
    "sleeper nested": ATTACKS.build("sleeper", start=1, stop=2, attack=ATTACKS.build("alternating+zero")),
    "sleeper": ATTACKS.build("sleeper+gaussian"),
}
"""Attacks whose other parameters, or the attacks inside, deserve a look of their own."""
CHEAPER: dict[str, Attack] = {"hill-climb": ATTACKS.build("hill-climb", num_trials=4, num_directions=2)}
"""In place of attacks that would take long with their defaults."""


def registered() -> dict[str, Attack]:
    """Return every registered attack with its defaults."""
    return {name: CHEAPER[name] if name in CHEAPER else ATTACKS.example(name) for name in ATTACKS}


VARIANTS = {**registered(), **WITH_PARAMETERS}


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
