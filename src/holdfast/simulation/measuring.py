"""What the theorems speak of, measured in some rounds: how far honest rows spread, and what that promises."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from torch import Tensor

from holdfast.aggregators.rage.certificate import LARGEST_SIGMA0, Certificate
from holdfast.errors import NoUsableRowError
from holdfast.linalg.columns import Matrix
from holdfast.linalg.gram import all_or_usable, pivoted_gram
from holdfast.linalg.sources import as_columns
from holdfast.linalg.spectrum import scatter_matrix


def measured(round: int, rounds: int, number: int) -> bool:  # noqa: A002  the one word for it
    """Tell whether a round is one of `number` that are evenly spread over all `rounds`, the first among them.

    They are ⌈i · rounds / number⌉ for i = 0 … number − 1. Round r is one of them iff some multiple of rounds / number
    lies in (r − 1, r], that is iff r · number leaves less than `number` when divided by `rounds`. All are measured if
    `number` is at least `rounds`, none if it is 0.

    >>> [round for round in range(10) if measured(round, 10, 4)]
    [0, 3, 5, 8]
    """
    return round * number % rounds < number


def spread_and_scatter(rows: Float[Tensor, "h d"]) -> tuple[float, float] | None:
    """Return λ_max and the trace of the covariance (1/h) Σ (y − ȳ)(y − ȳ)ᵀ of rows; None if one of them is not finite.

    The covariance has the non-zero eigenvalues of the h × h matrix of centred inner products over h, so the smaller of
    the two is formed, in one pass; then a full eigendecomposition, whose largest value is λ_max itself.

    >>> import torch
    >>> spread_and_scatter(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]]))
    (2.0, 2.5)
    """
    if len(rows) == 0:
        return None
    try:
        scatter = _narrow_scatter(rows) if rows.shape[1] < len(rows) else _wide_scatter(rows)
    except NoUsableRowError:
        return None
    if scatter is None:
        return None
    spread, trace = float(np.linalg.eigvalsh(scatter)[-1]), float(scatter.trace())
    return max(0.0, spread) / len(rows), max(0.0, trace) / len(rows)


def _narrow_scatter(rows: Float[Tensor, "h d"]) -> Matrix | None:
    """Return Σ (y − ȳ)(y − ȳ)ᵀ, d × d, for more rows than columns; None if a row is not usable."""
    if not all_or_usable(as_columns(rows)).all():
        return None
    centred = rows.cpu().numpy().astype(np.float64)  # a copy, whatever the dtype
    centred -= centred.mean(axis=0)
    return np.asarray(centred.T @ centred)


def _wide_scatter(rows: Float[Tensor, "h d"]) -> Matrix | None:
    """Return the inner products of the y − ȳ, h × h; None if a row is not usable."""
    gram = pivoted_gram(as_columns(rows))
    return scatter_matrix(gram.matrix, np.ones(len(rows))) if gram.usable.all() else None


def honest_error_bound(certificate: Certificate | None, spread: float, num_honest: int) -> float | None:
    """Return what is proved about ‖ĝ − mean of the honest rows‖ from the true spread of those rows; None if nothing is.

    The certificate speaks of n − f promised rows of n. If there are fewer honest ones, the promise is broken. If there
    are h ≥ n − f, its bound holds for all h with σ₀² = `spread` in the modes "auto" and "known". In mode "exact" it
    holds for any n − f of them with σ₀² = `spread` · h / (n − f), and so for their mean over all such choices, which is
    the mean of the h (docs/theory/filter.md, section 1). For a sketched Gram matrix it holds up to the sketch's error.
    """
    if certificate is None:
        return None
    promised = certificate.num_rows - certificate.num_byzantine
    if num_honest < promised:
        return None
    variance = spread * num_honest / promised if certificate.mode == "exact" else spread
    sigma0 = math.sqrt(variance)
    bound = certificate.error_bound(sigma0) if sigma0 < LARGEST_SIGMA0 else math.inf
    return bound if math.isfinite(bound) else None


def honest_figures(rows: Float[Tensor, "h d"], certificate: Certificate | None) -> dict[str, float | None]:
    """Return what a record says of the honest rows in a measured round; nothing if there are none or they diverged."""
    found = spread_and_scatter(rows)
    if found is None:
        return {}
    spread, scatter = found
    bound = honest_error_bound(certificate, spread, len(rows))
    return {"honest_spread": spread, "honest_scatter": scatter, "honest_error_bound": bound}
