"""MNIST, Fashion-MNIST, and MNIST by the hand that wrote each digit."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from steadfed.data._base import Dataset, DataSource
from steadfed.data._files import DataFile
from steadfed.data._idx import parse_idx
from steadfed.data._pixels import classes, scale_pixels, standardize
from steadfed.data._places import FileSet, Location, read_files
from steadfed.data._registry import DATASETS
from steadfed.errors import CorruptDataError

_QMNIST_URL = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"


def _four_files(url: str, *sha256: str) -> tuple[DataFile, ...]:
    """Return the images and labels to train on, and those to test on."""
    sizes = {
        "train-images-idx3-ubyte": 16 + 60000 * 28 * 28,
        "train-labels-idx1-ubyte": 8 + 60000,
        "t10k-images-idx3-ubyte": 16 + 10000 * 28 * 28,
        "t10k-labels-idx1-ubyte": 8 + 10000,
    }
    return tuple(
        DataFile(name=name, size=size, sha256=checksum, url=f"{url}{name}.gz")
        for (name, size), checksum in zip(sizes.items(), sha256, strict=True)
    )


MNIST_FILES = FileSet(
    name="mnist",
    files=_four_files(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    folders=("mnist", "MNIST/raw", "MNIST"),
)
FASHION_MNIST_FILES = FileSet(
    name="fashion-mnist",
    files=_four_files(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    folders=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
    system_folders=("/usr/share/datasets/fashion-mnist",),
    commands=("apt install dataset-fashion-mnist",),
)
WRITER_FILES = FileSet(
    name="qmnist",
    files=(
        DataFile(
            name="qmnist-train-labels-idx2-int",
            size=12 + 60000 * 8 * 4,
            sha256="bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5",
            url=f"{_QMNIST_URL}qmnist-train-labels-idx2-int.gz",
        ),
    ),
    folders=("qmnist", "qmnist-writer-ids", "QMNIST/raw", "QMNIST"),
)


class IdxImages(DataSource, ABC):
    """Images and labels in four idx files."""

    path: Location | None = None
    """The folder with the four idx files, packed or not; if left out, the usual places and then a download."""
    standardized: bool = False
    """Whether pixels have mean 0 and variance 1 over all training images, as in many published experiments."""

    def load(self) -> Dataset:
        """Read the four files."""
        return _images_and_labels(self.files[0], self.path, standard=self.standardized)


@DATASETS.register("mnist")
@final
class Mnist(IdxImages):
    """MNIST: 60,000 + 10,000 handwritten digits, 28 × 28 pixels in [0, 1], 10 classes.

    >>> Mnist(path="~/sets/mnist")
    Mnist(path='~/sets/mnist')
    """

    citation: ClassVar[str] = "LeCun, Cortes, Burges 1998 (MNIST); CC BY-SA 3.0"
    files: ClassVar[tuple[FileSet, ...]] = (MNIST_FILES,)


@DATASETS.register("fashion-mnist")
@final
class FashionMnist(IdxImages):
    """Fashion-MNIST: 60,000 + 10,000 articles of clothing, 28 × 28 pixels in [0, 1], 10 classes.

    >>> FashionMnist()
    FashionMnist()
    """

    citation: ClassVar[str] = "Xiao, Rasul, Vollgraf 2017 (Fashion-MNIST); MIT"
    files: ClassVar[tuple[FileSet, ...]] = (FASHION_MNIST_FILES,)


@DATASETS.register("mnist-by-writer")
@final
class MnistByWriter(DataSource):
    """MNIST with the writer of every training digit as its owner: 539 writers of 19 to 131 digits.

    QMNIST traced every digit of MNIST back to the form of NIST it was cut from; column 2 of its extended labels is the
    writer. The test digits are MNIST's, by other writers.

    >>> MnistByWriter(path="sets")
    MnistByWriter(path='sets')
    """

    citation: ClassVar[str] = (
        "LeCun, Cortes, Burges 1998 (MNIST); CC BY-SA 3.0. Writers: Yadav, Bottou 2019 (QMNIST); BSD-3-Clause"
    )
    files: ClassVar[tuple[FileSet, ...]] = (MNIST_FILES, WRITER_FILES)

    path: Location | None = None
    """The folder with MNIST and QMNIST's labels, or with folders of them; the usual places if left out."""

    def load(self) -> Dataset:
        """Read MNIST and the file of writers, whose classes must be MNIST's."""
        digits = _images_and_labels(MNIST_FILES, self.path)
        (file,) = WRITER_FILES.files
        table = parse_idx(read_files(WRITER_FILES, self.path)[file.name], (len(digits.labels), 8), file.name)
        if not np.array_equal(table[:, 0], digits.labels.numpy()):
            raise CorruptDataError(
                f"{file.name}: its classes are not those of the MNIST labels, so its writers are not theirs"
            )
        writers, owners = np.unique(table[:, 2], return_inverse=True)
        return replace(
            digits,
            name="mnist-by-writer",
            groups=owners.astype(np.int64),
            group_names=tuple(str(writer) for writer in writers),
        )


def _images_and_labels(wanted: FileSet, path: str | None, *, standard: bool = False) -> Dataset:
    contents = read_files(wanted, path)
    train_images, train_labels, test_images, test_labels = (contents[file.name] for file in wanted.files)
    names = [f"{wanted.name}: {file.name}" for file in wanted.files]
    features = _pixels(train_images, names[0])
    test_features = _pixels(test_images, names[2])
    dataset = Dataset(
        name=wanted.name,
        features=scale_pixels(features),
        labels=classes(parse_idx(train_labels, (len(features),), names[1])),
        test_features=scale_pixels(test_features),
        test_labels=classes(parse_idx(test_labels, (len(test_features),), names[3])),
        num_classes=10,
    )
    return standardize(dataset) if standard else dataset


def _pixels(content: bytes, name: str) -> NDArray[np.uint8]:
    return parse_idx(content, (None, 28, 28), name)[:, None]
