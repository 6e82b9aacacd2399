"""Bucketing: means of a few random rows each, from the Gram matrix."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from steadfed._core.arrays import Matrix
from steadfed._core.rng import stream
from steadfed._core.values import whole_number
from steadfed._linalg.mixtures import averages
from steadfed.aggregators._base import Claim, LooselyBoundedAggregator
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView
from steadfed.aggregators._wrappers.base import Mixing, MixingWrapper


@RULES.register("bucketing")
@final
class Bucketing(MixingWrapper):
    r"""The rule inside sees the means of ⌈n/s⌉ buckets of s random rows (Karimireddy, He, Jaggi 2022, Algorithm 1).

    Rows are permuted at random, anew in every round, and cut into buckets of s; the last one may be smaller and counts
    as much as any other. Averaging makes honest rows of different kinds more alike by a factor of s in variance, at
    the price of a share of bad buckets up to s times as large: of ⌈n/s⌉ buckets at most f are bad. The Gram matrix of
    the buckets is A Q Aᵀ for the matrix A of shares.

    A rule that assumes any minority unless told a bound then assumes a minority of the buckets. Deviation: unusable
    rows are dropped before the permutation.

    >>> import torch
    >>> from steadfed.aggregators import Mean
    >>> Bucketing(rule=Mean())(torch.tensor([[1.0], [2.0], [3.0], [6.0]])).update
    tensor([3.])
    """

    citation: ClassVar[str] = "Karimireddy, He, Jaggi 2022, Algorithm 1"

    size: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = 2
    """s, updates per bucket."""
    seed: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 0
    """The root seed of the buckets, which are drawn anew in every round."""

    def breaks(self) -> frozenset[Claim]:
        """Return that who shares a bucket depends on the order of the rows."""
        return frozenset({Claim.PERMUTATION})

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return what the rule inside was told of the clients, or what it assumes of the buckets by itself."""
        *_, innermost = self.chain()
        if isinstance(innermost, LooselyBoundedAggregator):
            told = innermost.byzantine_fraction is not None or innermost.num_byzantine is not None
            return self.rule.assumed_byzantine(cohort_size if told else math.ceil(cohort_size / self.size))
        return self.rule.assumed_byzantine(cohort_size)

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return the fewest rows that make as many buckets as the rule inside needs."""
        return self.size * (self.rule.smallest_cohort(num_byzantine) - 1) + 1

    def mix(self, gram: Matrix, num_byzantine: int, view: ServerView) -> Mixing:
        """Return the means of the buckets."""
        number = len(gram)
        buckets: NDArray[np.intp] = np.empty(number, dtype=np.intp)
        buckets[stream(self.seed, "buckets", view.round).permutation(number)] = np.arange(number) // self.size
        means = averages(buckets)
        return Mixing(means, buckets, min(num_byzantine, len(means)))
