"""Attacks of the user's own: functions, objects that are called, classes of attacks; and what is wrong with some."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests import own_code
from tests.own_code import HERE, Zeros

from steadfed._core.own_code import loaded
from steadfed.aggregators import Mean
from steadfed.attacks import ATTACKS, AdversaryView, Attack, ImportedAttack, Knowledge, SignFlip
from steadfed.errors import MissingKnowledgeError, OwnCodeError, ParameterError

VIEW = AdversaryView(
    num_byzantine=2,
    cohort_size=5,
    own_rows=torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
    honest_rows=torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    server_rule=Mean(),
)


def attack(name: str, **parameters: object) -> Attack:
    return ATTACKS.build(f"{HERE}:{name}", **parameters)


def test_one_row_is_sent_by_all_and_a_matrix_by_each() -> None:
    assert attack("turned")(VIEW).rows.tolist() == [[-3.0, -4.0]] * 2
    assert attack("turned", strength=2.0)(VIEW).rows.tolist() == [[-6.0, -8.0]] * 2
    drawn = attack("noisy")(VIEW).rows
    assert drawn.shape == (2, 2)
    assert drawn.dtype == torch.float32
    assert torch.equal(drawn, attack("noisy")(VIEW).rows)
    assert not torch.equal(drawn, attack("noisy")(replace(VIEW, round=1)).rows)


def test_an_object_that_is_called_is_an_attack() -> None:
    assert attack("Factor", tau=3.0)(VIEW).rows.tolist() == [[9.0, 12.0]] * 2


def test_it_gets_what_it_asks_for() -> None:
    assert attack("echo")(VIEW).rows.tolist() == [[10.0, 12.0], [9.0, 13.0]]
    assert attack("tries")(VIEW).rows.tolist() == [attack("tries")(VIEW).rows[0].tolist()] * 2


def test_it_sees_what_is_granted_only() -> None:
    alone = replace(VIEW, granted=frozenset({Knowledge.OWN}))
    assert attack("turned")(alone).rows.tolist() == [[-0.5, -0.5]] * 2
    with pytest.raises(MissingKnowledgeError):
        attack("tries").forge(alone)
    with pytest.raises(MissingKnowledgeError):
        attack("turned")(replace(VIEW, granted=frozenset({Knowledge.HONEST})))


def test_classes_and_objects_of_attacks_are_the_attack_itself() -> None:
    assert loaded(attack("Zeros")) == Zeros()
    assert attack("Zeros")(VIEW).rows.tolist() == [[0.0, 0.0]] * 2
    assert loaded(attack("flipped")) == SignFlip(factor=3.0)
    assert loaded(ATTACKS.build(f"sleeper+{HERE}:flipped")).chain()


def test_how_far_to_go_is_searched_from_the_honest_mean() -> None:
    own = ATTACKS.build(f"optimal+{HERE}:turned")
    assert ATTACKS.name(own) == f"optimal+{HERE}:turned"
    assert ATTACKS.from_table(ATTACKS.to_table(own)) == own
    aim = ImportedAttack(import_path=f"{HERE}:turned").aim(VIEW)
    assert aim.centre.tolist() == [[3.0, 4.0]] * 2
    assert aim.at(1.0).tolist() == [[-3.0, -4.0]] * 2
    assert loaded(own)(VIEW).rows.shape == (2, 2)
    with pytest.raises(ParameterError, match="DirectedAttack"):
        loaded(ATTACKS.build(f"optimal+{HERE}:Zeros"))


def test_what_it_returns_is_looked_at() -> None:
    for name, said in [("words", "got str"), ("too_short", r"got shape \(1,\)"), ("failing", "ZeroDivisionError")]:
        with pytest.raises(OwnCodeError, match=said):
            attack(name)(VIEW)
        with pytest.raises(ParameterError, match="tried on random numbers"):
            ImportedAttack(import_path=f"{HERE}:{name}").try_on(2)
    with pytest.raises(ParameterError, match="takes 'radius', which it was not given"):
        attack("wants_more")(VIEW)


def test_what_stands_for_an_attack_is_one() -> None:
    assert ATTACKS.of(own_code.turned) == attack("turned")
    assert ATTACKS.of("sign-flip") == ATTACKS.of(SignFlip) == SignFlip()
    with pytest.raises(ParameterError, match="the attack cannot be named by import: it is a lambda"):
        ATTACKS.of(lambda honest: honest.mean(0))
