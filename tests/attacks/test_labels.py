"""Attacks through the labels."""

from __future__ import annotations

import pytest
import torch

from steadfed._core.rng import stream
from steadfed.attacks._labels import ClassFlip, LabelAttack, LabelFlip, LabelNoise
from steadfed.attacks._view import AdversaryView
from steadfed.errors import ParameterError

ALL: list[LabelAttack] = [LabelFlip(), ClassFlip(source=7, target=1), LabelNoise(probability=0.3)]


def corrupt(attack: LabelAttack, labels: torch.Tensor, num_classes: int = 10, seed: int = 0) -> torch.Tensor:
    return attack.corrupt(labels, num_classes, stream(seed, "labels"))


@pytest.mark.parametrize("attack", ALL, ids=str)
@pytest.mark.parametrize("shape", [(50,), (4, 5), (0,), ()])
def test_labels_stay_labels_and_the_input_stays_as_it_is(attack: LabelAttack, shape: tuple[int, ...]) -> None:
    labels = torch.from_numpy(stream(1, "classes").integers(0, 10, (1, *shape)))[0]
    before = labels.clone()
    wrong = corrupt(attack, labels)
    assert wrong.shape == labels.shape
    assert wrong.dtype == torch.int64
    assert bool(((wrong >= 0) & (wrong < 10)).all())
    assert torch.equal(wrong, corrupt(attack, labels))
    wrong.fill_(0)
    assert torch.equal(labels, before)


@pytest.mark.parametrize("attack", ALL, ids=str)
def test_clients_send_what_they_computed_on_their_labels(attack: LabelAttack) -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.equal(attack(AdversaryView(num_byzantine=2, cohort_size=5, own_rows=rows)).rows, rows)


def test_label_flip_counts_from_the_other_end() -> None:
    assert corrupt(LabelFlip(), torch.arange(10)).tolist() == list(range(9, -1, -1))
    assert corrupt(LabelFlip(), torch.tensor([0, 1, 2]), 3).tolist() == [2, 1, 0]


def test_class_flip_changes_the_source_only() -> None:
    assert corrupt(ClassFlip(source=7, target=1), torch.arange(10)).tolist() == [0, 1, 2, 3, 4, 5, 6, 1, 8, 9]


def test_label_noise_replaces_the_share_it_is_given_by_other_classes_evenly() -> None:
    labels = torch.full((50_000,), 3)
    wrong = corrupt(LabelNoise(probability=0.4), labels)
    shares = torch.bincount(wrong, minlength=10) / len(labels)
    expected = torch.full((10,), 0.4 / 9)
    expected[3] = 0.6
    assert torch.allclose(shares, expected, atol=0.01)
    assert not torch.equal(wrong, corrupt(LabelNoise(probability=0.4), labels, seed=1))


def test_label_noise_at_its_ends() -> None:
    labels = torch.arange(10).repeat(20)
    assert torch.equal(corrupt(LabelNoise(probability=0.0), labels), labels)
    assert not bool((corrupt(LabelNoise(probability=1.0), labels) == labels).any())
    assert corrupt(LabelNoise(probability=1.0), torch.zeros(5, dtype=torch.int64), 1).tolist() == [0] * 5


@pytest.mark.parametrize(
    ("attack", "labels", "num_classes", "message"),
    [
        (LabelFlip(), torch.tensor([0, 10]), 10, "labels must lie in 0 .. 9 for 10 classes, got 10"),
        (LabelFlip(), torch.tensor([-1]), 10, "got -1"),
        (LabelFlip(), torch.tensor([0.0]), 10, "labels must be int64, got torch.float32"),
        (LabelNoise(), torch.tensor([0], dtype=torch.int32), 10, "labels must be int64"),
        (LabelNoise(), torch.tensor([0]), 0, "num_classes must be at least 1, got 0"),
        (ClassFlip(source=7, target=1), torch.tensor([0]), 5, "source must lie in 0 .. 4 for 5 classes, got 7"),
        (ClassFlip(source=1, target=5), torch.tensor([0]), 5, "target must lie in 0 .. 4 for 5 classes, got 5"),
    ],
)
def test_classes_that_do_not_exist_are_refused(
    attack: LabelAttack, labels: torch.Tensor, num_classes: int, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        corrupt(attack, labels, num_classes)


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="source and target must be two classes, got 2 for both"):
        ClassFlip(source=2, target=2)
    with pytest.raises(ParameterError, match=r"probability: .*got 1\.5"):
        LabelNoise(probability=1.5)
