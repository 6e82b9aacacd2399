"""σ₀²: the largest variance of the honest updates in any direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError
from holdfast.linalg.gram import pivoted_gram
from holdfast.linalg.sources import as_columns
from holdfast.linalg.spectrum import eigen_directions, scatter_matrix
from holdfast.linalg.threads import one_blas_thread


@dataclass(frozen=True, kw_only=True)
class Spread:
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


def honest_spread(rows: Any) -> Spread:
    r"""Return λ_max and the trace of the covariance of the rows, from their n × n Gram matrix.

    The eigenvalues of (1/n) Σ (g − ḡ)(g − ḡ)ᵀ that are not 0 are those of the centred Gram matrix over n, so no d × d
    matrix is formed. The standard errors are those of the infinitesimal jackknife: a row moves λ_max by
    (p² − λ_max)/n to first order, where p is its coordinate from the mean along the top direction (Critchley 1985),
    so the error is the standard deviation of the p² over √n; that of the trace has ‖g − ḡ‖² in place of p². They
    assume a top direction that stands out; λ_max of few rows in many dimensions lies above that of their law.

    >>> honest_spread(np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 1.0], [2.0, 1.0]]))
    Spread(largest=1.0, trace=1.0, num_rows=4, largest_error=0.0, trace_error=0.0)

    Raises:
        InputError: a row holds NaN, Inf or values whose square overflows, as no honest update does.
    """
    columns = as_columns(rows)
    with one_blas_thread():
        gram = pivoted_gram(columns)
        bad = np.flatnonzero(~gram.usable)
        if len(bad):
            names = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
            msg = (
                f"rows must be finite, with squares that do not overflow: {len(bad)} of {columns.num_rows} are not, "
                f"namely {names}; leave them out"
            )
            raise InputError(msg)
        weights = np.ones(len(gram.matrix))
        squares = np.maximum(scatter_matrix(gram.matrix, weights).diagonal(), 0.0)
        found = eigen_directions(gram.matrix, weights, 1)
    along = found.coordinates[:, 0]
    return Spread(
        largest=min(found.top / len(weights), float(squares.mean())),  # rounding may put it above
        trace=float(squares.mean()),
        num_rows=len(weights),
        largest_error=_standard_error(np.square(along - along.mean())),
        trace_error=_standard_error(squares),
    )


def _standard_error(values: NDArray[np.float64]) -> float:
    """Return the standard error of a mean; infinite for a single value, which says nothing of others."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
