"""The coordinates of a round: parts of vectors, and vectors with a part replaced."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from steadfed._core.coordinates import coordinates_of
from steadfed.server._record import RoundCoordinates

Places = Int64[Tensor, " k"] | None
"""Which coordinates a round is about, increasing; None for all."""


def places_of(chosen: RoundCoordinates | None, dim: int, device: str | torch.device = "cpu") -> Places:
    """Return the places of the coordinates that a round is about."""
    if chosen is None:
        return None
    return torch.from_numpy(coordinates_of(chosen.seed, chosen.number, dim)).to(device)


def part_of(vector: Float[Tensor, " d"], places: Places) -> Float[Tensor, " k"]:
    """Return the numbers of a vector at the places; the vector itself if they are all.

    >>> part_of(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([0, 2]))
    tensor([5., 7.])
    """
    return vector if places is None else vector[places]


def with_part(vector: Float[Tensor, " d"], part: Float[Tensor, " k"], places: Places) -> Float[Tensor, " d"]:
    """Return a vector with other numbers at the places; the part itself if they are all. The vector is not changed.

    >>> with_part(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([1.0, 2.0]), torch.tensor([0, 2]))
    tensor([1., 6., 2.])
    """
    return part if places is None else vector.index_copy(0, places, part)
