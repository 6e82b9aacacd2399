"""Models that say numbers: one linear map, and the perceptron without a softmax."""

from __future__ import annotations

from abc import ABC
from typing import Annotated, ClassVar, Literal, final

from pydantic import BeforeValidator, Field
from torch import nn

from steadfed._core.values import real_number
from steadfed.data._base import Dataset
from steadfed.models._base import Architecture, Width
from steadfed.models._fitting import vector_length
from steadfed.models._linear import zero_linear
from steadfed.models._losses import HalfSquares, Huber, Loss
from steadfed.models._perceptron import relu_stack
from steadfed.models._registry import MODELS


class Regressor(Architecture, ABC):
    """A model with one output per number of a label."""

    criterion: Literal["squares", "huber"] = "squares"
    """½ (output − label)², or the Huber loss, which grows linearly from `delta` on: outliers pull less."""
    delta: Annotated[float, Field(gt=0.0), BeforeValidator(real_number)] = 1.0
    """Where the Huber loss becomes linear, in the unit of the labels."""

    def loss(self) -> Loss:
        """Return the loss."""
        return Huber(delta=self.delta) if self.criterion == "huber" else HalfSquares()


@MODELS.register("linear-regression")
@final
class LinearRegression(Regressor):
    """ŷ = W x + b, by least squares or the Huber loss (Huber 1964). Weights start at 0.

    >>> import torch
    >>> x, y = torch.rand(8, 3), torch.rand(8)
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y)
    >>> LinearRegression(criterion="huber").build(data, seed=0)(x).shape
    torch.Size([8, 1])
    """

    citation: ClassVar[str] = "Legendre 1805; Huber 1964"

    bias: bool = True
    """Whether there is an intercept b."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the linear map."""
        inputs = vector_length(dataset, "linear-regression")
        return zero_linear(inputs, self.loss().num_outputs(dataset), bias=self.bias)


@MODELS.register("mlp-regression")
@final
class PerceptronRegression(Regressor):
    """Linear layers with ReLU between them, and numbers at the end; weights start as torch draws them.

    >>> import torch
    >>> x, y = torch.rand(8, 3), torch.rand(8, 2)
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y)
    >>> PerceptronRegression(hidden=(4,)).build(data, seed=0)(x).shape
    torch.Size([8, 2])
    """

    citation: ClassVar[str] = "Rumelhart, Hinton, Williams 1986; Huber 1964"

    hidden: tuple[Width, ...] = (64,)
    """Widths of the hidden layers, from the input on."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the stack of layers, with the points flattened first."""
        widths = (vector_length(dataset, "mlp-regression"), *self.hidden, self.loss().num_outputs(dataset))
        return relu_stack(widths)
