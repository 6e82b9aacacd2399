"""Linear models: convex problems with one minimiser if l2 > 0."""

from __future__ import annotations

from typing import ClassVar, final

from torch import nn

from steadfed.data._base import Dataset
from steadfed.models._base import Architecture, Classifier
from steadfed.models._fitting import vector_length
from steadfed.models._losses import Logistic, Loss
from steadfed.models._registry import MODELS


@MODELS.register("logistic-regression")
@final
class LogisticRegression(Architecture):
    r"""Two classes, one output z = w · x + b (Cox 1958): mean log(1 + exp(−y z)) + (l2 / 2)(‖w‖² + b²), y = ±1.

    Weights start at 0. The bias counts in the l2 term as every parameter does; without bias the objective is that of
    LIBLINEAR's L2-regularised logistic regression.

    >>> import torch
    >>> x, y = torch.rand(8, 3), torch.arange(8) % 2
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=2)
    >>> sum(each.numel() for each in LogisticRegression().build(data, seed=0).parameters())
    4
    """

    citation: ClassVar[str] = "Cox 1958"

    bias: bool = True
    """Whether there is an intercept b."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the linear map."""
        return zero_linear(
            vector_length(dataset, "logistic-regression"), self.loss().num_outputs(dataset), bias=self.bias
        )

    def loss(self) -> Loss:
        """Return the logistic loss."""
        return Logistic()


@MODELS.register("softmax-regression")
@final
class SoftmaxRegression(Classifier):
    """One linear output per class under a softmax (multinomial logistic regression). Weights start at 0.

    >>> import torch
    >>> x, y = torch.rand(8, 1, 2, 2), torch.arange(8) % 3
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=3)
    >>> SoftmaxRegression(bias=False).build(data, seed=0)(x).shape
    torch.Size([8, 3])
    """

    citation: ClassVar[str] = "Cox 1966"

    bias: bool = True
    """Whether every class has an intercept."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the linear map."""
        return zero_linear(
            vector_length(dataset, "softmax-regression"), self.loss().num_outputs(dataset), bias=self.bias
        )


def zero_linear(inputs: int, outputs: int, *, bias: bool) -> nn.Module:
    """Return a linear map of flat points whose weights are 0."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return nn.Sequential(nn.Flatten(), layer)
