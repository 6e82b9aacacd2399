"""Nearest-neighbour mixing, from the Gram matrix."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from steadfed._core.arrays import Matrix
from steadfed._linalg.gram import squared_distances
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView
from steadfed.aggregators._wrappers.base import Mixing, MixingWrapper


@RULES.register("nnm")
@final
class NearestNeighborMixing(MixingWrapper):
    """Every row becomes the mean of the n − f rows nearest to it, itself among them (Allouah et al. 2023, Algorithm 2).

    Distances and the mixture come from the Gram matrix: the mixture is an n x n matrix of shares, and no
    (n, n − f, d) tensor is ever formed. Of equally near rows those that come first are taken.

    >>> import torch
    >>> from steadfed.aggregators import Mean
    >>> NearestNeighborMixing(rule=Mean(num_byzantine=1))(torch.tensor([[0.0], [1.0], [2.0], [3000.0]])).update
    tensor([251.])
    """

    citation: ClassVar[str] = "Allouah et al. 2023, Algorithm 2"

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return what the rule inside needs, and at least one neighbour more than f."""
        return max(num_byzantine + 1, self.rule.smallest_cohort(num_byzantine))

    def mix(self, gram: Matrix, num_byzantine: int, view: ServerView) -> Mixing:
        """Return 1/(n − f) for the nearest of every row."""
        n = len(gram)
        neighbours = max(1, n - num_byzantine)
        nearest = np.argsort(squared_distances(gram), axis=1, kind="stable")[:, :neighbours]
        matrix = np.zeros((n, n))
        np.put_along_axis(matrix, nearest, 1.0 / neighbours, axis=1)
        return Mixing(matrix, np.arange(n), num_byzantine)
