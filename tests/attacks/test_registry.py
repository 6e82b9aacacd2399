"""Attacks by name and as tables."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w

from steadfed.attacks._base import Attack
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._simple import Gaussian, SignFlip, Zero
from steadfed.attacks._timing import Alternating, Sleeper
from steadfed.errors import ParameterError, UnknownNameError

EXAMPLES: list[Attack] = [
    Zero(),
    SignFlip(factor=3.0),
    Gaussian(mean=1.0),
    Sleeper(attack=SignFlip(), start=4, stop=9),
    Sleeper(attack=Alternating(attack=Gaussian(std=1.0), period=5)),
]


@pytest.mark.parametrize("attack", EXAMPLES, ids=str)
def test_tables_give_the_same_attack_back(attack: Attack) -> None:
    assert ATTACKS.from_table(ATTACKS.to_table(attack)) == attack
    assert ATTACKS.from_table(tomllib.loads(tomli_w.dumps(ATTACKS.to_table(attack)))) == attack


@pytest.mark.parametrize("attack", EXAMPLES, ids=str)
def test_repr_is_the_code_that_builds_the_attack(attack: Attack) -> None:
    assert eval(repr(attack), {kind.__name__: kind for kind in ATTACKS.values()}) == attack  # noqa: S307  our own repr


def test_names_are_sorted_and_those_of_the_classes() -> None:
    assert list(ATTACKS) == sorted(ATTACKS)
    assert len(set(ATTACKS.values())) == len(ATTACKS)


def test_every_attack_says_where_it_comes_from_and_what_it_must_know() -> None:
    for kind in ATTACKS.values():
        assert kind.citation
        assert not kind.needs & kind.uses
        assert ">>>" in str(kind.__doc__)
        assert kind.model_json_schema()["type"] == "object"


def test_attacks_are_hashable_and_compared_by_value() -> None:
    assert len({SignFlip(), SignFlip(), SignFlip(factor=2.0), Sleeper(attack=SignFlip())}) == 3


def test_plus_wraps_from_the_right() -> None:
    attack = ATTACKS.build("sleeper+alternating+gaussian", std=2.0)
    assert attack == Sleeper(attack=Alternating(attack=Gaussian(std=2.0)))
    assert ATTACKS.name(attack) == "sleeper+alternating+gaussian"


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown attack 'signflip', did you mean 'sign-flip'"):
        ATTACKS.build("signflip")
    with pytest.raises(ParameterError, match=r"'zero' in 'zero\+ones' wraps no other attack; wrappers: .*sleeper"):
        ATTACKS.build("zero+ones")
    with pytest.raises(ParameterError, match="no parameter 'facto', did you mean 'factor'"):
        ATTACKS.build("sign-flip", facto=2.0)


@pytest.mark.parametrize("table", [{}, {"name": 3}, {"name": "sleeper", "attack": {"start": 3}}])
def test_tables_without_a_name_are_refused(table: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="expected a table with the name of an attack"):
        ATTACKS.from_table(table)
