"""The user's own module, by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, final

import torch
from pydantic import Field
from torch import Tensor, nn

from steadfed._core.importing import import_object
from steadfed._core.lookup import find
from steadfed.data._base import Dataset
from steadfed.errors import DataError, ParameterError
from steadfed.models._base import Architecture
from steadfed.models._losses import LOSSES, Loss
from steadfed.models._registry import MODELS


@MODELS.register("import")
@final
class ImportedModel(Architecture):
    """Any `torch.nn.Module`, made by a factory at an import path.

    A factory that must be given an argument is given the data set; others are called with none. Two points go through
    the module when it is built, and it is refused if their outputs do not have the shape that the loss takes.

    >>> x, y = torch.rand(4, 3), torch.arange(4) % 2
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=2)
    >>> ImportedModel(factory="torch.nn:Identity").build(data, seed=0)
    Traceback (most recent call last):
        ...
    steadfed.errors.DataError: torch.nn:Identity: two points give outputs of shape (2, 3), the loss takes (2, 2)
    """

    citation: ClassVar[str] = "the user's own"

    factory: Annotated[str, Field(examples=["our.models:network"])]
    """Where the factory is, "package.module:function"; a class of modules is a factory too."""
    criterion: str = "cross-entropy"
    """The loss: cross-entropy, logistic, half-squares, huber, or the import path of a `Loss`."""

    def module(self, dataset: Dataset) -> nn.Module:
        """Call the factory and try what it made on two points.

        Raises:
            ParameterError: there is no such factory, it fails, or what it returns is no module.
            DataError: the module does not fit the data and the loss.
        """
        factory = import_object(self.factory, "the model")
        arguments = (dataset,) if self._wants_data(factory) else ()
        try:
            module = factory(*arguments)
        except Exception as error:
            raise ParameterError(f"{self.factory} failed with {type(error).__name__}: {error}") from error
        if not isinstance(module, nn.Module):
            raise ParameterError(f"{self.factory} must return a torch.nn.Module, got {type(module).__name__}")
        if dataset.features.is_floating_point():
            module = module.to(dataset.features.dtype)
        self._check_outputs(module, dataset)
        return module

    def loss(self) -> Loss:
        """Return the loss called, or imported.

        Raises:
            ParameterError: what is at the import path is no `Loss`.
        """
        if ":" not in self.criterion:
            return find("loss", self.criterion, LOSSES)()
        loss = import_object(self.criterion, "the loss")
        if isinstance(loss, type) and issubclass(loss, Loss):
            loss = loss()
        if not isinstance(loss, Loss):
            raise ParameterError(f"{self.criterion} must be a steadfed.models.Loss, got {type(loss).__name__}")
        return loss

    def _wants_data(self, factory: Callable[..., Any]) -> bool:
        """Return whether the factory must be given an argument."""
        if not callable(factory):
            raise ParameterError(f"{self.factory} must be a function or a class, got {type(factory).__name__}")
        try:
            parameters = inspect.signature(factory).parameters.values()
        except ValueError:  # some functions written in C do not say what they take
            return False
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        required = [each.name for each in parameters if each.default is each.empty and each.kind not in kinds]
        if len(required) > 1:
            raise ParameterError(f"{self.factory} must take nothing or the data set, it takes {', '.join(required)}")
        return bool(required)

    def _check_outputs(self, module: nn.Module, dataset: Dataset) -> None:
        loss = self.loss()
        expected = (2, *loss.output_shape(dataset))
        outputs = self._outputs(module, torch.cat([dataset.features[:1], dataset.features[-1:]]))
        if tuple(outputs.shape) != expected:
            got = f"two points give outputs of shape {tuple(outputs.shape)}, the loss takes {expected}"
            raise DataError(f"{self.factory}: {got}")

    def _outputs(self, module: nn.Module, points: Tensor) -> Tensor:
        """Return the outputs without leaving a trace in the module's buffers."""
        module.eval()
        try:
            with torch.no_grad():
                outputs = module(points)
        except Exception as error:
            raise DataError(
                f"{self.factory}: points of shape {tuple(points.shape)} fail with {type(error).__name__}: {error}"
            ) from error
        finally:
            module.train()
        if not isinstance(outputs, Tensor):
            raise DataError(f"{self.factory}: the module must return a tensor, got {type(outputs).__name__}")
        return outputs
