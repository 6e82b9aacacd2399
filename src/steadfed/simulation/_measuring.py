"""What the theorems speak of, measured in some rounds: how far honest updates spread, and what that guarantees."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

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


def honest_error_bound(certificate: Certificate | None, spread: float, num_honest: int) -> float | None:
    """Return what is proved about ‖ĝ − mean of the honest rows‖ from the true spread of those rows; None if nothing is.

    The certificate speaks of n − f honest rows of n. If there are fewer, its assumption is violated. If there are more,
    its bound holds for all of them with σ₀² = `spread`, in every mode (docs/theory/filter.md, sections 1 and 7). For a
    sketched Gram matrix it may fail with the probability that the certificate states.
    """
    if certificate is None:
        return None
    assumed_honest = certificate.num_rows - certificate.num_byzantine
    if num_honest < assumed_honest:
        return None
    sigma0 = math.sqrt(spread)
    bound = certificate.error_bound(sigma0) if sigma0 < LARGEST_SIGMA0 else math.inf
    return bound if math.isfinite(bound) else None


def honest_figures(rows: Float[Tensor, "h d"], certificate: Certificate | None) -> dict[str, float | None]:
    """Return what a record says of the honest rows in a measured round; nothing if there are none or they diverged."""
    from steadfed.theory.estimate import honest_spread  # a configuration needs none of the theory

    if len(rows) == 0:
        return {}
    try:
        spread = honest_spread(rows)
    except InputError:
        return {}
    bound = honest_error_bound(certificate, spread.largest, spread.num_rows)
    return {"honest_spread": spread.largest, "honest_scatter": spread.trace, "honest_error_bound": bound}
