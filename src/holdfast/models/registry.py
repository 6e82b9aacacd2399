"""Every model by name: one literal table; unknown names are refused with the nearest known one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast.models.base import Architecture
from holdfast.models.convolutional import ConvolutionalNetwork, ResidualNetwork
from holdfast.models.imported import ImportedModel
from holdfast.models.linear import LogisticRegression, SoftmaxRegression
from holdfast.models.perceptron import MultilayerPerceptron
from holdfast.models.quadratic import Quadratic
from holdfast.models.recurrent import GatedRecurrent, LongShortTermMemory
from holdfast.models.remote import RemoteModel
from holdfast.naming import Names

MODELS: Mapping[str, type[Architecture]] = MappingProxyType(
    {
        "cnn": ConvolutionalNetwork,
        "gru": GatedRecurrent,
        "import": ImportedModel,
        "logistic-regression": LogisticRegression,
        "lstm": LongShortTermMemory,
        "mlp": MultilayerPerceptron,
        "quadratic": Quadratic,
        "remote": RemoteModel,
        "resnet": ResidualNetwork,
        "softmax-regression": SoftmaxRegression,
    }
)
_NAMES = Names("model", MODELS)


def build_model(name: str, **parameters: Any) -> Architecture:
    """Return the model called `name`, before it has weights.

    >>> build_model("mlp", hidden=(200, 200), l2=1e-4)
    MultilayerPerceptron(l2=0.0001, hidden=(200, 200))
    """
    return _NAMES.build(name, **parameters)


def model_name(model: Architecture) -> str:
    """Return the name under which the model is registered.

    >>> model_name(MultilayerPerceptron())
    'mlp'
    """
    return _NAMES.name(model)


def model_table(model: Architecture) -> dict[str, Any]:
    """Return the name and the parameters that differ from their defaults.

    >>> model_table(LogisticRegression(l2=1e-3, bias=False))
    {'name': 'logistic-regression', 'l2': 0.001, 'bias': False}
    """
    return _NAMES.to_table(model)


def model_from_table(table: Mapping[str, Any]) -> Architecture:
    """Return the model that a table with a name and parameters describes.

    >>> model_from_table({"name": "import", "factory": "my.models:net", "criterion": "logistic"})
    ImportedModel(factory='my.models:net', criterion='logistic')
    """
    return _NAMES.from_table(table)
