"""Backdoors without a mark: which points have the property, who trains on them, and what the adversary wants."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.attacks.test_triggers import images, share_of, table
from tests.oracles import attacks as oracle

from steadfed._core.rng import stream
from steadfed.attacks import DataAttack, EdgeCase, SemanticBackdoor
from steadfed.attacks._natural import NaturalBackdoor
from steadfed.data import Dataset
from steadfed.errors import ParameterError

BOTH: list[NaturalBackdoor] = [
    SemanticBackdoor(source_label=2, target_label=0, share=0.25),
    SemanticBackdoor(source_label=2, target_label=0, share=0.25, features=(1, 3), side="lowest"),
    EdgeCase(source_label=2, target_label=0, share=0.25),
]


def scores_of(attack: NaturalBackdoor, dataset: Dataset, points: torch.Tensor) -> list[float]:
    """Return how much of the property points have, by loops."""
    flat = points.flatten(1).double().numpy()
    if isinstance(attack, EdgeCase):
        return oracle.rarity(flat, dataset.features[dataset.labels == 2].flatten(1).double().numpy())
    assert isinstance(attack, SemanticBackdoor)
    features = range(flat.shape[1]) if attack.features is None else attack.features
    sign = 1.0 if attack.side == "highest" else -1.0
    return [sign * sum(float(row[k]) for k in features) / len(features) for row in flat]


@pytest.mark.parametrize("attack", BOTH, ids=str)
@pytest.mark.parametrize("dataset", [table(), images()], ids=["table", "images"])
def test_points_with_the_property_are_those_with_the_highest_scores(attack: NaturalBackdoor, dataset: Dataset) -> None:
    own = (dataset.labels == 2).nonzero().flatten()
    scores = scores_of(attack, dataset, dataset.features[own])
    number = math.ceil(len(own) / 4)
    pool = {int(own[k]) for k in np.argsort(scores)[::-1][:number]}
    share = share_of(attack, dataset, points=30)
    assert share.places is not None
    places = share.places.tolist()
    replaced = [k for k in range(30) if places[k] != k]
    assert {places[k] for k in replaced} <= pool
    assert 0 < len(replaced) <= 9, "a point of the pool may stand in its own place"
    assert int((share.labels == 0).sum()) >= 9
    others = [k for k in range(30) if k not in replaced and places[k] not in pool]
    assert torch.equal(share.labels[others], dataset.labels[others])


@pytest.mark.parametrize("attack", BOTH, ids=str)
def test_the_goal_is_the_test_points_of_the_source_with_the_property(attack: NaturalBackdoor) -> None:
    dataset = table(400)
    goal = attack.poisoning(dataset).goal(dataset.features, dataset.labels)
    assert goal is not None
    own = dataset.labels == 2
    number = math.ceil(int(own.sum()) / 4)
    least = sorted(scores_of(attack, dataset, dataset.features[own]))[-number]
    scores = scores_of(attack, dataset, dataset.features)
    wanted = [k for k in range(400) if bool(own[k]) and scores[k] >= least - 1e-9]
    assert goal.points.tolist() == wanted
    assert (goal.target_label, goal.trigger) == (0, None)


def test_a_pool_that_is_large_enough_gives_every_point_once() -> None:
    share = share_of(SemanticBackdoor(source_label=2, target_label=0, share=1.0), table(400), points=100)
    assert share.places is not None
    from_pool = [int(place) for k, place in enumerate(share.places) if int(place) != k]
    assert len(from_pool) == len(set(from_pool))


@pytest.mark.parametrize(
    ("attack", "dataset", "message"),
    [
        (SemanticBackdoor(features=(5,)), table(), r"features must lie in 0 \.\. 4 for the points of table, got 5"),
        (SemanticBackdoor(source_label=3), table(), r"source_label must lie in 0 \.\. 2 for 3 classes, got 3"),
        (EdgeCase(target_label=7), table(), r"target_label must lie in 0 \.\. 2 for 3 classes, got 7"),
        (EdgeCase(), replace(table(), labels=torch.ones(50).long()), "no training point of table has the label 0"),
        (EdgeCase(), replace(table(), features=torch.ones(50, 5).double()), "are equal, none is rare"),
    ],
)
def test_what_makes_no_sense_on_such_data_is_refused(attack: DataAttack, dataset: Dataset, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        attack.poisoning(dataset)


def test_source_and_target_are_two_classes() -> None:
    wrong: Any = {"source_label": 1, "target_label": 1}
    for kind in (SemanticBackdoor, EdgeCase):
        with pytest.raises(ParameterError, match="must be two classes, got 1 for both"):
            kind(**wrong)


def test_a_share_however_small_has_one_point() -> None:
    attack = SemanticBackdoor(share=1e-9, poison_fraction=1e-9)
    poisoning = attack.poisoning(table())
    share = poisoning.share(np.arange(10), 0, stream(0, "poison"))
    assert share.places is not None
    assert int((share.places != torch.arange(10)).sum()) <= 1
    goal = poisoning.goal(table().features, table().labels)
    assert goal is not None
    assert len(goal.points) >= 1
