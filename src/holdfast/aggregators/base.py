"""What every aggregator is: a pure map from the K x d matrix of updates to an `Aggregation`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from holdfast.aggregators.evidence import Aggregation, Stop
from holdfast.errors import CohortTooSmallError
from holdfast.linalg.columns import Columns, Vector
from holdfast.linalg.sources import as_columns
from holdfast.linalg.threads import one_blas_thread
from holdfast.values import ValueObject

Updates = Tensor | NDArray[np.floating] | Sequence[Tensor] | Sequence[NDArray[np.floating]] | Columns
"""What may be aggregated: one row per client. Also a numpy memmap, and `ShardedColumns` over several processes."""


class Aggregator(ValueObject, ABC):
    """A robust rule. Final subclasses are configured by their fields and called with the updates.

    Pure and deterministic: the same matrix gives the same result, the input is neither changed nor aliased, and
    nothing is remembered. A bad row (NaN, Inf, or so large that its square overflows) is removed and reported; it
    never raises and never reaches the update.
    """

    @torch.no_grad()
    def __call__(self, updates: Updates) -> Aggregation:
        """Aggregate the rows of `updates`, float32 or float64, into one update with the evidence for it.

        Raises:
            ShapeError: not a K x d matrix with K >= 1 and d >= 1, or rows of different length.
            DtypeError: neither float32 nor float64.
            CohortTooSmallError: fewer rows than the rule needs.
            NoUsableRowError: no row is finite with a finite squared norm.
        """
        columns = as_columns(updates)
        self.check_cohort(columns.num_rows)
        with one_blas_thread():
            return self.aggregate(columns)

    @abstractmethod
    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return how many of `cohort_size` rows the rule assumes to be Byzantine."""

    @abstractmethod
    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return how many rows the rule needs to stand `num_byzantine` Byzantine ones."""

    @abstractmethod
    def aggregate(self, columns: Columns) -> Aggregation:
        """Aggregate a source of columns; called by `__call__` after the checks."""

    def check_cohort(self, cohort_size: int) -> None:
        """Raise `CohortTooSmallError` if the rule needs more than `cohort_size` rows."""
        assumed = self.assumed_byzantine(cohort_size)
        needed = self.smallest_cohort(assumed)
        if cohort_size < needed:
            msg = (
                f"{self!r} assumes {assumed} Byzantine of {cohort_size} rows, and needs at least {needed} rows for "
                f"that; aggregate more rows or assume fewer Byzantine clients"
            )
            raise CohortTooSmallError(msg)


class BoundedAggregator(Aggregator, ABC):
    """A rule that is told the assumed bound, as a fraction of the rows received or as a number: exactly one of them."""

    byzantine_fraction: Annotated[float, Field(ge=0.0, lt=0.5)] | None = None
    """ε, the assumed share of Byzantine rows; f = ⌈ε K⌉."""
    num_byzantine: Annotated[int, Field(ge=0, strict=True)] | None = None
    """f, the assumed number of Byzantine rows."""

    @model_validator(mode="after")
    def _exactly_one_bound(self) -> BoundedAggregator:
        if (self.byzantine_fraction is None) == (self.num_byzantine is None):
            got = "neither" if self.num_byzantine is None else "both"
            msg = f"give exactly one of byzantine_fraction (0 <= fraction < 0.5) and num_byzantine (>= 0), got {got}"
            raise ValueError(msg)
        return self

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return f = ⌈ε K⌉, with ε read as the decimal it was written as: ⌈0.1 · 30⌉ is 3, not 4."""
        if self.num_byzantine is not None:
            return self.num_byzantine
        return math.ceil(Fraction(repr(self.byzantine_fraction)) * cohort_size)


def usable_bound(num_byzantine: int, usable: NDArray[np.bool_]) -> int:
    """Return how many Byzantine rows may be left among the usable ones: every unusable row counts as one of them."""
    return max(0, num_byzantine - int((~usable).sum()))


def scattered(values: Vector, usable: NDArray[np.bool_], elsewhere: float) -> Tensor:
    """Return values of the usable rows in their places among all K rows."""
    everywhere = np.full(len(usable), elsewhere)
    everywhere[usable] = values
    return torch.from_numpy(everywhere)


def stop_or_too_many(stop: Stop, num_byzantine: int, usable: NDArray[np.bool_]) -> Stop:
    """Return `stop`, unless more rows were unusable than are assumed Byzantine."""
    return Stop.TOO_MANY_UNUSABLE if int((~usable).sum()) > num_byzantine else stop
