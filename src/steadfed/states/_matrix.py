"""Replies become rows of the K × d matrix, in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.server._coordinates import Places, part_of
from steadfed.server._record import Client
from steadfed.server._round import Received
from steadfed.states._arrays import NDArray
from steadfed.states._layout import ModelLayout


@final
class UpdateMatrix:
    """The matrix of a round while replies come: one row for everybody who was asked, whose order is that of those.

    It is allocated when the first reply is there. The row of a reply that is no model is NaN throughout.

    >>> matrix = UpdateMatrix(torch.tensor([5.0, 5.0]), number=3)
    >>> _ = matrix.row(2).copy_(torch.tensor([4.0, 7.0]))
    >>> matrix.admit(2, {})
    >>> matrix.spoil(0)
    >>> received = matrix.received(ModelLayout(()), ["a", "b", "c"])
    >>> received.clients, received.updates
    (('a', 'c'), tensor([[nan, nan],
            [ 1., -2.]]))

    Args:
        start: x, what the clients of the round start from.
        number: how many clients were asked.
        lr: η, what updates are divided by.
        places: which coordinates of the model the clients were asked for; None for all.
    """

    def __init__(self, start: Float[Tensor, " d"], *, number: int, lr: float = 1.0, places: Places = None) -> None:
        self._start, self._places = part_of(start, places), places
        self._number, self._lr = number, lr
        self._matrix = torch.empty(0)
        self._buffers: dict[int, Mapping[str, NDArray]] = {}
        self._malformed: set[int] = set()

    def row(self, place: int) -> Float[Tensor, " d"]:
        """Return a client's row, to be written: the model that it sent."""
        if not self._matrix.numel():
            with torch.inference_mode(mode=False):  # or it could not be written to outside of that mode
                self._matrix = torch.empty((self._number, len(self._start)), dtype=self._start.dtype, device="cpu")
        return self._matrix[place]

    def admit(self, place: int, buffers: Mapping[str, NDArray]) -> None:
        """Make the model in a row an update, (x − x_r)/η; these are its buffers."""
        row = self._matrix[place]
        torch.sub(self._start, row, out=row).div_(self._lr)
        self._buffers[place] = buffers

    def spoil(self, place: int) -> None:
        """Note that a client's reply is no model."""
        self.row(place).fill_(torch.nan)
        self._malformed.add(place)

    @property
    def places(self) -> list[int]:
        """Whose rows are there, increasing."""
        return sorted({*self._buffers, *self._malformed})

    def received(self, layout: ModelLayout, asked: Sequence[Client]) -> Received:
        """Return the rows without gaps, moved up in place, with the buffers of those that are models.

        Args:
            layout: of a reply.
            asked: who was.
        """
        places = self.places
        for target, place in enumerate(places):
            if target != place:
                self._matrix[target] = self._matrix[place]
        return Received(
            self._matrix[: len(places)],
            tuple(asked[place] for place in places),
            *layout.stack_buffers([self._buffers[place] for place in sorted(self._buffers)]),
            places=self._places,
        )
