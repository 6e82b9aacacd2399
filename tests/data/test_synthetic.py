"""Drawn problems: sizes, owners, and what heterogeneity and noise do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steadfed.data import Diabetes, LinearPoints, LogisticPoints, QuadraticPoints
from steadfed.errors import ParameterError


def test_quadratic_points_lie_around_the_centres_of_their_owners() -> None:
    dataset = QuadraticPoints(num_points=12, dim=3, num_groups=4, heterogeneity=2.0, noise=0.0).load()
    assert dataset.features.shape == (12, 3)
    assert dataset.labels.shape == (12, 1)
    assert not dataset.labels.any()
    assert dataset.num_classes is None
    assert dataset.groups is not None
    assert dataset.groups.tolist() == sorted([0, 1, 2, 3] * 3)
    assert torch.allclose(dataset.features.norm(dim=1), torch.full((12,), 2.0))
    assert torch.equal(dataset.features[0], dataset.features[2])
    assert not torch.equal(dataset.features[2], dataset.features[3])


def test_without_heterogeneity_the_points_have_the_noise_alone() -> None:
    points = QuadraticPoints(num_points=20000, dim=2, heterogeneity=0, noise=3).load().features
    assert float(points.mean()) == pytest.approx(0.0, abs=0.1)
    assert float(points.std()) == pytest.approx(3.0, rel=0.02)


def test_every_owner_has_points_even_if_they_do_not_divide() -> None:
    groups = QuadraticPoints(num_points=11, num_groups=7).load().groups
    assert groups is not None
    assert set(np.bincount(groups).tolist()) == {1, 2}


@pytest.mark.parametrize("kind", [QuadraticPoints, LogisticPoints])
def test_the_seed_alone_decides(kind: type[QuadraticPoints | LogisticPoints]) -> None:
    assert kind(seed=3).load().checksum == kind(seed=3).load().checksum
    assert kind(seed=3).load().checksum != kind(seed=4).load().checksum


def test_labels_without_noise_are_separated_and_noise_turns_them_round() -> None:
    clean = LogisticPoints(num_points=4000, dim=3, label_noise=0.0).load()
    noisy = LogisticPoints(num_points=4000, dim=3, label_noise=0.25).load()
    assert torch.equal(clean.features, noisy.features)
    assert float((clean.labels != noisy.labels).float().mean()) == pytest.approx(0.25, abs=0.03)
    direction = torch.linalg.lstsq(clean.features, clean.labels.float()[:, None] - 0.5).solution
    assert float(((clean.features @ direction > 0)[:, 0] == (clean.labels == 1)).float().mean()) > 0.97


def test_test_points_may_be_none() -> None:
    assert len(LogisticPoints(num_test_points=0).load().test_features) == 0


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"num_groups": 11, "num_points": 10}, "num_groups must be at most num_points = 10, got 11"),
        ({"dim": 0}, "dim"),
        ({"noise": -1}, "noise"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_impossible_sizes_are_refused(parameters: dict[str, float], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        QuadraticPoints(**parameters)


def test_a_rare_class_is_as_rare_as_asked_for() -> None:
    data = LogisticPoints(num_points=2_000, num_test_points=1_000, positive_rate=0.03, label_noise=0.0).load()
    assert (int(data.labels.sum()), int(data.test_labels.sum())) == (60, 30)


def test_linear_labels_are_a_planted_direction_and_some_of_them_are_far_off() -> None:
    data = LinearPoints(num_points=500, noise=1.0, label_noise=0.01).load()
    fit, *_ = np.linalg.lstsq(data.features.numpy(), data.labels.numpy(), rcond=None)
    assert float(np.linalg.norm(fit)) == pytest.approx(1.0, abs=0.01)
    wild = LinearPoints(num_points=500, noise=1.0, label_noise=0.01, outlier_rate=0.1).load()
    far = (wild.labels - data.labels).abs() > 1.0
    assert 20 < int(far.sum()) < 80
    assert torch.equal(wild.test_labels, data.test_labels)


def test_owners_of_test_points_are_those_of_training_points() -> None:
    data = LinearPoints(num_points=40, num_test_points=20, num_groups=4).load()
    assert data.test_groups is not None
    assert np.bincount(data.test_groups).tolist() == [5, 5, 5, 5]


def test_diabetes_is_standardised_by_the_patients_to_train_on() -> None:
    data = Diabetes().load()
    assert (len(data.labels), len(data.test_labels), data.num_classes) == (354, 88, None)
    assert float(data.labels.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(data.labels.std(correction=0)) == pytest.approx(1.0, abs=1e-6)
    assert torch.allclose(data.features.mean(dim=0), torch.zeros(10), atol=1e-6)
