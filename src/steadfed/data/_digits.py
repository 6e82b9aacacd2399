"""The embedded default: scikit-learn's digits, which its wheel carries."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import torch

from steadfed.data._base import Dataset, DataSource
from steadfed.data._pixels import classes
from steadfed.data._registry import DATASETS
from steadfed.data._splits import stratified_split

TEST_FRACTION = 0.2
"""The part of each class that is kept for the test."""


@DATASETS.register("digits")
@final
class Digits(DataSource):
    """Handwritten digits that need no download: 1,797 images of 8 × 8 pixels in [0, 1], 10 classes.

    A fixed fifth of each class is the test: 1,438 points to train on, 359 to test on.

    >>> Digits().load().features.shape
    torch.Size([1438, 1, 8, 8])
    """

    citation: ClassVar[str] = "Alpaydin, Kaynak 1998 (UCI optical recognition of handwritten digits); CC BY 4.0"

    def load(self) -> Dataset:
        """Read the digits from scikit-learn."""
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        features = torch.from_numpy((pixels / 16).astype(np.float32)).view(-1, 1, 8, 8)
        targets = classes(labels)
        train, test = stratified_split(targets.numpy(), TEST_FRACTION, "digits")
        return Dataset.from_split(features, targets, train, test, name="digits", num_classes=10)
