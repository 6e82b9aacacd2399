"""The multilayer perceptron."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, final

from torch import nn

from steadfed.data._base import Dataset
from steadfed.models._base import Classifier, Width
from steadfed.models._fitting import vector_length
from steadfed.models._registry import MODELS


@MODELS.register("mlp")
@final
class MultilayerPerceptron(Classifier):
    """Linear layers with ReLU between them, under a softmax; two hidden layers, or as many as asked for.

    The default has the hidden layers of workload B of the benchmarks; (200, 200) is the 2NN of McMahan et al. 2017.
    Weights start as torch draws them: uniform within ±1/√inputs.

    >>> import torch
    >>> x, y = torch.rand(8, 1, 28, 28), torch.arange(8)
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=10)
    >>> sum(each.numel() for each in MultilayerPerceptron().build(data, seed=0).parameters())
    109386
    """

    citation: ClassVar[str] = "Rumelhart, Hinton, Williams 1986; ReLU of Nair, Hinton 2010"

    hidden: tuple[Width, ...] = (128, 64)
    """Widths of the hidden layers, from the input on; none for softmax regression with a random start."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Return the stack of layers, with the points flattened first."""
        widths = (vector_length(dataset, "mlp"), *self.hidden, self.loss().num_outputs(dataset))
        return relu_stack(widths)


def relu_stack(widths: tuple[int, ...]) -> nn.Module:
    """Return linear layers of these widths with ReLU between them, points flattened first."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
