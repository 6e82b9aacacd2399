"""Networks of published tables, for grids that name them: what they have and the built-in ones have not.

model = { name = "import", factory = "benchmarks.networks:bucketing" }
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

_CLASSES = 10
_LARGEST_BATCH = 32
_CHANNELS, _NARROW = (32, 64), (8, 16)


@final
class FrozenDropout(nn.Module):
    """Dropout that drops the same in every step: a mask for each place of a batch, drawn once.

    So does the code of Karimireddy, He, Jaggi 2022: its simulator sets the state of torch's generator back after each
    client (codes/simulator.py, parallel_get), so that all clients drop the same, in all steps.

    >>> layer = FrozenDropout(4, share=0.5)
    >>> bool((layer(torch.ones(3, 4)) == layer(torch.ones(3, 4))).all())
    True
    """

    mask: Tensor

    def __init__(self, width: int, share: float) -> None:
        super().__init__()
        kept = torch.rand(_LARGEST_BATCH, width) >= share
        self.register_buffer("mask", kept.float() / (1.0 - share))

    def forward(self, inputs: Tensor) -> Tensor:
        """Drop channels in training; else nothing."""
        if not self.training:
            return inputs
        mask = self.mask[: len(inputs)]
        return inputs * mask.reshape(*mask.shape, *(1,) * (inputs.dim() - 2))


def bucketing() -> nn.Module:
    """Return the network of Karimireddy, He, Jaggi 2022 for MNIST, trained as by their code (codes/tasks/mnist.py).

    Two convolutions without padding, one maximum, no ReLU behind the second, frozen dropout of channels and of hidden
    units; d = 1,199,882.
    """
    return _unpadded(_CHANNELS, FrozenDropout(_CHANNELS[1], 0.25), FrozenDropout(128, 0.5))


def bucketing_with_dropout() -> nn.Module:
    """Return the same with the dropout of the text: drawn anew by every client in every step."""
    return _unpadded(_CHANNELS, nn.Dropout2d(0.25), nn.Dropout(0.5))


def bucketing_without_dropout() -> nn.Module:
    """Return the same without dropout."""
    return _unpadded(_CHANNELS, nn.Identity(), nn.Identity())


def narrow_bucketing() -> nn.Module:
    """Return the network of the table with a quarter of the channels, d = 298,802, which trains five times as fast."""
    return _unpadded(_NARROW, FrozenDropout(_NARROW[1], 0.25), FrozenDropout(128, 0.5))


def narrow_bucketing_with_dropout() -> nn.Module:
    """Return the narrow one with masks drawn anew."""
    return _unpadded(_NARROW, nn.Dropout2d(0.25), nn.Dropout(0.5))


def narrow_bucketing_without_dropout() -> nn.Module:
    """Return the narrow one without dropout."""
    return _unpadded(_NARROW, nn.Identity(), nn.Identity())


def byzfl() -> nn.Module:
    """Return `cnn_mnist` of byzfl (fed_framework/models.py): two 5 × 5 convolutions without padding; d = 431,080."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, _CLASSES),
    )


def _unpadded(channels: tuple[int, int], drop_channels: nn.Module, drop_units: nn.Module) -> nn.Module:
    first, second = channels
    return nn.Sequential(
        nn.Conv2d(1, first, 3),
        nn.ReLU(),
        nn.Conv2d(first, second, 3),
        nn.MaxPool2d(2),
        drop_channels,
        nn.Flatten(),
        nn.Linear(second * 12 * 12, 128),
        nn.ReLU(),
        drop_units,
        nn.Linear(128, _CLASSES),
    )
