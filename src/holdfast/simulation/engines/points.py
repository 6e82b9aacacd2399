"""The points that the clients of a chunk draw, and memory that is reused to copy them into."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from holdfast.simulation.local import Chunk, ClientData, Indices, Task


@dataclass(frozen=True, eq=False)
class Drawn:
    """The points of every step of a chunk; a full batch is there once."""

    positions: Indices
    """Which of its own points a client draws: clients × H × b."""
    points: Tensor
    """Where these lie in the data set, likewise."""
    labels: Tensor
    """What the clients believe of them, likewise and × the shape of a label."""

    @classmethod
    def of(cls, task: Task, chunk: Chunk) -> Drawn:
        """Draw the points of all steps."""
        positions, data = task.positions(chunk), task.data
        points = points_at(data, chunk.clients, positions)
        labels = data.labels[points]
        for row in np.flatnonzero(chunk.poisoned):
            poisoned = data.poisoned_labels(int(chunk.clients[row]))
            labels[row] = poisoned[torch.from_numpy(positions[row].copy()).to(poisoned.device)]
        return cls(positions, points, labels)

    def number(self, step: int) -> int:
        """Return under which number a step's points are found."""
        return min(step, self.points.shape[1] - 1)


class Scratch:
    """Memory that is kept from call to call: new memory costs more in page faults than a copy into old memory."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None

    def rows(self, source: Tensor, places: Tensor) -> Tensor:
        """Return source[places] in this memory, which the next call overwrites."""
        shape = torch.Size((*places.shape, *source.shape[1:]))
        out = self.empty(shape, source)
        torch.index_select(source, 0, places.reshape(-1), out=out.view(-1, *source.shape[1:]))
        return out

    def empty(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return a tensor of any content in this memory."""
        size = torch.Size(shape).numel()
        if self._memory is None or len(self._memory) < size or self._memory.dtype != like.dtype:
            self._memory = torch.empty(size, dtype=like.dtype, device=like.device)
        return self._memory[:size].view(shape)


def points_at(data: ClientData, clients: Indices, positions: Indices) -> Tensor:
    """Return where the points at the positions of each client's own lie in the data set: clients × …."""
    first = data.shares.offsets[clients].reshape(-1, *[1] * (positions.ndim - 1))
    return data.order[torch.from_numpy(first + positions).to(data.order.device)]
