"""The points that the clients of a chunk draw, and memory that is reused to copy them into."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from steadfed._core.arrays import Indices
from steadfed.simulation._local import Chunk, ClientData, TrainingTask


@dataclass(frozen=True, eq=False)
class DrawnPoints:
    """The points of every step of a chunk; a full batch is there once."""

    batch_size: int
    """b, how many points a step has; what stands behind them is padding, repetitions of the first."""
    positions: Indices
    """Which of its own points a client draws: clients × H × b."""
    points: Tensor
    """Where these lie in the data set, likewise."""
    labels: Tensor
    """What the clients believe of them, likewise and × the shape of a label."""

    @classmethod
    def of(cls, task: TrainingTask, chunk: Chunk, multiple: int = 1) -> DrawnPoints:
        """Draw the points of all steps, padded to a multiple of some number."""
        positions, data = task.positions(chunk), task.data
        batch_size = positions.shape[2]
        if missing := -batch_size % multiple:
            positions = np.concatenate([positions, np.repeat(positions[:, :, :1], missing, axis=2)], axis=2)
        points = points_at(data, chunk.clients, positions)
        labels = data.labels[points]
        for row in np.flatnonzero(chunk.poisoned):
            poisoned = data.poisoned_labels(int(chunk.clients[row]))
            labels[row] = poisoned[torch.from_numpy(positions[row].copy()).to(poisoned.device)]
        return cls(batch_size, positions, points, labels)

    def labels_of(self, step: int) -> Tensor:
        """Return the labels of a step: clients × b."""
        return self.labels[:, min(step, self.labels.shape[1] - 1)]


ALIGNED = 16
"""A product of matrices may round differently if they begin elsewhere in a line of the cache, so engines let those of
every client begin at a multiple of so many numbers."""


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

    def copied(self, rows: Tensor) -> Tensor:
        """Return a copy of the rows in this memory, each of which begins at a multiple of `ALIGNED`."""
        return self.empty_rows(rows).copy_(rows)

    def empty_rows(self, like: Tensor) -> Tensor:
        """Return rows of any content in this memory, each of which begins at a multiple of `ALIGNED`."""
        number, width = like.shape
        return self.empty((number, -(-width // ALIGNED) * ALIGNED), like)[:, :width]

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
