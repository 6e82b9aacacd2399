"""CIFAR-10, from its binary version: the version for Python is pickled, and nothing is unpickled here."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed.data._base import Dataset, DataSource
from steadfed.data._files import Archive, DataFile
from steadfed.data._pixels import classes, scale_pixels
from steadfed.data._places import FileSet, Location, read_files
from steadfed.data._registry import DATASETS
from steadfed.errors import CorruptDataError

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
RECORD = 1 + 3 * 32 * 32
"""Bytes of one image: its class, then the red, the green and the blue pixels row by row."""
MEANS = (0.4914, 0.4822, 0.4465)
DEVIATIONS = (0.2470, 0.2435, 0.2616)
"""Of each channel of the training images, rounded as they are used everywhere."""
_PICKLED = "the pickled version, and nothing is unpickled here; the binary version is needed"


def _batch(name: str, sha256: str) -> DataFile:
    return DataFile(name=f"{name}.bin", size=10000 * RECORD, sha256=sha256, url=URL)


CIFAR_FILES = FileSet(
    name="cifar-10",
    files=(
        _batch("data_batch_1", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
        _batch("data_batch_2", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
        _batch("data_batch_3", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
        _batch("data_batch_4", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
        _batch("data_batch_5", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
        _batch("test_batch", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
    ),
    folders=("cifar-10", "cifar-10-batches-bin", "cifar-10/cifar-10-batches-bin", "CIFAR10", "cifar10"),
    archive=Archive(
        name="cifar-10-binary.tar.gz",
        sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        url=URL,
    ),
    refused=MappingProxyType({"cifar-10-batches-py": _PICKLED, "cifar-10-python.tar.gz": _PICKLED}),
)


@DATASETS.register("cifar-10")
@final
class Cifar10(DataSource):
    """CIFAR-10: 50,000 + 10,000 colour images, 3 × 32 × 32, each channel less its mean over its deviation, 10 classes.

    >>> Cifar10(path="cifar-10-binary.tar.gz")
    Cifar10(path='cifar-10-binary.tar.gz')
    """

    citation: ClassVar[str] = "Krizhevsky 2009 (CIFAR-10); no licence stated, to be cited"
    files: ClassVar[tuple[FileSet, ...]] = (CIFAR_FILES,)

    path: Location | None = None
    """The binary version: its folder or its archive; if left out, the usual places and then a download."""

    def load(self) -> Dataset:
        """Read the six batches."""
        contents = read_files(CIFAR_FILES, self.path)
        records = [parse_batch(contents[file.name], file.name) for file in CIFAR_FILES.files]
        train, test = np.concatenate(records[:-1]), records[-1]
        return Dataset(
            name="cifar-10",
            features=normalise(train),
            labels=classes(train[:, 0]),
            test_features=normalise(test),
            test_labels=classes(test[:, 0]),
            num_classes=10,
        )


def parse_batch(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the records of a binary batch, one per row."""
    if not content or len(content) % RECORD:
        raise CorruptDataError(f"{name}: expected whole records of {RECORD} bytes, got {len(content):,} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    if int(records[:, 0].max()) >= 10:
        raise CorruptDataError(f"{name}: expected classes 0 .. 9, got {int(records[:, 0].max())}")
    return records


def normalise(records: NDArray[np.uint8]) -> Tensor:
    """Return the pixels of the records, each channel less its mean and divided by its deviation."""
    pixels = scale_pixels(records[:, 1:]).view(-1, 3, 32, 32)
    return pixels.sub_(torch.tensor(MEANS).view(3, 1, 1)).div_(torch.tensor(DEVIATIONS).view(3, 1, 1))
