"""The sketch as the literal d x m matrix."""

from __future__ import annotations

import numpy as np
import torch
from tests.oracles.saddle import Array

from steadfed._linalg.sketch import SketchKey


def sketch_matrix(key: SketchKey, num_columns: int, num_buckets: int) -> Array:
    """Return S: column j of the rows goes, with its sign, to the bucket (offset of its run + its place in it) mod m.

    Its sign is the product of the flips of that bucket in all later runs.
    """
    num_runs = -(-num_columns // num_buckets)
    flips = key.flips(num_runs, num_buckets, torch.float64).numpy()
    offsets = key.offsets(num_runs, num_buckets)
    matrix = np.zeros((num_columns, num_buckets))
    for column in range(num_columns):
        run, place = divmod(column, num_buckets)
        bucket = (offsets[run] + place) % num_buckets
        matrix[column, bucket] = flips[run:, bucket].prod()
    return matrix
