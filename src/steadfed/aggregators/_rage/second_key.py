r"""What a second sketch proves of weights that were found with a first one.

Let the weights c be fixed, u the top eigenvector of the true scatter matrix M = AᵀA (docs/theory/filter.md, section 2)
and y = A u, so that ‖y‖² = λ_max(M). y depends on the rows and the weights alone. A sketch S by a key that was drawn
after both shows at least λ_max(M̃) ≥ uᵀ M̃ u = ‖yS‖², and E‖yS‖² = ‖y‖², Var‖yS‖² ≤ 2 ‖y‖⁴ / m. By Cantelli's inequality

    Pr[ λ_max(M̃) ≤ (1 − η) λ_max(M) ] ≤ (2/m) / (2/m + η²) = δ     for η = √((2/m) (1/δ − 1)) ,

free of K and of d. So λ_max(M) ≤ λ_max(M̃) / (1 − η) but for a probability of δ. The filter's own sketch proves nothing
of the kind, as the weights were chosen by it. Nor do its steps: how much of what they took was honest is not known,
so the certificate allows for all of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Vector
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.sketch import SketchedColumns, SketchFailsError
from steadfed._linalg.spectrum import scatter_bound
from steadfed.aggregators._rage.certificate import Certificate
from steadfed.aggregators._rage.filtering import Step

FAILURE = 1e-3
"""δ, the probability with which a certified spread may be too small, over the server's secret."""


def shortfall(num_buckets: int, failure: float) -> float:
    """Return η: the sketch shows at least 1 − η of the largest spread, but for a probability `failure`.

    >>> round(shortfall(32_752, 1e-3), 3)
    0.247
    """
    return math.sqrt(2.0 / num_buckets * (1.0 / failure - 1.0))


def certify_spread(
    certificate: Certificate, columns: SketchedColumns, usable: NDArray[np.bool_], weights: Vector
) -> Certificate:
    """Return what a sketch by a fresh key proves of weights that were found with the key of `columns`.

    Rows without weight do not matter: one whose square is at the limit of its dtype may be usable by chance.

    Raises:
        SketchFailsError: a row with weight is unusable under the fresh key.
    """
    fresh = pivoted_gram(columns.with_fresh_key())
    everywhere = np.zeros(len(usable))
    everywhere[usable] = weights
    if everywhere[~fresh.usable].any():
        raise SketchFailsError
    seen = scatter_bound(fresh.matrix, everywhere[fresh.usable]) / float(weights.sum())
    return replace(
        certificate,
        spread=seen / (1.0 - shortfall(columns.num_buckets, FAILURE)),
        steps=(Step(scatter=0.0, mass=float(certificate.total), removed=certificate.removed),),
        probe=(),
        probe_scatter=0.0,
        threshold_met=False,
        failure_probability=FAILURE,
        cut=None,
    )
