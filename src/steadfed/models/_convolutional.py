"""Convolutional networks for images: the small one of the field, and a residual one without batch statistics."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self, final

import torch
from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from steadfed._core.values import whole_number
from steadfed.data._base import Dataset
from steadfed.models._base import Classifier, Width
from steadfed.models._fitting import image_shape
from steadfed.models._registry import MODELS


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("input should be odd, so that an image keeps its size")
    return value


@MODELS.register("cnn")
@final
class ConvolutionalNetwork(Classifier):
    """Twice convolution, ReLU and 2 × 2 maximum, then one hidden layer (LeCun et al. 1998, with today's parts).

    Images keep their size in a convolution, so any size from 4 × 4 on will do: 28 × 28 has d = 421,642 parameters with
    ten classes, 8 × 8 has 53,002. With kernel_size = 5 and hidden = 512 it is the CNN of McMahan et al. 2017.

    >>> import torch
    >>> x, y = torch.rand(8, 1, 28, 28), torch.arange(8)
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=10)
    >>> sum(each.numel() for each in ConvolutionalNetwork().build(data, seed=0).parameters())
    421642
    """

    citation: ClassVar[str] = "LeCun, Bottou, Bengio, Haffner 1998; as in McMahan et al. 2017, section 3"

    channels: tuple[Width, Width] = (32, 64)
    """Channels after the first and after the second convolution."""
    kernel_size: Annotated[int, Field(ge=1), BeforeValidator(whole_number), AfterValidator(_odd)] = 3
    """Side of the convolutions' kernels."""
    hidden: Width = 128
    """Width of the fully connected hidden layer."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the stack of layers."""
        inputs, height, width = image_shape(dataset, "cnn", smallest=4)
        first, second = self.channels
        padding = self.kernel_size // 2
        return nn.Sequential(
            nn.Conv2d(inputs, first, self.kernel_size, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, self.kernel_size, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * (height // 4) * (width // 4), self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, self.loss().num_outputs(dataset)),
        )


@MODELS.register("resnet")
@final
class ResidualNetwork(Classifier):
    """The ResNet of He et al. 2016 for small images, with group normalisation (Wu, He 2018).

    Three stages of (depth − 2) / 6 blocks, each two 3 × 3 convolutions around which the input is added; a stage halves
    the image and doubles the channels, and its shortcut takes every second pixel and fills up with zero channels
    (option A). Group normalisation looks at one image at a time: batch statistics of clients with different labels
    differ, and there is none to be averaged or forged (Hsieh et al. 2020).

    >>> import torch
    >>> x, y = torch.rand(2, 3, 32, 32), torch.arange(2)
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=10)
    >>> sum(each.numel() for each in ResidualNetwork().build(data, seed=0).parameters())
    269722
    """

    citation: ClassVar[str] = (
        "He, Zhang, Ren, Sun 2016, section 4.2; Wu, He 2018; Hsieh, Phanishayee, Mutlu, Gibbons 2020"
    )

    depth: Annotated[int, Field(ge=8), BeforeValidator(whole_number)] = 20
    """How many layers have weights: 6 n + 2."""
    width: Width = 16
    """Channels of the first stage."""
    groups: Width = 8
    """Into how many groups the channels of a layer are put to be normalised; a divisor of the width."""

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if self.depth % 6 != 2:
            raise ValueError(f"depth must be 6 n + 2, such as 8, 14, 20 or 32, got {self.depth}")
        if self.width % self.groups:
            raise ValueError(f"groups must divide the width {self.width}, got {self.groups}")
        return self

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the stages, the mean over the pixels, and the linear outputs."""
        channels, _, _ = image_shape(dataset, "resnet", smallest=4)
        layers: list[nn.Module] = [
            _convolution(channels, self.width, 1),
            nn.GroupNorm(self.groups, self.width),
            nn.ReLU(),
        ]
        inputs = self.width
        for outputs in (self.width, 2 * self.width, 4 * self.width):
            for _ in range((self.depth - 2) // 6):
                layers.append(_Block(inputs, outputs, self.groups))
                inputs = outputs
        outputs = self.loss().num_outputs(dataset)
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, outputs))


class _Block(nn.Module):
    """Two convolutions and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, groups: int) -> None:
        super().__init__()
        self.stride = 1 if inputs == outputs else 2
        self.new_channels = outputs - inputs
        self.inside = nn.Sequential(
            _convolution(inputs, outputs, self.stride),
            nn.GroupNorm(groups, outputs),
            nn.ReLU(),
            _convolution(outputs, outputs, 1),
            nn.GroupNorm(groups, outputs),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Add what is inside to the input."""
        shortcut = images
        if self.new_channels:
            kept = images[:, :, :: self.stride, :: self.stride]
            shortcut = functional.pad(
                kept, (0, 0, 0, 0, self.new_channels // 2, self.new_channels - self.new_channels // 2)
            )
        return torch.relu(self.inside(images) + shortcut)


def _convolution(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    """Return a 3 × 3 convolution without bias, which a normalisation would take away."""
    layer = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer
