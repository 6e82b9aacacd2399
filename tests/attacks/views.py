"""Views to attack from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.attacks._view import EVERYTHING, AdversaryView, Knowledge

ONLY_OWN = frozenset({Knowledge.OWN})


def drawn(name: str, number: int, dim: int, *, mean: float = 0.5) -> Tensor:
    """Return float64 rows about a mean of the same value in every coordinate."""
    return torch.from_numpy(stream(0, name, number, dim).standard_normal((number, dim)) + mean)


def view_of(
    honest: Tensor | Sequence[Sequence[float]],
    num_byzantine: int = 2,
    *,
    granted: frozenset[Knowledge] = EVERYTHING,
    own: Tensor | None = None,
    **others: object,
) -> AdversaryView:
    """Return the view of an adversary among these honest clients; its own rows are drawn like theirs."""
    rows = honest if isinstance(honest, Tensor) else torch.tensor(honest, dtype=torch.float64)
    if own is None:
        noise = stream(0, "own", num_byzantine).standard_normal((num_byzantine, rows.shape[1]))
        own = torch.from_numpy(np.nan_to_num(rows.double().numpy()).mean(0) + noise).to(rows)
    return AdversaryView(
        num_byzantine=num_byzantine,
        cohort_size=num_byzantine + len(rows),
        own_rows=own,
        honest_rows=rows,
        granted=granted,
        **others,  # type: ignore[arg-type]
    )
