"""What users might write: factories of modules, good and bad, and a loss."""

from __future__ import annotations

from torch import Tensor, nn

from steadfed.data._base import Dataset
from steadfed.models import HalfSquares

LOSS = HalfSquares()
NUMBER = 3


def fitted(dataset: Dataset) -> nn.Module:
    return nn.Linear(dataset.features.shape[1], dataset.num_classes or 1)


def fixed() -> nn.Module:
    return nn.Linear(4, 3)


def normalised(width: int = 4) -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, 3))


def greedy(one: int, two: int) -> nn.Module:
    return nn.Linear(one, two)


def failing() -> nn.Module:
    raise RuntimeError("out of luck")


def no_module() -> object:
    return "a module"


class Pair(nn.Module):
    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return points, points
