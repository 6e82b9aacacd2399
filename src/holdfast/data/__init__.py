"""Data sets: where they come from and what they are."""

from holdfast.data.base import Dataset, DataSource
from holdfast.data.cifar import Cifar10
from holdfast.data.digits import Digits
from holdfast.data.given import GivenData
from holdfast.data.heart_disease import HeartDisease
from holdfast.data.hugging_face import HuggingFace, from_hugging_face
from holdfast.data.libsvm import A9a, Libsvm
from holdfast.data.mnist import FashionMnist, Mnist, MnistByWriter
from holdfast.data.npz import Npz
from holdfast.data.places import found_in
from holdfast.data.registry import DATASETS, build_dataset, dataset_from_table, dataset_name, dataset_table
from holdfast.data.remote import RemoteData
from holdfast.data.shakespeare import TinyShakespeare
from holdfast.data.synthetic import LogisticPoints, QuadraticPoints
from holdfast.data.tensors import from_tensors
from holdfast.data.torch_dataset import TorchDataset, from_torch

__all__ = [
    "DATASETS",
    "A9a",
    "Cifar10",
    "DataSource",
    "Dataset",
    "Digits",
    "FashionMnist",
    "GivenData",
    "HeartDisease",
    "HuggingFace",
    "Libsvm",
    "LogisticPoints",
    "Mnist",
    "MnistByWriter",
    "Npz",
    "QuadraticPoints",
    "RemoteData",
    "TinyShakespeare",
    "TorchDataset",
    "build_dataset",
    "dataset_from_table",
    "dataset_name",
    "dataset_table",
    "found_in",
    "from_hugging_face",
    "from_tensors",
    "from_torch",
]
