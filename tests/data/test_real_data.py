"""The real sets have the documented shapes; only where `$STEADFED_DATA` says they are."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

from steadfed.data import DATASETS, Dataset
from steadfed.errors import MissingDataError


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADFED_OFFLINE", "1")


def loaded(name: str, **parameters: Any) -> Dataset:
    if not os.environ.get("STEADFED_DATA"):
        pytest.skip("STEADFED_DATA is not set, so the real data are not tried")
    try:
        return DATASETS.build(name, **parameters).load()
    except MissingDataError:
        pytest.skip(f"STEADFED_DATA={os.environ['STEADFED_DATA']} has no {name}")


def owners(dataset: Dataset) -> list[int]:
    assert dataset.groups is not None
    sizes: list[int] = np.bincount(dataset.groups, minlength=len(dataset.group_names)).tolist()
    return sizes


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_both_sets_of_mnist_have_their_shapes(name: str) -> None:
    dataset = loaded(name)
    assert dataset.features.shape == (60000, 1, 28, 28)
    assert dataset.test_features.shape == (10000, 1, 28, 28)
    assert (float(dataset.features.min()), float(dataset.features.max())) == (0.0, 1.0)
    assert set(dataset.labels.tolist()) == set(range(10))


def test_mnist_has_539_writers_of_19_to_131_digits() -> None:
    sizes = owners(loaded("mnist-by-writer"))
    assert (len(sizes), min(sizes), max(sizes), int(np.median(sizes))) == (539, 19, 131, 116)


def test_a9a_has_its_shape() -> None:
    dataset = loaded("a9a")
    assert dataset.features.shape == (32561, 123)
    assert dataset.test_features.shape == (16281, 123)
    assert bool(((dataset.features == 0) | (dataset.features == 1)).all())
    assert dataset.num_classes == 2


def test_the_hospitals_have_their_patients_and_the_known_optimum() -> None:
    dataset = loaded("heart-disease", intercept=True, test_fraction=0)
    assert owners(dataset) == [303, 261, 46, 130]
    assert dataset.features.shape == (740, 14)
    signed = dataset.features.double() * (2 * dataset.labels - 1)[:, None]
    w = torch.zeros(14, dtype=torch.float64)
    for _ in range(20):
        p = torch.sigmoid(-signed @ w)
        gradient = -(signed * p[:, None]).mean(0) + 1e-2 * w
        hessian = (signed * (p * (1 - p))[:, None]).T @ signed / 740 + 1e-2 * torch.eye(14, dtype=torch.float64)
        w -= torch.linalg.solve(hessian, gradient)
    optimum = torch.nn.functional.softplus(-signed @ w).mean() + 0.5e-2 * w @ w
    assert float(optimum) == pytest.approx(0.504730864398, abs=1e-7)


def test_shakespeare_has_65_symbols_and_141_long_speakers() -> None:
    dataset = loaded("tiny-shakespeare")
    assert dataset.num_classes == 65
    assert len(dataset.group_names) == len(owners(dataset)) == 141
    assert min(owners(dataset)) >= 1
    assert torch.equal(dataset.features[:, 1:], dataset.labels[:, :-1])
    everyone = loaded("tiny-shakespeare", min_characters=0, sequence_length=1)
    assert 290 < len(everyone.group_names) <= 303


def test_cifar_has_its_shape() -> None:
    dataset = loaded("cifar-10")
    assert dataset.features.shape == (50000, 3, 32, 32)
    assert dataset.labels.bincount().tolist() == [5000] * 10
    assert dataset.features.mean(dim=(0, 2, 3)).abs().max() < 1e-2
