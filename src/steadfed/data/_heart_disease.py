"""UCI heart disease, as FLamby takes it: four hospitals, thirteen features."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from steadfed._core.values import real_number
from steadfed.data._base import Dataset, DataSource
from steadfed.data._files import DataFile
from steadfed.data._places import FileSet, Location, read_files
from steadfed.data._registry import DATASETS
from steadfed.data._splits import stratified_split
from steadfed.errors import CorruptDataError

Table = NDArray[np.float64]
HOSPITALS = ("Cleveland", "Budapest", "Zurich and Basel", "Long Beach")
NUM_COLUMNS = 14
KEPT = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13)
"""Columns that are mostly present; the last is the diagnosis."""
NUMBERS = (0, 1, 3, 4, 5, 7, 8, 9)
"""Columns that are used as they are."""
CATEGORIES = ((2, (2.0, 3.0, 4.0)), (6, (1.0, 2.0)))
"""Columns that are one-hot, and their values after the first (chest pain, resting electrocardiogram)."""
_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"


def _hospital(name: str, size: int, sha256: str) -> DataFile:
    return DataFile(name=f"processed.{name}.data", size=size, sha256=sha256, url=f"{_URL}processed.{name}.data")


HEART_FILES = FileSet(
    name="heart-disease",
    files=(
        _hospital("cleveland", 18461, "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
        _hospital("hungarian", 10263, "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"),
        _hospital("switzerland", 4109, "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"),
        _hospital("va", 6737, "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"),
    ),
    folders=("heart-disease", "heart_disease", "heart+disease"),
)


@DATASETS.register("heart-disease")
@final
class HeartDisease(DataSource):
    r"""Heart disease in four hospitals: 303, 261, 46 and 130 patients, 13 features, sick or not.

    FLamby's recipe (Ogier du Terrail et al. 2022): the three columns that are mostly missing are dropped, then the
    rows with a missing value; chest pain and electrocardiogram are one-hot without their first value; the label says
    whether the diagnosis is above 0. Each feature is standardised within each hospital, (x − mean) / deviation over
    the hospital's points to train on (divided by n, not n − 1); a feature that is constant there becomes 0.

    Deviation from FLamby: it splits two to one and standardises over all hospitals if the data are pooled; here each
    hospital keeps its own scale.

    >>> HeartDisease(intercept=True, test_fraction=0)
    HeartDisease(intercept=True, test_fraction=0.0)
    """

    citation: ClassVar[str] = (
        "Janosi, Steinbrunn, Pfisterer, Detrano 1989 (UCI heart disease); CC BY 4.0. "
        "Recipe: Ogier du Terrail et al. 2022 (FLamby)"
    )
    files: ClassVar[tuple[FileSet, ...]] = (HEART_FILES,)

    path: Location | None = None
    """The folder with the four files processed.*.data; if left out, the usual places and then a download."""
    intercept: bool = False
    """Whether a column of ones is appended."""
    test_fraction: Annotated[float, Field(ge=0.0, le=0.9), BeforeValidator(real_number)] = 0.2
    """The part of the sick and of the healthy of each hospital that is kept for the test, by a fixed split."""

    def load(self) -> Dataset:
        """Read the four files."""
        contents = read_files(HEART_FILES, self.path)
        tables = [encode(parse_patients(contents[file.name], file.name)) for file in HEART_FILES.files]
        owners = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        labels = np.concatenate([table[:, -1] for table in tables]).astype(np.int64)
        train, test = stratified_split(2 * owners + labels, self.test_fraction, "heart-disease")
        features = _standardise(np.concatenate([table[:, :-1] for table in tables]), owners, train)
        if self.intercept:
            features = np.column_stack([features, np.ones(len(features))])
        points, targets = torch.from_numpy(features.astype(np.float32)), torch.from_numpy(labels)
        groups = {"groups": owners[train], "group_names": HOSPITALS, "test_groups": owners[test]}
        return Dataset.from_split(points, targets, train, test, name="heart-disease", num_classes=2, **groups)


def parse_patients(content: bytes, name: str) -> Table:
    """Return the columns that are kept of the patients for whom all of them are known."""
    rows = [line.split(",") for line in content.decode("latin-1").splitlines() if line.strip()]
    for number, row in enumerate(rows, start=1):
        if len(row) != NUM_COLUMNS:
            raise CorruptDataError(
                f"{name}: expected {NUM_COLUMNS} columns separated by commas, got {len(row)} in row {number}"
            )
    known = [[row[column] for column in KEPT] for row in rows if "?" not in (row[column].strip() for column in KEPT)]
    try:
        return np.array(known, dtype=np.float64).reshape(-1, len(KEPT))
    except ValueError as error:
        raise CorruptDataError(f"{name}: expected numbers or '?' between the commas; {error}") from error


def encode(patients: Table) -> Table:
    """Return the thirteen features and, as the last column, whether the patient is sick."""
    numbers = patients[:, NUMBERS]
    one_hot = [patients[:, column] == value for column, values in CATEGORIES for value in values]
    return np.column_stack([numbers, *one_hot, patients[:, -1] > 0]).astype(np.float64)


def _standardise(features: Table, owners: NDArray[np.int64], train: NDArray[np.int64]) -> Table:
    """Return the features less the mean and over the deviation of the training points of the same owner."""
    result = np.empty_like(features)
    for owner in np.unique(owners):
        known = features[train][owners[train] == owner]
        constant = np.ptp(known, axis=0) == 0
        deviation = np.where(constant, 1.0, known.std(axis=0))
        result[owners == owner] = (features[owners == owner] - known.mean(axis=0)) / deviation
        result[np.ix_(owners == owner, constant)] = 0.0
    return result
