"""A user's module with data sets, imported by its path in the tests."""

from __future__ import annotations

import torch
from torch.utils.data import TensorDataset

POINTS = TensorDataset(torch.eye(4), torch.tensor([0, 1, 2, 1]))


def alone() -> TensorDataset:
    return POINTS


def pair() -> tuple[TensorDataset, TensorDataset]:
    return POINTS, TensorDataset(torch.ones(2, 4), torch.tensor([2, 0]))


def nothing() -> None:
    return None
