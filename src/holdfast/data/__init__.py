"""Data sets: where they come from and what they are."""

from holdfast.data.base import Dataset as Dataset
from holdfast.data.base import DataSource as DataSource
from holdfast.data.cifar import Cifar10 as Cifar10
from holdfast.data.digits import Digits as Digits
from holdfast.data.given import GivenData as GivenData
from holdfast.data.heart_disease import HeartDisease as HeartDisease
from holdfast.data.hugging_face import HuggingFace as HuggingFace
from holdfast.data.hugging_face import from_hugging_face as from_hugging_face
from holdfast.data.libsvm import A9a as A9a
from holdfast.data.libsvm import Libsvm as Libsvm
from holdfast.data.mnist import FashionMnist as FashionMnist
from holdfast.data.mnist import Mnist as Mnist
from holdfast.data.mnist import MnistByWriter as MnistByWriter
from holdfast.data.npz import Npz as Npz
from holdfast.data.places import found_in as found_in
from holdfast.data.registry import DATASETS as DATASETS
from holdfast.data.remote import RemoteData as RemoteData
from holdfast.data.shakespeare import TinyShakespeare as TinyShakespeare
from holdfast.data.synthetic import LogisticPoints as LogisticPoints
from holdfast.data.synthetic import QuadraticPoints as QuadraticPoints
from holdfast.data.tensors import from_tensors as from_tensors
from holdfast.data.torch_dataset import TorchDataset as TorchDataset
from holdfast.data.torch_dataset import from_torch as from_torch
