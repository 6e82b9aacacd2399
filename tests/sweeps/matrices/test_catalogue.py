from __future__ import annotations

import pytest

from steadfed.aggregators import RULES
from steadfed.attacks import ATTACKS
from steadfed.sweeps.matrices import GRIDS
from steadfed.sweeps.matrices._catalogue import (
    ATTACK_LABELS,
    LEFT_OUT,
    RULE_LABELS,
    attack_for,
    rule_for,
    why_no_attack,
    why_no_rule,
)


def parts(labels: tuple[str, ...]) -> set[str]:
    return {part for label in labels for part in label.split("+")}


@pytest.mark.parametrize("name", RULES)
def test_every_registered_rule_takes_part_or_says_why_not(name: str) -> None:
    assert (name in parts(RULE_LABELS)) == (why_no_rule(name) is None)


def test_the_rules_that_take_no_part_are_these() -> None:
    assert {name for name in RULES if why_no_rule(name)} == {"clipping", *LEFT_OUT}
    assert set(LEFT_OUT) == {"rsa", "slsgd", "smea"}


@pytest.mark.parametrize("name", ATTACKS)
def test_every_registered_attack_takes_part_or_says_why_not(name: str) -> None:
    assert (name in ATTACK_LABELS) == (why_no_attack(name) is None)


def test_the_attacks_that_take_no_part_change_data_or_steer_another() -> None:
    left_out = {name for name in ATTACKS if why_no_attack(name)}
    labels = {"label-flip", "class-flip", "label-noise"}
    triggers = {"pixel-trigger", "feature-trigger", "distributed-trigger", "semantic-backdoor", "edge-case"}
    models = {"model-replacement", "constrain-and-scale", "train-and-scale", "projected-descent"}
    assert left_out == {*labels, *triggers, *models, "sleeper", "alternating", "optimal"}
    assert {why_no_attack(name) for name in triggers} == {"changes data, and a matrix has none"}
    assert {why_no_attack(name) for name in models} == {"trains on poisoned data, and a matrix has none"}


def test_every_label_means_something() -> None:
    for label in RULE_LABELS:
        assert rule_for(label, 2, 1.0).assumed_byzantine(40) == 2
    for label in ATTACK_LABELS:
        attack_for(label)
    for grid in GRIDS.values():
        grid.check()


def test_a_wrapper_that_no_combination_names_is_tried_around_a_rule() -> None:
    assert "clustered+median" in RULE_LABELS
