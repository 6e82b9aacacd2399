"""HIDRA: the attack on filters that look at a few coordinates at a time."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.values import real_number
from steadfed._linalg.threads import one_blas_thread
from steadfed.attacks._base import Aim, DirectedAttack, same_for_all
from steadfed.attacks._geometry import Count, finite_rows
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._view import AdversaryView, Knowledge

CHUNKS_AT_A_TIME = 64
"""Chunks whose rows are copied and whose eigenproblems are solved at a time."""


@ATTACKS.register("hidra")
@final
class Hidra(DirectedAttack):
    r"""In every chunk of coordinates as far against the honest mean as a filter of that chunk allows.

    A spectral filter costs O(d³) if it is written with covariance matrices, so that in practice it is run on chunks of
    about a thousand coordinates. In each chunk all colluders move along one direction, that of the honest mean, until
    the largest spread reaches the filter's threshold; every chunk is then off by O(σ₀ √ε) and the whole update by that
    times √(number of chunks), where a filter of the whole row is off by O(σ₀ √ε) (Choudhary, Kolluri, Saxena 2024).

    In a chunk with honest mean μ, covariance Σ and u = μ/‖μ‖ the forged rows are μ − δ u. With ε = f/K the covariance
    of all K rows is (1 − ε) Σ + β u uᵀ, β = ε(1 − ε) δ², and its largest eigenvalue is at most T as long as

        β ≤ 1 / uᵀ (T I − (1 − ε) Σ)⁻¹ u ,

    for T I − (1 − ε) Σ is positive definite, and A ⪰ β u uᵀ is the same as 1 ≥ β uᵀ A⁻¹ u. ∎ T is `threshold` times
    λ_max(Σ), what the filter must let pass if all are honest. (`largest_shift` says how this is computed.)

    An adversary that sees its own rows only estimates μ and Σ from them: the authors' "partial" knowledge, whereas the
    one that sees the honest rows has their "full" knowledge; there is nothing else to choose.

    Deviations: the authors keep the variance along u below T, with δ² = (T − (1 − ε) uᵀΣu)/ε; as u is not an
    eigenvector of Σ, the spread in directions near u then exceeds T, and a factor 1 − ε is missing in the other
    direction. Here the bound is exact. Their mean and covariance include what the colluders would honestly have sent.
    Their chunks start anew in every tensor of the model; here a row is one vector.

    >>> honest = torch.tensor([[1.0, 4.0], [3.0, 4.0], [1.0, 8.0], [3.0, 8.0]])
    >>> view = AdversaryView(num_byzantine=1, cohort_size=5, own_rows=torch.zeros(1, 2), honest_rows=honest)
    >>> Hidra(chunk_size=1)(view).rows  # T − (1 − ε) Σ is 0.2 and 0.8, so δ² is 0.2/0.16 and 0.8/0.16
    tensor([[0.8820, 3.7639]])
    """

    citation: ClassVar[str] = "Choudhary, Kolluri, Saxena 2024, attack along a single direction per chunk"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    chunk_size: Count = 1000
    """How many coordinates the filter looks at together."""
    threshold: Annotated[float, Field(ge=1.0), BeforeValidator(real_number)] = 1.0
    """T in units of λ_max of the honest rows' covariance in the chunk."""

    def aim(self, view: AdversaryView) -> Aim:
        """Point all from the mean, in every chunk against it and as far as the threshold allows."""
        rows = finite_rows(view.seen)
        share = view.num_byzantine / max(view.cohort_size, view.num_byzantine + 1)
        width = min(self.chunk_size, rows.shape[1])
        step = width * CHUNKS_AT_A_TIME
        with one_blas_thread():
            parts = [self._shift(rows[:, i : i + step], width, share) for i in range(0, rows.shape[1], step)]
        return Aim(same_for_all(rows.mean(0), view), same_for_all(torch.cat(parts), view), 1.0)

    def _shift(self, rows: Float[Tensor, "n c"], width: int, share: float) -> Float[Tensor, " c"]:
        """Return −δ u of every chunk; a last chunk that is not full is filled up with zeros, which change nothing."""
        missing = -rows.shape[1] % width
        chunks = torch.nn.functional.pad(rows, (0, missing)).reshape(len(rows), -1, width).transpose(0, 1)
        mean = chunks.mean(1)
        length = torch.linalg.vector_norm(mean, dim=1, keepdim=True, dtype=torch.float64)
        towards = torch.where(length > 0.0, mean / torch.where(length > 0.0, length, 1.0), 0.0).to(rows)
        centred = chunks - mean[:, None]
        gram = torch.bmm(centred, centred.transpose(1, 2)).double().cpu().numpy()
        along = torch.bmm(centred, towards[:, :, None])[:, :, 0].double().cpu().numpy()
        shift = torch.from_numpy(largest_shift(gram, along, share, self.threshold)).to(rows)
        return -(shift[:, None] * towards).flatten()[: rows.shape[1]]


def largest_shift(gram: Matrix, along: Matrix, share: float, threshold: float) -> Vector:
    r"""Return the largest δ of every chunk for which the spread of all rows stays below the threshold.

    With the centred rows X (n x c) of a chunk, Σ = XᵀX/n, the Gram matrix XXᵀ = U diag(ℓ) Uᵀ, y = X u and w = Uᵀy,
    the identity of Woodbury gives, for ρ = n T/(1 − ε) > max ℓ,

        uᵀ (T I − (1 − ε) Σ)⁻¹ u = (1 + yᵀ (ρ I − XXᵀ)⁻¹ y)/T = (1 + Σ_k w_k²/(ρ − ℓ_k))/T ,

    so that δ² = T / (ε(1 − ε)(1 + Σ_k w_k²/(ρ − ℓ_k))), and no c x c matrix is formed.

    Args:
        gram: XXᵀ of every chunk.
        along: y of every chunk.
        share: ε, the share of forged rows, in (0, 1).
        threshold: T/λ_max(Σ), at least 1.
    """
    values, vectors = np.linalg.eigh(gram)
    top = np.maximum(values[:, -1:], 0.0)
    weights = np.einsum("kij,ki->kj", vectors, along) ** 2
    gap = top * threshold / (1.0 - share) - values
    hidden = np.divide(weights, gap, out=np.zeros_like(gap), where=gap > 0.0).sum(axis=1)
    allowed = threshold * top[:, 0] / gram.shape[1]
    return np.asarray(np.sqrt(allowed / (share * (1.0 - share) * (1.0 + hidden))))
