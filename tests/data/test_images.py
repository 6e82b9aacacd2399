"""Images: the idx format, MNIST and its writers, CIFAR-10, the embedded digits."""

from __future__ import annotations

import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from steadfed.data import Cifar10, Digits, FashionMnist, Mnist, MnistByWriter, _cifar as cifar, _mnist as mnist
from steadfed.data._cifar import DEVIATIONS, MEANS, parse_batch
from steadfed.data._idx import parse_idx
from steadfed.data._places import FileSet
from steadfed.errors import CorruptDataError, MissingDataError


def idx(array: NDArray[np.generic], code: int = 8) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape) + array.tobytes()


IMAGES = np.arange(3 * 28 * 28, dtype=np.uint64).astype(np.uint8).reshape(3, 28, 28)
TEST_IMAGES = IMAGES[:2][:, ::-1]
WRITERS = np.array([[4, 0, 71, 0, 0, 0, 0, 0], [9, 0, 12, 0, 0, 0, 0, 0], [0, 0, 71, 0, 0, 0, 0, 0]], dtype=">i4")
CONTENTS = {
    "train-images-idx3-ubyte": idx(IMAGES),
    "train-labels-idx1-ubyte": idx(np.array([4, 9, 0], dtype=np.uint8)),
    "t10k-images-idx3-ubyte": idx(TEST_IMAGES),
    "t10k-labels-idx1-ubyte": idx(np.array([1, 2], dtype=np.uint8)),
    "qmnist-train-labels-idx2-int": idx(WRITERS, 0x0C),
}


def known(files: FileSet, contents: dict[str, bytes]) -> FileSet:
    """Return the set with the sizes and checksums of these contents."""
    described = [
        replace(file, size=len(contents[file.name]), sha256=hashlib.sha256(contents[file.name]).hexdigest())
        for file in files.files
    ]
    return replace(files, files=tuple(described))


@pytest.fixture
def small_mnist(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MNIST_FILES", "FASHION_MNIST_FILES", "WRITER_FILES"):
        monkeypatch.setattr(mnist, name, known(getattr(mnist, name), CONTENTS))
    monkeypatch.setattr(mnist.Mnist, "files", (mnist.MNIST_FILES,))
    monkeypatch.setattr(mnist.FashionMnist, "files", (mnist.FASHION_MNIST_FILES,))
    for name, content in CONTENTS.items():
        folder = empty_machine / "root" / ("QMNIST/raw" if name.startswith("qmnist") else "MNIST/raw")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    monkeypatch.setenv("STEADFED_DATA", str(empty_machine / "root"))
    return empty_machine / "root"


def test_mnist_is_scaled_to_the_unit_interval_with_one_channel(small_mnist: Path) -> None:
    dataset = Mnist().load()
    assert dataset.features.shape == (3, 1, 28, 28)
    assert torch.equal(dataset.features[:, 0], torch.from_numpy(IMAGES).float() / 255)
    assert dataset.labels.tolist() == [4, 9, 0]
    assert dataset.test_features.shape == (2, 1, 28, 28)
    assert dataset.test_labels.tolist() == [1, 2]
    assert (dataset.name, dataset.num_classes, dataset.groups) == ("mnist", 10, None)


def test_standardized_images_have_mean_0_and_variance_1_over_the_training_set(small_mnist: Path) -> None:
    plain, dataset = Mnist().load(), Mnist(standardized=True).load()
    assert dataset.features.dtype == torch.float32
    assert dataset.features.mean().item() == pytest.approx(0.0, abs=1e-6)
    assert dataset.features.var(correction=0).item() == pytest.approx(1.0, abs=1e-6)
    mean, spread = plain.features.mean(), plain.features.std(correction=0)
    torch.testing.assert_close(dataset.test_features, (plain.test_features - mean) / spread)
    assert torch.equal(dataset.labels, plain.labels)
    assert dataset.checksum != plain.checksum


def test_fashion_mnist_is_found_by_its_own_path(small_mnist: Path) -> None:
    with pytest.raises(MissingDataError, match="apt install dataset-fashion-mnist"):
        FashionMnist().load()
    assert FashionMnist(path=small_mnist / "MNIST/raw").load().name == "fashion-mnist"


def test_writers_own_their_digits(small_mnist: Path) -> None:
    dataset = MnistByWriter().load()
    assert dataset.groups is not None
    assert dataset.groups.tolist() == [1, 0, 1]
    assert dataset.group_names == ("12", "71")
    assert MnistByWriter(path=small_mnist).load().checksum == dataset.checksum


def test_writers_of_other_digits_are_refused(small_mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "qmnist-train-labels-idx2-int"
    wrong = {name: idx(WRITERS[::-1], 0x0C)}
    monkeypatch.setattr(mnist, "WRITER_FILES", known(mnist.WRITER_FILES, wrong))
    (small_mnist / "QMNIST/raw" / name).write_bytes(wrong[name])
    with pytest.raises(CorruptDataError, match="not those of the MNIST labels"):
        MnistByWriter().load()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no idx file"),
        (b"\0\0\x08", "no idx file"),
        (b"\1\0\x08\1" + bytes(4), "got 01 00 08 01"),
        (b"\0\0\x07\1" + bytes(4), "no idx file"),
        (b"\0\0\x08\2" + bytes(8), "no idx file of 1 dimensions"),
        (b"\0\0\x08\1\0\0\0\3ab", "expected 11 bytes, as its header says, got 10"),
        (b"\0\0\x08\1\0\0\0\3abcd", "got 12"),
        (b"\0\0\x08\1\xff\xff\xff\xffabc", "expected 4,294,967,303 bytes"),
    ],
)
def test_broken_idx_files_are_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(CorruptDataError, match=complaint):
        parse_idx(content, (None,), "labels")


def test_an_idx_file_of_another_shape_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="expected any × 28 × 28 numbers, the header says 3 × 28 × 27"):
        parse_idx(idx(IMAGES[:, :, 1:]), (None, 28, 28), "images")


def test_idx_integers_are_big_endian() -> None:
    assert parse_idx(idx(WRITERS, 0x0C), (3, 8), "writers")[:, 2].tolist() == [71, 12, 71]


def cifar_batch(number: int) -> bytes:
    return b"".join(bytes([label]) + bytes([number, 51, 255]) * 1024 for label in (3, 7))


def test_cifar_is_channels_first_and_normalised(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planes = bytes([0] * 1024 + [51] * 1024 + [255] * 1024)
    contents = {file.name: bytes([i]) + planes for i, file in enumerate(cifar.CIFAR_FILES.files)}
    monkeypatch.setattr(cifar, "CIFAR_FILES", known(cifar.CIFAR_FILES, contents))
    folder = empty_machine / "data/cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    dataset = Cifar10().load()
    assert dataset.features.shape == (5, 3, 32, 32)
    assert dataset.labels.tolist() == [0, 1, 2, 3, 4]
    assert dataset.test_labels.tolist() == [5]
    wanted = [(value - mean) / std for value, mean, std in zip((0.0, 0.2, 1.0), MEANS, DEVIATIONS, strict=True)]
    assert dataset.features[2, :, 5, 9].tolist() == pytest.approx(wanted, rel=1e-5)


def test_the_pickled_version_of_cifar_is_named_with_the_command_for_the_binary_one(empty_machine: Path) -> None:
    (empty_machine / "data/cifar-10-batches-py").mkdir(parents=True)
    with pytest.raises(MissingDataError, match="nothing is unpickled here") as caught:
        Cifar10().load()
    assert "cifar-10/cifar-10-binary.tar.gz https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz" in str(
        caught.value
    )


@pytest.mark.parametrize("content", [b"", cifar_batch(0)[:-1], b"\x0a" + bytes(3072)])
def test_broken_cifar_batches_are_refused(content: bytes) -> None:
    with pytest.raises(CorruptDataError, match=r"data_batch_1\.bin"):
        parse_batch(content, "data_batch_1.bin")


def test_digits_are_split_by_class_and_always_alike() -> None:
    dataset = Digits().load()
    assert dataset.features.shape == (1438, 1, 8, 8)
    assert dataset.test_features.shape == (359, 1, 8, 8)
    assert (float(dataset.features.min()), float(dataset.features.max())) == (0.0, 1.0)
    share = dataset.test_labels.bincount() / (dataset.labels.bincount() + dataset.test_labels.bincount())
    assert bool(((share - 0.2).abs() < 0.004).all())
    assert dataset.checksum == Digits().load().checksum
    assert dataset.checksum.startswith("28395396")
