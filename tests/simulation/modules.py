"""What users might plug in: a module with running means, one that draws, one that counts, ones that fail."""

from __future__ import annotations

import os
import signal

import torch
from torch import Tensor, nn


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def normalised_digits() -> nn.Module:
    """Return a stack with running means for images of 64 pixels."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def hooked() -> nn.Module:
    """Return a stack whose layer does more than its type says."""
    layer = nn.Linear(5, 3)
    layer.register_forward_hook(lambda _, __, outputs: 2.0 * outputs)
    return nn.Sequential(layer)


def sharing() -> nn.Module:
    """Return a stack of which two layers have one bias."""
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    second.bias = first.bias
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(5, 3))


class Tempered(nn.Module):
    """Has a parameter that is a number, and one that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.temperature = nn.Parameter(torch.tensor(2.0))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, points: Tensor) -> Tensor:
        outputs: Tensor = self.layer(points) / self.temperature
        return outputs


class Failing(nn.Module):
    """Fails on the points that a client trains on, if the process is not the one that built it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.home = os.getpid()

    def forward(self, points: Tensor) -> Tensor:
        if self.training and (os.getpid() != self.home or torch.is_grad_enabled()):
            self.fail()
        outputs: Tensor = self.layer(points)
        return outputs

    def fail(self) -> None:
        raise RuntimeError("the dog ate the gradient")


class Dying(Failing):
    """Kills the process that trains it, unless that is the one that built it."""

    def fail(self) -> None:
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)


def straight() -> nn.Module:
    return nn.Linear(3, 1)


def mistakes(predicted: Tensor, targets: Tensor) -> float:
    return float((predicted != targets).sum())
