"""σ₀²: the largest variance of the honest updates in any direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import all_or_usable, pivoted_gram
from steadfed._linalg.sources import as_columns
from steadfed._linalg.spectrum import eigen_directions, scatter_matrix
from steadfed._linalg.threads import one_blas_thread
from steadfed.errors import InputError


@dataclass(frozen=True, kw_only=True)
class HonestSpread:
    """The covariance (1/n) Σ (g − ḡ)(g − ḡ)ᵀ of some rows, in two numbers, which are exact for these rows."""

    largest: float
    """σ₀² = λ_max."""
    trace: float
    """The sum of all variances, the mean of ‖g − ḡ‖²."""
    num_rows: int
    """n."""
    largest_error: float
    """The standard error of λ_max, if the rows are looked at as a sample of all that might have been sent."""
    trace_error: float
    """The standard error of the trace, likewise."""


def honest_spread(rows: Any) -> HonestSpread:
    r"""Return λ_max and the trace of the covariance of the rows.

    The eigenvalues of (1/n) Σ (g − ḡ)(g − ḡ)ᵀ that are not 0 are those of the centred n × n Gram matrix over n, so the
    smaller of the two matrices is formed. The standard errors are those of the infinitesimal jackknife: a row moves
    λ_max by (p² − λ_max)/n to first order, where p is its coordinate from the mean along the top direction (Critchley
    1985), so the error is the standard deviation of the p² over √n; that of the trace has ‖g − ḡ‖² in place of p². They
    assume a top direction that stands out; λ_max of few rows in many dimensions lies above that of their law.

    >>> found = honest_spread(np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 1.0], [2.0, 1.0]]))
    >>> round(found.largest, 9), round(found.trace, 9), found.num_rows, round(found.largest_error, 9)
    (1.0, 1.0, 4, 0.0)

    Raises:
        InputError: a row holds NaN, Inf or values whose square overflows, as no honest update does.
    """
    columns = as_columns(rows)
    with one_blas_thread():
        top, along, squares = (_narrow if columns.num_columns < columns.num_rows else _wide)(columns)
    trace = float(squares.mean())
    return HonestSpread(
        largest=min(max(0.0, top) / len(squares), trace),  # rounding may put it outside
        trace=trace,
        num_rows=len(squares),
        largest_error=_standard_error(np.square(along)),
        trace_error=_standard_error(squares),
    )


def _narrow(columns: Columns) -> tuple[float, Vector, Vector]:
    """Return the largest scatter, every row's coordinate along it, and its ‖g − ḡ‖², from the d × d scatter matrix."""
    _check(all_or_usable(columns))
    centred = (
        columns.take(np.arange(columns.num_columns)).cpu().numpy().astype(np.float64)
    )  # a copy, whatever the dtype
    centred -= centred.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    return float(values[-1]), centred @ vectors[:, -1], np.square(centred).sum(axis=1)


def _wide(columns: Columns) -> tuple[float, Vector, Vector]:
    """Return the same from the n × n Gram matrix."""
    gram = pivoted_gram(columns)
    _check(gram.usable)
    weights = np.ones(len(gram.matrix))
    found = eigen_directions(gram.matrix, weights, 1)
    along = found.coordinates[:, 0]
    squares = np.maximum(scatter_matrix(gram.matrix, weights).diagonal(), 0.0)
    return found.top, along - along.mean(), squares


def _check(usable: NDArray[np.bool_]) -> None:
    """Refuse rows that no honest client sends."""
    bad = np.flatnonzero(~usable)
    if len(bad):
        names = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        raise InputError(
            f"updates must be finite, with squares that do not overflow: {len(bad)} of {len(usable)} are not, "
            f"namely {names}; leave them out"
        )


def _standard_error(values: NDArray[np.float64]) -> float:
    """Return the standard error of a mean; infinite for a single value, which says nothing of others."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
