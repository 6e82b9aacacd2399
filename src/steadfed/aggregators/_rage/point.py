r"""The saddle point that mode "exact" ended with, in a form that a reader can use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Matrix
from steadfed.aggregators._rage.saddle import Saddle


@dataclass(frozen=True, kw_only=True, eq=False)
class SaddlePoint:
    r"""The last saddle point that Algorithm 2 solved (line 3), with bounds that prove how well.

    Y = Σ_k eigenvalues_k v_k v_kᵀ with the unit vectors v_k = Σ_i coefficients_ik row_i, and column j of W tells how
    the row of `clients[j]` is best imitated by a mean of the active rows. If the algorithm ends with a turn that stops,
    `upper`, that of W, is at most the threshold, so line 5 stops whatever Y is, and the two bounds may be far apart. If
    the assumption is violated, it ends with a turn that was to filter and may not: its bounds are close.
    """

    lower: float
    """A lower bound of the saddle value: min over W of Φ(W, Y)."""
    upper: float
    """An upper bound: the largest Φ(W, Y) for some W over all Y."""
    threshold: float
    """4 n σ₀², with which line 5 compares the value."""
    num_solves: int
    """Turns of the algorithm, each of which solves one saddle point."""
    num_iterations: int
    """Iterations of ADMM in all of them."""
    widest_gap: float
    """The largest relative gap of the two bounds in a turn that filtered, or was to; 0 if none was."""
    clients: Int[Tensor, " a"]
    """The rows of the last 𝒜, in order; this and what follows is empty if read from evidence."""
    eigenvalues: Float[Tensor, " q"]
    """The eigenvalues of Y that are not zero; their sum is at most 1."""
    coefficients: Float[Tensor, "K q"]
    """The eigenvectors of Y as combinations of the rows."""
    w: Float[Tensor, "a a"]
    """W; every column is not negative, at most the cap, and sums to 1."""

    @property
    def gap(self) -> float:
        """The relative gap of the two bounds."""
        return relative_gap(self.lower, self.upper)

    def evidence(self) -> dict[str, float]:
        """Return the numbers, without the matrices, ready for JSON."""
        return {
            "lower": self.lower,
            "upper": self.upper,
            "gap": self.gap,
            "threshold": self.threshold,
            "num_solves": self.num_solves,
            "num_iterations": self.num_iterations,
            "widest_gap": self.widest_gap,
        }

    @classmethod
    def from_evidence(cls, evidence: Mapping[str, Any]) -> SaddlePoint:
        """Return the saddle point that evidence is about, without its matrices."""
        return cls(
            lower=float(evidence["lower"]),
            upper=float(evidence["upper"]),
            threshold=float(evidence["threshold"]),
            num_solves=int(evidence["num_solves"]),
            num_iterations=int(evidence["num_iterations"]),
            widest_gap=float(evidence["widest_gap"]),
            clients=torch.empty(0, dtype=torch.int64),
            eigenvalues=torch.empty(0, dtype=torch.float64),
            coefficients=torch.empty(0, 0, dtype=torch.float64),
            w=torch.empty(0, 0, dtype=torch.float64),
        )


def relative_gap(lower: float, upper: float) -> float:
    """Return (upper − lower)/upper, and 0 where rounding has put the lower bound above."""
    return max(0.0, (upper - lower) / upper) if upper > 0.0 else 0.0


def last_point(
    saddles: list[Saddle], active: NDArray[np.bool_], usable: NDArray[np.bool_], threshold: float
) -> SaddlePoint | None:
    """Return the last of the saddle points as one of all K rows; None if they were decided, not solved."""
    last = saddles[-1]
    if last.w_matrix is None or last.coefficients is None or last.eigenvalues is None:
        return None
    clients = np.flatnonzero(usable)[active]
    coefficients: Matrix = np.zeros((len(usable), last.coefficients.shape[1]))
    coefficients[clients] = last.coefficients
    filtering = saddles[:-1] if last.tau is None else saddles
    gaps = [relative_gap(each.lower, each.upper) for each in filtering]
    return SaddlePoint(
        lower=last.lower,
        upper=last.upper,
        threshold=threshold,
        num_solves=len(saddles),
        num_iterations=sum(each.num_iterations for each in saddles),
        widest_gap=max(gaps, default=0.0),
        clients=torch.from_numpy(clients),
        eigenvalues=torch.from_numpy(last.eigenvalues),
        coefficients=torch.from_numpy(coefficients),
        w=torch.from_numpy(last.w_matrix),
    )
