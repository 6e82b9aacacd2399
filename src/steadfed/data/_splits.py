"""Splits into points to train on and points to test on that are the same everywhere and for ever."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steadfed._core.rng import stream

SPLIT_SEED = 0
"""The seed of every fixed split; a constant, for the split belongs to the data set and not to the run."""


def stratified_split(
    strata: NDArray[np.int64], test_fraction: float, name: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of training and of test points, both in order; each stratum gives its share to the test.

    Of a stratum with n points, ⌊test_fraction · n + ½⌋ points go to the test, drawn from the stream that `name` calls.

    >>> train, test = stratified_split(np.array([0, 0, 1, 1, 1, 1]), 0.5, "example")
    >>> len(train), len(test)
    (3, 3)
    """
    chosen = np.zeros(len(strata), dtype=np.bool_)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        order = stream(SPLIT_SEED, "data", name, "split", int(stratum)).permutation(len(members))
        chosen[members[order[: int(test_fraction * len(members) + 0.5)]]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
