"""Constants that are known exactly: of quadratics, logistic and softmax regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from steadfed._linalg.threads import one_blas_thread
from steadfed.data._base import Dataset
from steadfed.models._base import Architecture
from steadfed.models._convex import LogisticProblem, ProblemConstants, logistic_constants, quadratic_constants
from steadfed.models._linear import LogisticRegression, SoftmaxRegression
from steadfed.models._quadratic import Quadratic
from steadfed.models._softmax import SoftmaxProblem, softmax_constants
from steadfed.partitions._base import Shares

Constants = Callable[[Any, Dataset, Shares], ProblemConstants]

_CONSTANTS: Mapping[type[Architecture], Constants] = MappingProxyType(
    {
        LogisticRegression: logistic_constants,
        Quadratic: quadratic_constants,
        SoftmaxRegression: softmax_constants,
    }
)
_PROBLEMS: Mapping[type[Architecture], type[LogisticProblem | SoftmaxProblem]] = MappingProxyType(
    {LogisticRegression: LogisticProblem, SoftmaxRegression: SoftmaxProblem}
)


def exact_constants(architecture: Architecture, dataset: Dataset, shares: Shares) -> ProblemConstants | None:
    """Return L, μ, bounds of σ² and κ² over all models, and the minimiser; None if they are not known.

    They are known for the quadratic problem, and for logistic and softmax regression with l2 > 0: without it a
    minimiser need not exist, but L is known all the same, see `exact_smoothness`.

    >>> import numpy as np, torch
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> data = Dataset(name="x", features=x, labels=x, test_features=x, test_labels=x)
    >>> found = exact_constants(Quadratic(smoothness=2.0), data, Shares(np.arange(2), np.array([0, 1, 2])))
    >>> found.smoothness, found.dissimilarity, found.minimiser  # κ² = (2 · 1)²
    (2.0, 4.0, array([2.]))
    """
    constants = _CONSTANTS.get(type(architecture))
    if constants is None or (type(architecture) in _PROBLEMS and architecture.l2 == 0.0):
        return None
    return constants(architecture, dataset, shares)


def exact_smoothness(architecture: Architecture, dataset: Dataset, shares: Shares) -> tuple[float, float] | None:
    """Return L of F and the largest L of an F_r, valid at every model and for any l2; None if they are not known."""
    if isinstance(architecture, Quadratic):
        found = quadratic_constants(architecture, dataset, shares)
        return found.smoothness, found.client_smoothness
    problem: Any = _PROBLEMS.get(type(architecture))
    if problem is None:
        return None
    with one_blas_thread():
        smoothness: tuple[float, float] = problem.of(architecture, dataset, shares).smoothness()
        return smoothness
