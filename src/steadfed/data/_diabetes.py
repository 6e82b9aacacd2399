"""Numbers to predict that need no download: scikit-learn's diabetes, which its wheel carries."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import torch

from steadfed.data._base import Dataset, DataSource
from steadfed.data._registry import DATASETS
from steadfed.data._splits import stratified_split

TEST_FRACTION = 0.2
"""The part that is kept for the test."""


@DATASETS.register("diabetes")
@final
class Diabetes(DataSource):
    """442 patients, ten measurements each, and how far their diabetes had advanced after a year: a number.

    A fixed fifth is the test: 354 patients to train on, 88 to test on. Measurements and the label are standardised,
    (x − mean) / deviation, with those of the patients to train on (divided by n): an error of 1 is a deviation, 77.

    >>> Diabetes().load().features.shape
    torch.Size([354, 10])
    """

    citation: ClassVar[str] = "Efron, Hastie, Johnstone, Tibshirani 2004 (Least Angle Regression), section 1"

    def load(self) -> Dataset:
        """Read the patients from scikit-learn."""
        from sklearn.datasets import load_diabetes

        table = np.column_stack(load_diabetes(return_X_y=True, scaled=False))
        train, test = stratified_split(np.zeros(len(table), dtype=np.int64), TEST_FRACTION, "diabetes")
        scaled = ((table - table[train].mean(axis=0)) / table[train].std(axis=0)).astype(np.float32)
        features, labels = torch.from_numpy(scaled[:, :-1].copy()), torch.from_numpy(scaled[:, -1].copy())
        return Dataset.from_split(features, labels, train, test, name="diabetes")
