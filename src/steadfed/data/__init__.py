"""Data sets: where they come from and what they are."""

from steadfed.data._base import Dataset as Dataset, DataSource as DataSource
from steadfed.data._cifar import Cifar10 as Cifar10
from steadfed.data._diabetes import Diabetes as Diabetes
from steadfed.data._digits import Digits as Digits
from steadfed.data._given import GivenData as GivenData
from steadfed.data._heart_disease import HeartDisease as HeartDisease
from steadfed.data._hugging_face import HuggingFace as HuggingFace, from_hugging_face as from_hugging_face
from steadfed.data._libsvm import A9a as A9a, Libsvm as Libsvm
from steadfed.data._mnist import FashionMnist as FashionMnist, Mnist as Mnist, MnistByWriter as MnistByWriter
from steadfed.data._npz import Npz as Npz
from steadfed.data._places import find_folder as find_folder
from steadfed.data._registry import DATASETS as DATASETS
from steadfed.data._remote import RemoteData as RemoteData
from steadfed.data._shakespeare import TinyShakespeare as TinyShakespeare
from steadfed.data._synthetic import (
    LinearPoints as LinearPoints,
    LogisticPoints as LogisticPoints,
    QuadraticPoints as QuadraticPoints,
)
from steadfed.data._tensors import from_tensors as from_tensors, with_test_owners as with_test_owners
from steadfed.data._torch_dataset import TorchDataset as TorchDataset, from_torch as from_torch
