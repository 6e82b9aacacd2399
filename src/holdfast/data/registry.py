"""Every data set by name: one literal table; unknown names are refused with the nearest known one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast.data.base import DataSource
from holdfast.data.cifar import Cifar10
from holdfast.data.digits import Digits
from holdfast.data.given import GivenData
from holdfast.data.heart_disease import HeartDisease
from holdfast.data.hugging_face import HuggingFace
from holdfast.data.libsvm import A9a, Libsvm
from holdfast.data.mnist import FashionMnist, Mnist, MnistByWriter
from holdfast.data.npz import Npz
from holdfast.data.remote import RemoteData
from holdfast.data.shakespeare import TinyShakespeare
from holdfast.data.synthetic import LogisticPoints, QuadraticPoints
from holdfast.data.torch_dataset import TorchDataset
from holdfast.naming import Names

DATASETS: Mapping[str, type[DataSource]] = MappingProxyType(
    {
        "a9a": A9a,
        "cifar-10": Cifar10,
        "digits": Digits,
        "fashion-mnist": FashionMnist,
        "given": GivenData,
        "heart-disease": HeartDisease,
        "hugging-face": HuggingFace,
        "libsvm": Libsvm,
        "mnist": Mnist,
        "mnist-by-writer": MnistByWriter,
        "npz": Npz,
        "quadratic": QuadraticPoints,
        "remote": RemoteData,
        "synthetic-logistic": LogisticPoints,
        "tiny-shakespeare": TinyShakespeare,
        "torch-dataset": TorchDataset,
    }
)
_NAMES = Names("dataset", DATASETS)


def build_dataset(name: str, **parameters: Any) -> DataSource:
    """Return the source called `name`; its `load` reads the data set.

    >>> build_dataset("heart-disease", intercept=True)
    HeartDisease(intercept=True)
    """
    return _NAMES.build(name, **parameters)


def dataset_name(source: DataSource) -> str:
    """Return the name under which the source is registered.

    >>> dataset_name(Digits())
    'digits'
    """
    return _NAMES.name(source)


def dataset_table(source: DataSource) -> dict[str, Any]:
    """Return the name and the parameters that differ from their defaults.

    >>> dataset_table(TinyShakespeare(sequence_length=40))
    {'name': 'tiny-shakespeare', 'sequence_length': 40}
    """
    return _NAMES.to_table(source)


def dataset_from_table(table: Mapping[str, Any]) -> DataSource:
    """Return the source that a table with a name and parameters describes.

    >>> dataset_from_table({"name": "quadratic", "dim": 3})
    QuadraticPoints(dim=3)
    """
    return _NAMES.from_table(table)
