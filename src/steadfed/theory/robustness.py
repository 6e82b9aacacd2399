r"""Robustness coefficients of rules: the squared error of an update over the spread of the honest rows.

A rule is (f, κ)-robust if for all n rows and every set S of n − f of them, with mean x̄_S,

    ‖update − x̄_S‖² ≤ κ · (1/|S|) Σ_{i∈S} ‖x_i − x̄_S‖² = κ · tr Cov_S

(Allouah et al. 2023, "Fixing by Mixing"); with λ_max(Cov_S) in the place of the trace it is the notion of their "On the
Privacy-Robustness-Utility Trilemma" (2023), and of RAGE, whose error is C σ₀ √ε. `robustness_coefficients` measures
both for one update; the largest over many matrices is a lower bound of the rule's coefficient, no more. What is proved:
docs/theory/robustness.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from steadfed._core.ranges import check_whole
from steadfed._linalg.sources import as_columns
from steadfed.aggregators._rage.constants import Mode, filter_constant
from steadfed.errors import InputError
from steadfed.theory.estimate._spread import honest_spread

__all__ = [
    "RobustnessCoefficients",
    "least_coefficient",
    "median_coefficient",
    "rage_coefficient",
    "robustness_coefficients",
]


def __dir__() -> list[str]:
    return __all__


@final
@dataclass(frozen=True, kw_only=True)
class RobustnessCoefficients:
    """The squared distance of an update from the mean of the honest rows, in two units."""

    trace: float
    """Over the trace of their covariance, the mean of ‖x − x̄‖²."""
    spectral: float
    """Over λ_max of their covariance; at least that over the trace."""


def robustness_coefficients(update: Any, honest: Any) -> RobustnessCoefficients:
    r"""Return ‖update − x̄‖² / tr Cov and ‖update − x̄‖² / λ_max(Cov) for the honest rows, one per client.

    If the honest rows are all equal, both are 0 for their common value and infinite for every other update.

    >>> rows = np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 3.0], [2.0, 3.0]])
    >>> robustness_coefficients(np.array([1.0, 3.0]), rows)
    RobustnessCoefficients(trace=0.5, spectral=1.0)

    Raises:
        InputError: the rows are not finite; the update is not finite or has another number of columns.
    """
    columns = as_columns(honest)
    spread = honest_spread(honest)
    mean = columns.combine(np.full(columns.num_rows, 1.0 / columns.num_rows)).double().cpu()
    given = torch.as_tensor(update).detach().cpu()
    if given.shape != mean.shape or not given.is_floating_point():
        raise InputError(
            f"update must be a vector of {len(mean)} floats, as many as the honest updates have, got {given.dtype} of "
            f"shape {tuple(given.shape)}"
        )
    squared = float((given.double() - mean).square().sum())
    if not math.isfinite(squared):
        raise InputError("update must be finite, with a square that does not overflow; it is not")
    return RobustnessCoefficients(trace=_ratio(squared, spread.trace), spectral=_ratio(squared, spread.largest))


def least_coefficient(*, num_rows: int, num_byzantine: int) -> float:
    r"""Return f/(n − 2f): no rule has a smaller coefficient, over the trace or over λ_max; infinite for n ≤ 2f.

    >>> round(least_coefficient(num_rows=40, num_byzantine=10), 3)
    0.5
    """
    rows, bad = _counts(num_rows, num_byzantine)
    return bad / (rows - 2 * bad) if rows > 2 * bad else math.inf


def median_coefficient(*, num_rows: int, num_byzantine: int) -> float:
    r"""Return 4((n − f)/(n − 2f))²: the coordinate-wise and the geometric median have this over the trace.

    Infinite for n ≤ 2f.

    >>> median_coefficient(num_rows=40, num_byzantine=10)
    9.0
    """
    rows, bad = _counts(num_rows, num_byzantine)
    return 4.0 * ((rows - bad) / (rows - 2 * bad)) ** 2 if rows > 2 * bad else math.inf


def rage_coefficient(*, num_rows: int, num_byzantine: int, mode: Mode = "auto", kappa: float | None = None) -> float:
    r"""Return C² f/n, which RAGE has over λ_max and hence over the trace; `known` and `exact` if told the true σ₀.

    >>> round(rage_coefficient(num_rows=40, num_byzantine=10), 1)
    12.5
    """
    rows, bad = _counts(num_rows, num_byzantine)
    constant = filter_constant(mode, bad / rows, kappa=kappa, num_rows=rows)
    return constant * constant * bad / rows if bad else 0.0


def _counts(num_rows: int, num_byzantine: int) -> tuple[int, int]:
    rows = check_whole("num_rows", num_rows)
    return rows, check_whole("num_byzantine", num_byzantine, least=0, most=rows)


def _ratio(squared: float, spread: float) -> float:
    if squared == 0.0:
        return 0.0
    return squared / spread if spread > 0.0 else math.inf
