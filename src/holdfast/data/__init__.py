"""Data sets: where they come from and what they are."""

from holdfast.data._base import Dataset as Dataset, DataSource as DataSource
from holdfast.data._cifar import Cifar10 as Cifar10
from holdfast.data._digits import Digits as Digits
from holdfast.data._given import GivenData as GivenData
from holdfast.data._heart_disease import HeartDisease as HeartDisease
from holdfast.data._hugging_face import HuggingFace as HuggingFace, from_hugging_face as from_hugging_face
from holdfast.data._libsvm import A9a as A9a, Libsvm as Libsvm
from holdfast.data._mnist import FashionMnist as FashionMnist, Mnist as Mnist, MnistByWriter as MnistByWriter
from holdfast.data._npz import Npz as Npz
from holdfast.data._places import found_in as found_in
from holdfast.data._registry import DATASETS as DATASETS
from holdfast.data._remote import RemoteData as RemoteData
from holdfast.data._shakespeare import TinyShakespeare as TinyShakespeare
from holdfast.data._synthetic import LogisticPoints as LogisticPoints, QuadraticPoints as QuadraticPoints
from holdfast.data._tensors import from_tensors as from_tensors
from holdfast.data._torch_dataset import TorchDataset as TorchDataset, from_torch as from_torch
