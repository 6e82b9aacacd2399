"""What a model is before it has weights: a value object that builds a `torch.nn.Module` for a data set."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field
from torch import nn

from steadfed._core.values import ValueObject, real_number, whole_number
from steadfed.data._base import Dataset
from steadfed.errors import ParameterError
from steadfed.models._drawing import drawing_from
from steadfed.models._losses import CrossEntropy, Loss

_TOO_LARGE = re.compile(r"can't allocate memory: you tried to allocate (\d+) bytes")
"""What torch says if there is no memory, in an error without a class of its own."""
Width = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]


class Architecture(ValueObject, ABC):
    """A kind of model. The objective of a client is its mean loss plus (l2 / 2) ‖x‖² over all parameters x."""

    citation: ClassVar[str]
    """Where the model is defined."""

    l2: Annotated[float, Field(ge=0.0), BeforeValidator(real_number)] = 0.0
    """λ of the term (λ / 2) ‖x‖² of the objective."""

    @abstractmethod
    def module(self, dataset: Dataset) -> nn.Module:
        """Return a module that takes a batch of the data set's points; its weights are drawn from torch's generator.

        Raises:
            DataError: the model does not fit the data.
        """

    @abstractmethod
    def loss(self) -> Loss:
        """Return what the model is trained to make small."""

    def build(self, dataset: Dataset, seed: int) -> nn.Module:
        """Return the module with weights drawn from the stream "model" of the seed; torch's own state is left as is.

        Its parameters have the dtype of the points, if these are floats.

        Raises:
            DataError: the model does not fit the data.
            ParameterError: the model does not fit into memory.
        """
        try:
            with drawing_from(seed, "model"):
                module = self.module(dataset)
        except RuntimeError as error:
            if (found := _TOO_LARGE.search(str(error))) is None:
                raise
            size = int(found[1]) / 2**30
            raise ParameterError(
                f"{self!r} does not fit into memory: one of its tensors takes {size:,.1f} GiB"
            ) from None
        return module.to(dataset.features.dtype) if dataset.features.is_floating_point() else module


class Classifier(Architecture, ABC):
    """A model with one output per class, or per symbol at every place of a text."""

    def loss(self) -> Loss:
        """Return the cross-entropy, the mean over all points or places."""
        return CrossEntropy()
