"""Data sets of the library `datasets` of Hugging Face, from a folder, from the hub, or as objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from steadfed._core.lookup import nearest
from steadfed.data._base import Dataset, DataSource
from steadfed.data._places import Location, folder_of
from steadfed.data._registry import DATASETS
from steadfed.data._tensors import array_of, from_tensors, with_test_owners
from steadfed.errors import DataError, MissingDataError

Column = Annotated[str, Field(min_length=1)]


@DATASETS.register("hugging-face")
@final
class HuggingFace(DataSource):
    """A data set that `datasets` saved with save_to_disk, or one of the hub by its name.

    The library is no dependency: `pip install 'steadfed[huggingface]'` brings it. Columns are read once, as
    `from_hugging_face` describes.

    >>> HuggingFace(path="ylecun/mnist", features="image")
    HuggingFace(path='ylecun/mnist', features='image')
    """

    citation: ClassVar[str] = "Lhoest et al. 2021 (datasets), the library; the data are the user's own or the hub's"

    path: Annotated[Location, Field(examples=["somebody/something"])]
    """A folder written by save_to_disk, or a name on the hub."""
    features: Column | tuple[Column, ...] = "features"
    """The column with the points, or several columns of numbers that are put side by side."""
    labels: Column = "label"
    """The column with the labels."""
    groups: Column | None = None
    """The column with the owner of each point; left out if the points have no owners."""
    split: Column = "train"
    """The part to train on; a folder without parts is all of it."""
    test_split: Column | None = "test"
    """The part to test on; no test if left out."""

    def load(self) -> Dataset:
        """Read the columns of both parts."""
        parts = self._parts()
        if not isinstance(parts, dict):
            parts = {self.split: parts}
        return from_hugging_face(
            _part(parts, self.split, self.path),
            None if self.test_split is None else _part(parts, self.test_split, self.path),
            features=self.features,
            labels=self.labels,
            groups=self.groups,
            name=self.path,
        )

    def _parts(self) -> Any:
        try:
            import datasets
        except ImportError as error:
            raise MissingDataError(
                f"{self.path}: the library `datasets` is missing; pip install 'steadfed[huggingface]'"
            ) from error
        folder = folder_of(self.path)
        try:
            return datasets.load_from_disk(str(folder)) if folder.is_dir() else datasets.load_dataset(self.path)
        except (
            OSError,
            ValueError,
            RuntimeError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            raise MissingDataError(
                f"{self.path} is neither a folder written by save_to_disk nor to be had from the hub: {error}"
            ) from error


def from_hugging_face(
    train: Any,
    test: Any = None,
    *,
    features: str | Sequence[str] = "features",
    labels: str = "label",
    groups: str | None = None,
    name: str = "hugging-face",
) -> Dataset:
    """Return a data set of objects that give a column by its name, `part[column]`, and know their `column_names`.

    Images (of PIL, or height × width × channels in bytes) become channels × height × width in [0, 1]; labels that are
    words become classes in alphabetical order.

    Args:
        train: The part to train on.
        test: The part to test on; no test if left out.
        features: The column with the points, or several columns of numbers that are put side by side.
        labels: The column with the labels.
        groups: The column with the owner of each training point, and of each test point if it is there, too.
        name: What the data set is called.
    """
    parts = [train] if test is None else [train, test]
    points = [_points(part, features, name) for part in parts]
    targets = _classes([_column(part, labels, name) for part in parts], name)
    tests = (points[1], targets[1]) if test is not None else (None, None)
    owners = None if groups is None else _column(train, groups, name)
    known = groups is not None and test is not None and groups in test.column_names
    dataset = from_tensors(points[0], targets[0], *tests, groups=owners, name=name)
    return with_test_owners(dataset, _column(test, str(groups), name)) if known else dataset


def _part(parts: Any, split: str, path: str) -> Any:
    """Return one part of a dictionary of parts."""
    if split not in parts:
        known = ", ".join(map(str, parts))
        raise DataError(f"{path} has no part {split!r}{nearest(split, parts)}; it has {known}; test_split may be None")
    return parts[split]


def _points(part: Any, features: str | Sequence[str], name: str) -> NDArray[Any]:
    if isinstance(features, str):
        return _channels_first(_column(part, features, name))
    columns = [_column(part, each, name).astype(np.float32) for each in features]
    return np.column_stack(columns)


def _column(part: Any, column: str, name: str) -> NDArray[Any]:
    if column not in part.column_names:
        known = ", ".join(part.column_names)
        raise DataError(f"{name}: there is no column {column!r}{nearest(column, part.column_names)}; there are {known}")
    return array_of([np.asarray(value) for value in part[column]], f"{name}: the values of column {column!r}")


def _channels_first(points: NDArray[Any]) -> NDArray[Any]:
    if points.ndim == 1:
        return points[:, None]
    if points.dtype != np.uint8 or points.ndim < 3:
        return points
    if points.ndim == 3:
        return points[:, None]
    return np.moveaxis(points, -1, 1) if points.shape[-1] in {1, 3, 4} else points


def _classes(labels: list[NDArray[Any]], name: str) -> list[NDArray[Any]]:
    """Return words as the places of the words in alphabetical order, numbers as they are."""
    if labels[0].dtype.kind != "U":
        return labels
    words = np.unique(labels[0])
    unknown = sorted(set(np.concatenate(labels).tolist()) - set(words.tolist()))
    if unknown:
        raise DataError(f"{name}: the label {unknown[0]!r} of a test point is not among those of the training points")
    return [np.searchsorted(words, each) for each in labels]
