"""Files in LIBSVM's format: a label and the features that are not zero, one point per line."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from steadfed._core.values import whole_number
from steadfed.data._base import Dataset, DataSource
from steadfed.data._files import DataFile, is_file, plausible_size, unpack
from steadfed.data._places import FileSet, Location, folder_of, read_files
from steadfed.data._registry import DATASETS
from steadfed.errors import CorruptDataError, DataError, MissingDataError

LARGEST = 1 << 33
"""Bytes of features beyond which a dense matrix is refused, and of a file beyond which it is not read."""
MOST_DENSE = 1_000
"""As many bytes as a file has, that many times more may its dense matrix have; a line that names one feature of a far
number would ask for gigabytes."""
ALWAYS_DENSE = 256 << 20
"""So many bytes may any dense matrix have."""
_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


def _file(name: str, size: int, sha256: str) -> DataFile:
    return DataFile(name=name, size=size, sha256=sha256, url=f"{_URL}{name}")


A9A_FILES = FileSet(
    name="a9a",
    files=(
        _file("a9a", 2329875, "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
        _file("a9a.t", 1164628, "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
    ),
    folders=("a9a", "libsvm"),
)


@DATASETS.register("a9a")
@final
class A9a(DataSource):
    """LIBSVM's a9a: 32,561 + 16,281 people, 123 features that are 0 or 1, two classes of income.

    >>> A9a()
    A9a()
    """

    citation: ClassVar[str] = "Becker, Kohavi 1996 (UCI Adult); Platt 1998 and LIBSVM's encoding; CC BY 4.0"
    files: ClassVar[tuple[FileSet, ...]] = (A9A_FILES,)

    path: Location | None = None
    """The folder with a9a and a9a.t; if left out, the usual places and then a download."""

    def load(self) -> Dataset:
        """Read both files; the one for tests has no point with feature 123."""
        contents = read_files(A9A_FILES, self.path)
        return dataset_of("a9a", {file.name: contents[file.name] for file in A9A_FILES.files}, 123)


@DATASETS.register("libsvm")
@final
class Libsvm(DataSource):
    """Any file in LIBSVM's format, dense in float32; its labels become 0 .. C − 1 in increasing order (−1, +1: 0, 1).

    Features are counted from 1, unless one of the files has a feature 0. A file packed by gzip is unpacked.

    >>> Libsvm(path="w8a", test_path="w8a.t", num_features=300)
    Libsvm(path='w8a', test_path='w8a.t', num_features=300)
    """

    citation: ClassVar[str] = "Chang, Lin 2011 (LIBSVM), file format; the data are the user's own"

    path: Annotated[Location, Field(examples=["data/w8a.txt"])]
    """The points to train on."""
    test_path: Location | None = None
    """The points to test on; no test if left out."""
    num_features: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] | None = None
    """How many features there are; counted in the files if left out."""
    labels: Literal["numbers"] | None = None
    """"numbers" if labels are numbers to predict; if not given, they are classes."""

    def load(self) -> Dataset:
        """Read one file or both."""
        paths = [folder_of(path) for path in (self.path, self.test_path) if path is not None]
        return dataset_of("libsvm", {str(path): _content(path) for path in paths}, self.num_features, self.labels)


def dataset_of(
    name: str, contents: dict[str, bytes], num_features: int | None, kind: Literal["numbers"] | None = None
) -> Dataset:
    """Return the data set of one content, to train on, or of two, the second to test on; the keys name them."""
    parts = _parse(contents, num_features)
    values = None if kind == "numbers" else _label_values(parts[1], next(iter(contents)))
    largest = min(LARGEST, max(ALWAYS_DENSE, MOST_DENSE * sum(map(len, contents.values()))))
    train, labels = _dense(parts[0], largest), _targets(parts[1], values, name)
    test, test_labels = (
        (_dense(parts[2], largest), _targets(parts[3], values, name)) if len(parts) > 2 else (train[:0], labels[:0])
    )
    return Dataset(
        name=name,
        features=torch.from_numpy(train),
        labels=torch.from_numpy(labels),
        test_features=torch.from_numpy(test),
        test_labels=torch.from_numpy(test_labels),
        num_classes=None if values is None else len(values),
    )


def _targets(labels: NDArray[np.float64], values: NDArray[np.float64] | None, name: str) -> NDArray[Any]:
    """Return the numbers of classes, or the labels themselves if they are numbers."""
    return labels.astype(np.float32) if values is None else _class_numbers(labels, values, name)


def _content(path: Path) -> bytes:
    if not is_file(path):
        raise MissingDataError(f"there is no file {path}; give the path of a file in LIBSVM's format")
    limit = min(LARGEST, plausible_size(path))
    content = unpack(path, limit)
    if len(content) > limit:
        raise CorruptDataError(f"{path} is more than {limit:,} bytes unpacked, which no file of this size should be")
    return content


def _parse(contents: dict[str, bytes], num_features: int | None) -> list[Any]:
    from sklearn.datasets import load_svmlight_files

    try:
        return list(
            load_svmlight_files(
                [BytesIO(each) for each in contents.values()], n_features=num_features, dtype=np.float32
            )
        )
    except (ValueError, OverflowError, MemoryError) as error:
        expected = f" with features up to {num_features}" if num_features else ""
        raise CorruptDataError(
            f"{', '.join(contents)}: expected lines 'LABEL INDEX:VALUE …'{expected}; {error}"
        ) from error


def _label_values(labels: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.unique(labels)
    if not np.array_equal(values, np.round(values)):
        raise DataError(f"{name}: classes must be whole numbers, got the label {values[values != np.round(values)][0]}")
    return values


def _class_numbers(labels: NDArray[np.float64], values: NDArray[np.float64], name: str) -> NDArray[np.int64]:
    unknown = labels[~np.isin(labels, values)]
    if len(unknown):
        raise DataError(
            f"{name}: a point to test on has the label {unknown[0]:g}, but those to train on have {values.tolist()}"
        )
    return np.searchsorted(values, labels).astype(np.int64)


def _dense(matrix: Any, largest: int) -> NDArray[np.float32]:
    """Return a sparse matrix as a dense one, unless that would be absurdly large."""
    size = 4 * matrix.shape[0] * matrix.shape[1]
    if size > largest:
        raise DataError(
            f"{matrix.shape[0]} points × {matrix.shape[1]} features are {size:,} bytes; at most {largest:,} are read"
        )
    dense: NDArray[np.float32] = matrix.toarray()
    return dense
