"""When the adversary acts, and through which clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, final

import numpy as np
import pytest
import torch

from steadfed.attacks._base import Attack, Forged, sent_by_all
from steadfed.attacks._labels import LabelFlip
from steadfed.attacks._membership import ChangingMembers, FixedMembers, FractionMembers, Membership
from steadfed.attacks._simple import Honest, SignFlip, Zero
from steadfed.attacks._timing import Alternating, Sleeper, TimedAttack, acting_attack
from steadfed.attacks._view import AdversaryView, Knowledge
from steadfed.errors import MissingKnowledgeError, ParameterError

VIEW = AdversaryView(num_byzantine=2, cohort_size=5, own_rows=torch.ones(2, 3))


@final
class Counting(Attack):
    """Sends how often it has been called."""

    citation: ClassVar[str] = "this test"
    needs: ClassVar[frozenset[Knowledge]] = frozenset()

    def forge(self, view: AdversaryView) -> Forged:
        count = view.memory.get("count", torch.zeros(())) + 1
        return sent_by_all(torch.ones_like(view.own_rows) * count, {"count": count})


def awake(attack: TimedAttack, rounds: int) -> list[bool]:
    flipped = [bool((attack(replace(VIEW, round=number)).rows == -1).all()) for number in range(rounds)]
    assert flipped == [attack.is_awake(number) for number in range(rounds)]
    return flipped


def test_sleeper_wakes_up_and_perhaps_falls_asleep_again() -> None:
    assert awake(Sleeper(attack=SignFlip(), start=2), 5) == [False, False, True, True, True]
    assert awake(Sleeper(attack=SignFlip(), start=2, stop=4), 5) == [False, False, True, True, False]
    assert awake(Sleeper(attack=SignFlip(), start=0), 2) == [True, True]


def test_alternating_attacks_in_the_first_rounds_of_every_period() -> None:
    assert awake(Alternating(attack=SignFlip()), 4) == [True, False, True, False]
    assert awake(Alternating(attack=SignFlip(), active=2, period=3), 6) == [True, True, False] * 2
    assert awake(Alternating(attack=SignFlip(), active=3, period=3), 4) == [True] * 4


def test_memory_of_the_attack_inside_survives_its_sleep() -> None:
    attack = Alternating(attack=Counting())
    memory: Mapping[str, torch.Tensor] = {}
    sent = []
    for number in range(5):
        forged = attack(replace(VIEW, round=number, memory=memory))
        memory = forged.memory
        sent.append(float(forged.rows[0, 0]))
    assert sent == [1.0, 1.0, 2.0, 1.0, 3.0]  # honest rows of ones in between


def test_timers_can_be_nested() -> None:
    nested = Sleeper(attack=Alternating(attack=SignFlip()), start=1, stop=4)
    flipped = [bool((nested(replace(VIEW, round=number)).rows < 0).all()) for number in range(6)]
    assert flipped == [False, False, True, False, False, False]
    assert acting_attack(nested, 2) == SignFlip()
    assert acting_attack(nested, 3) == Honest()
    assert acting_attack(LabelFlip(), 7) == LabelFlip()


def test_a_timer_needs_what_it_and_the_attack_inside_need() -> None:
    assert Sleeper(attack=Zero()).all_needs() == {Knowledge.OWN}
    with pytest.raises(MissingKnowledgeError, match="OWN"):
        Sleeper(attack=Zero(), start=0)(replace(VIEW, granted=frozenset()))


def test_wrong_times_are_refused() -> None:
    with pytest.raises(ParameterError, match="stop must come after start = 3, got 3"):
        Sleeper(attack=Zero(), start=3, stop=3)
    with pytest.raises(ParameterError, match="active must be at most period = 2, got 3"):
        Alternating(attack=Zero(), active=3)
    with pytest.raises(ParameterError, match=r"start: .*got -1"):
        Sleeper(attack=Zero(), start=-1)
    with pytest.raises(ParameterError, match="attack: "):
        Sleeper(attack="zero")


def test_fixed_members_are_those_named() -> None:
    members = FixedMembers(clients=(3, 0))
    assert members.members(5, 4, seed=1).tolist() == [True, False, False, True]
    assert not FixedMembers().members(0, 3, seed=0).any()
    with pytest.raises(ParameterError, match=r"clients must lie in 0 .. 2 for 3 clients, got 3"):
        members.members(0, 3, seed=0)
    with pytest.raises(ParameterError, match="each client may be named once"):
        FixedMembers(clients=(1, 1))


@pytest.mark.parametrize("kind", [FractionMembers, ChangingMembers])
@pytest.mark.parametrize(
    ("fraction", "num_clients", "number"), [(0.0, 10, 0), (0.29, 100, 29), (0.2, 9, 1), (1.0, 3, 3), (0.5, 1, 0)]
)
def test_the_share_is_rounded_down(
    kind: type[FractionMembers | ChangingMembers], fraction: float, num_clients: int, number: int
) -> None:
    members: Membership = kind(fraction=fraction)
    chosen = members.members(3, num_clients, seed=2)
    assert chosen.dtype == np.bool_
    assert chosen.shape == (num_clients,)
    assert int(chosen.sum()) == number


def test_members_are_drawn_once_or_in_every_round() -> None:
    drawn = [tuple(FractionMembers(fraction=0.3).members(number, 50, seed=0)) for number in range(5)]
    redrawn = [tuple(ChangingMembers(fraction=0.3).members(number, 50, seed=0)) for number in range(5)]
    assert len(set(drawn)) == 1
    assert len(set(redrawn)) == 5
    assert tuple(FractionMembers(fraction=0.3).members(0, 50, seed=1)) != drawn[0]
    assert tuple(ChangingMembers(fraction=0.3).members(2, 50, seed=0)) == redrawn[2]
