"""What is not trained: running means, running variances and counters go the way of the median."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

VARIANCES = ("*running_var", "*_var", "*variance*")
"""Names of buffers that hold variances."""


def variance_columns(sizes: Iterable[tuple[str, int]]) -> Bool[Tensor, " m"]:
    """Return which columns of a row of buffers hold variances, told by the names of the buffers.

    >>> variance_columns([("running_mean", 1), ("running_var", 2)])
    tensor([False,  True,  True])
    """
    held = [torch.full((size,), any(fnmatchcase(name, pattern) for pattern in VARIANCES)) for name, size in sizes]
    return torch.cat([*held, torch.zeros(0, dtype=torch.bool)])


def median_buffers(
    rows: Float[Tensor, "n m"], before: Float[Tensor, " m"], variances: Bool[Tensor, " m"]
) -> Float[Tensor, " m"]:
    """Return the coordinate-wise median of the clients' buffers; what was before if no row is finite.

    It lies within the honest values as long as the honest are a majority, so means stay within theirs and variances
    positive. Whoever is a majority, an entry of a variance does not become negative.

    >>> rows = torch.tensor([[3.0, 1.0], [4.0, -1.0], [5.0, -1.0], [900.0, -1.0]])
    >>> median_buffers(rows, torch.tensor([0.0, 2.0]), torch.tensor([False, True]))
    tensor([4.5000, 2.0000])
    """
    sound = rows[torch.isfinite(rows).all(dim=1)]
    if not len(before) or not len(sound):
        return before
    order = sound.sort(dim=0).values
    lower, upper = order[(len(order) - 1) // 2], order[len(order) // 2]
    # Halved before they are added: the sum of two large finite numbers may not be finite.
    middle = torch.where(lower == upper, lower, lower / 2 + upper / 2)
    return torch.where(variances.to(rows.device) & (middle < 0.0) & (before >= 0.0), before, middle)


def median_counters(
    rows: Sequence[Mapping[str, NDArray[Any]]], before: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return the median of every counter, the lower one of an even number; what was before if there is no row.

    >>> median_counters([{"count": np.array([n])} for n in (3, 4, 5, 900)], {"count": np.array([0])})
    {'count': array([4])}
    """
    if not rows:
        return dict(before)
    middle = (len(rows) - 1) // 2
    return {name: np.asarray(np.sort([row[name] for row in rows], axis=0)[middle]) for name in before}
