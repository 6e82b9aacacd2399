"""What the theorems speak of, measured in some rounds: how far honest updates spread, and what that guarantees."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._linalg.columns import DenseColumns
from steadfed._linalg.gram import pivoted_gram
from steadfed.aggregators import Aggregation
from steadfed.aggregators._rage.certificate import LARGEST_SIGMA0, Certificate
from steadfed.errors import InputError


def is_measured(round: int, rounds: int, number: int) -> bool:
    """Tell whether a round is one of `number` that are evenly spread over all `rounds`, the first among them.

    They are ⌈i · rounds / number⌉ for i = 0 … number − 1. Round r is one of them iff some multiple of rounds / number
    lies in (r − 1, r], that is iff r · number leaves less than `number` when divided by `rounds`. All are measured if
    `number` is at least `rounds`, none if it is 0.

    >>> [round for round in range(10) if is_measured(round, 10, 4)]
    [0, 3, 5, 8]
    """
    return round * number % rounds < number


def honest_error_bound(certificate: Certificate | None, spread: float, honest: float) -> float | None:
    """Return what is proved about ‖ĝ − mean of the honest rows‖ from the true spread of those rows; None if nothing is.

    The certificate speaks of n − f honest rows of n; or of W − F in weight, and then `honest` is what the honest rows
    weigh, in its unit. If there are fewer, its assumption is violated. If there are more, its bound holds for all of
    them with σ₀² = `spread`, in every mode (docs/theory/filter.md, sections 1, 5.5, 7). For a sketched Gram matrix it
    may fail with the probability that the certificate states.
    """
    if certificate is None:
        return None
    if honest < (certificate.total - certificate.bad) * (1.0 - 1e-9):
        return None
    sigma0 = math.sqrt(spread)
    bound = certificate.error_bound(sigma0) if sigma0 < LARGEST_SIGMA0 else math.inf
    return bound if math.isfinite(bound) else None


def honest_figures(
    rows: Float[Tensor, "h d"], aggregation: Aggregation | None, weights: Vector | None = None
) -> dict[str, float | None]:
    """Return what a record says of the honest rows in a measured round; nothing if there are none or they diverged.

    With weights it is about the weighted covariance.
    """
    from steadfed.theory.estimate import honest_spread  # a configuration needs none of the theory

    if len(rows) == 0:
        return {}
    try:
        if weights is None:
            found = honest_spread(rows)
            largest, trace = found.largest, found.trace
        else:
            largest, trace = _weighted_spread(rows, weights)
    except InputError:
        return {}
    honest, certificate = float(len(rows)), None if aggregation is None else aggregation.certificate
    if aggregation is not None and aggregation.weighing is not None:
        honest = float(aggregation.weighing.weights[-len(rows) :].sum())  # forged rows come first
    bound = honest_error_bound(certificate, largest, honest)
    return {"honest_spread": largest, "honest_scatter": trace, "honest_error_bound": bound}


def _weighted_spread(rows: Float[Tensor, "h d"], weights: Vector) -> tuple[float, float]:
    """Return λ_max and the trace of the weighted covariance: of its Gram matrix, which is small."""
    gram = pivoted_gram(DenseColumns(rows))
    if not gram.usable.all():
        raise InputError("an honest row holds NaN, Inf or numbers whose squares overflow")
    share = weights / weights.sum()
    centred = gram.matrix - share @ gram.matrix
    centred = centred - (centred @ share)[:, None]
    scaled = np.sqrt(share)[:, None] * centred * np.sqrt(share)
    return max(0.0, float(np.linalg.eigvalsh(scaled)[-1])), float(np.trace(scaled))
