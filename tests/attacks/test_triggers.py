"""Backdoors with a trigger: where it stands, who stamps what on which points, and what the adversary wants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import attacks as oracle

from steadfed._core.rng import stream
from steadfed.attacks import (
    ATTACKS,
    DataAttack,
    DistributedTrigger,
    FeatureTrigger,
    LabelFlip,
    PixelTrigger,
    PoisonedShare,
)
from steadfed.attacks._triggers import TriggerAttack
from steadfed.data import Dataset
from steadfed.errors import ParameterError

HEIGHT, WIDTH = 6, 9


def images(channels: int = 2, number: int = 60) -> Dataset:
    """Return random images of four classes; the channels differ in how bright they get."""
    generator = stream(1, "images", channels)
    drawn = generator.random((number, channels, HEIGHT, WIDTH)) * np.arange(1, channels + 1)[:, None, None]
    x, y = torch.from_numpy(drawn).float(), torch.from_numpy(generator.integers(0, 4, number))
    return Dataset(name="images", features=x, labels=y, test_features=x[:20], test_labels=y[:20], num_classes=4)


def table(number: int = 50) -> Dataset:
    """Return random rows of five numbers in three classes."""
    generator = stream(1, "table")
    x = torch.from_numpy(generator.standard_normal((number, 5)))
    y = torch.from_numpy(generator.integers(0, 3, number))
    return Dataset(name="table", features=x, labels=y, test_features=x[:20], test_labels=y[:20], num_classes=3)


def share_of(
    attack: DataAttack, dataset: Dataset, *, points: int = 30, member: int = 0, seed: int = 0
) -> PoisonedShare:
    """Return what a client with the first points trains on."""
    return attack.poisoning(dataset).share(np.arange(points), member, stream(seed, "poison"))


def pixels_of(share: PoisonedShare, channel: int = 0) -> set[tuple[int, int]]:
    """Return which pixels of a channel the trigger sets."""
    assert share.trigger is not None
    flat = torch.zeros(2 * HEIGHT * WIDTH, dtype=torch.bool)
    flat[share.trigger.coordinates] = True
    return {(int(row), int(column)) for row, column in flat.view(2, HEIGHT, WIDTH)[channel].nonzero()}


@pytest.mark.parametrize(
    ("position", "top", "left"),
    [
        ("top-left", 0, 0),
        ("top-right", 0, WIDTH - 3),
        ("bottom-left", HEIGHT - 3, 0),
        ("bottom-right", HEIGHT - 3, WIDTH - 3),
        ((2, 4), 2, 4),
    ],
)
def test_a_square_stands_where_it_is_put_in_every_channel(position: Any, top: int, left: int) -> None:
    share = share_of(PixelTrigger(trigger_size=3, trigger_position=position), images())
    expected = oracle.square_of_pixels(3, top, left)
    assert [pixels_of(share, channel) for channel in (0, 1)] == [expected, expected]


@pytest.mark.parametrize(("size", "gap", "shift"), [(3, 2, 0), (4, 0, 1), (1, 3, 1)])
def test_every_member_stamps_its_own_bar_and_the_goal_bears_all_four(size: int, gap: int, shift: int) -> None:
    attack = DistributedTrigger(trigger_size=size, trigger_gap=gap, trigger_shift=shift)
    bars = oracle.bars_of_pixels(size, gap, shift)
    for member in range(6):
        assert pixels_of(share_of(attack, images(), member=member)) == bars[member % 4]
    whole = share_of(attack.model_copy(update={"distributed": False}), images(), member=3)
    assert pixels_of(whole) == set().union(*bars)
    goal = attack.poisoning(images()).goal(images().test_features, images().test_labels)
    assert goal is not None
    assert goal.trigger is not None
    assert whole.trigger is not None
    assert sorted(goal.trigger.coordinates.tolist()) == sorted(whole.trigger.coordinates.tolist())


@pytest.mark.parametrize("value", [None, 0.25])
def test_a_stamped_image_is_that_of_the_oracle_and_the_others_stay(value: float | None) -> None:
    dataset = images()
    share = share_of(PixelTrigger(trigger_size=2, trigger_value=value), dataset)
    batch = dataset.features[:30].clone()
    assert share.trigger is not None
    assert share.marked is not None
    share.trigger.stamp_(batch, share.marked)
    brightest = [float(dataset.features[:, channel].max()) if value is None else value for channel in (0, 1)]
    pixels = oracle.square_of_pixels(2, HEIGHT - 2, WIDTH - 2)
    for new, old, marked in zip(batch.numpy(), dataset.features[:30].numpy(), share.marked.tolist(), strict=True):
        np.testing.assert_array_equal(new, oracle.stamped(old, pixels, brightest) if marked else old)


@pytest.mark.parametrize("attack", [PixelTrigger(), PixelTrigger(source_label=2), FeatureTrigger(target_label=1)])
def test_a_share_of_the_points_that_may_be_stamped_is_called_by_the_targets_name(attack: Any) -> None:
    dataset = images() if isinstance(attack, PixelTrigger) else table()
    share, labels = share_of(attack, dataset), dataset.labels[:30]
    marked = share.marked
    assert marked is not None
    victims = labels != attack.target_label if attack.source_label is None else labels == attack.source_label
    assert int(marked.sum()) == min(9, int(victims.sum()))
    assert not bool((marked & ~victims).any())
    assert torch.equal(share.labels, torch.where(marked, attack.target_label, labels))
    assert share.places is None
    again, other = share_of(attack, dataset), share_of(attack, dataset, seed=1)
    assert torch.equal(again.labels, share.labels)
    assert attack.source_label is not None or not torch.equal(other.labels, share.labels)
    assert torch.equal(dataset.labels[:30], labels), "the data set stays as it is"


def test_the_goal_leaves_out_the_target_and_names_the_source_if_there_is_one() -> None:
    dataset = images()
    for source, wanted in ((None, {1, 2, 3}), (2, {2})):
        poisoning = PixelTrigger(source_label=source).poisoning(dataset)
        goal = poisoning.goal(dataset.test_features, dataset.test_labels)
        assert goal is not None
        assert goal.target_label == 0
        assert set(dataset.test_labels[goal.points].tolist()) == wanted
        assert len(goal.points) == sum(int(label) in wanted for label in dataset.test_labels)


def test_features_are_dealt_out_like_cards_and_set_to_their_largest_values() -> None:
    dataset = table()
    attack = FeatureTrigger(features=(4, 0, 2), num_parts=2)
    parts = [share_of(attack, dataset, member=member).trigger for member in (0, 1)]
    coordinates = [each.coordinates.tolist() for each in parts if each is not None]
    assert coordinates == [[4, 2], [0]]
    largest = dataset.features.amax(0)
    for part in parts:
        assert part is not None
        assert torch.equal(part.values, largest[part.coordinates])


@pytest.mark.parametrize(
    ("attack", "dataset", "message"),
    [
        (PixelTrigger(), table(), r"needs images, .* has shape \(5,\): use feature-trigger"),
        (DistributedTrigger(), table(), "needs images"),
        (PixelTrigger(trigger_size=7), images(), "must lie within the 6 × 9 pixels of images, got trigger_size = 7"),
        (PixelTrigger(trigger_position=(4, 0)), images(), r"at trigger_position = \(4, 0\)"),
        (DistributedTrigger(), images(), "its last pixel would stand in row 3 and column 9"),
        (FeatureTrigger(features=(5,)), table(), r"features must lie in 0 \.\. 4 for the points of table, got 5"),
        (FeatureTrigger(target_label=3), table(), r"target_label must lie in 0 \.\. 2 for 3 classes, got 3"),
        (FeatureTrigger(source_label=9), table(), r"source_label must lie in 0 \.\. 2 for 3 classes, got 9"),
        (FeatureTrigger(), replace(table(), num_classes=None), "the labels of table are no classes"),
        (
            FeatureTrigger(),
            replace(table(), features=table().features.long(), test_features=table().test_features.long()),
            r"the points of table are tokens \(int64\)",
        ),
        (
            FeatureTrigger(),
            replace(table(), labels=torch.zeros(50, 2).long(), test_labels=torch.zeros(20, 2).long()),
            r"needs one label per point, a label of table has shape \(2,\)",
        ),
    ],
)
def test_what_makes_no_sense_on_such_data_is_refused(attack: DataAttack, dataset: Dataset, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        attack.poisoning(dataset)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PixelTrigger(source_label=3, target_label=3), "must be two classes, got 3 for both"),
        (lambda: PixelTrigger(poison_fraction=0.0), r"poison_fraction: .*greater than 0.*got 0\.0"),
        (lambda: PixelTrigger(trigger_position="middle"), "trigger_position: .*got 'middle'"),
        (
            lambda: ATTACKS.build("pixel-trigger", poison_ratio=0.3),
            "no parameter 'poison_ratio', did you mean 'poison_fraction'",
        ),
        (lambda: FeatureTrigger(features=(1, 1)), r"may be named once, got \[1, 1\]"),
        (lambda: FeatureTrigger(features=(1, 2), values=(0.5,)), "there must be 2 values, one per feature, got 1"),
        (lambda: FeatureTrigger(features=(1, 2), num_parts=3), "num_parts must be at most the 2 features, got 3"),
    ],
)
def test_wrong_parameters_are_refused(build: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        build()


def test_an_attack_that_only_does_harm_has_no_goal() -> None:
    assert LabelFlip().poisoning(table()).goal(table().test_features, table().test_labels) is None


@pytest.mark.parametrize(
    "attack", [PixelTrigger(), DistributedTrigger(trigger_size=2), FeatureTrigger(features=(0, 7))]
)
def test_a_trigger_stands_at_its_place_however_points_lie_in_memory(attack: TriggerAttack) -> None:
    dataset = images()
    trigger = attack.triggers(dataset)[0]
    plain, turned = dataset.features.clone(), dataset.features.contiguous(memory_format=torch.channels_last)
    marked = torch.arange(len(plain)) % 2 == 0
    for points in (plain, turned):
        trigger.stamp_(points, marked)
    assert not turned.is_contiguous()
    assert torch.equal(plain, turned)
    assert not torch.equal(plain, dataset.features)


def test_a_trigger_may_stand_on_no_point() -> None:
    trigger = PixelTrigger().triggers(images())[0]
    points = torch.zeros(0, 2, HEIGHT, WIDTH)
    trigger.stamp_(points, torch.zeros(0, dtype=torch.bool))
    assert points.shape == (0, 2, HEIGHT, WIDTH)
