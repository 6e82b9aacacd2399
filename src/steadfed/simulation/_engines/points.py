"""The points that the clients of a chunk draw, and memory that is reused to copy them into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from steadfed._core.arrays import Indices
from steadfed.attacks._poisoning import Trigger
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
    marks: Mapping[int, tuple[Trigger, Tensor]] = field(default_factory=dict)
    """The triggers of the rows that stamp one, and which of the points of every step bear it: H × b."""

    @classmethod
    def of(cls, task: TrainingTask, chunk: Chunk, multiple: int = 1) -> DrawnPoints:
        """Draw the points of all steps, padded to a multiple of some number."""
        positions, data = task.positions(chunk), task.data
        batch_size = positions.shape[2]
        if missing := -batch_size % multiple:
            positions = np.concatenate([positions, np.repeat(positions[:, :, :1], missing, axis=2)], axis=2)
        points = points_at(data, chunk.clients, positions)
        labels, marks = data.labels[points], {}
        for row in np.flatnonzero(chunk.poisoned).tolist():
            poisoned = data.poisoned(int(chunk.clients[row]))
            drawn = torch.from_numpy(positions[row].copy()).to(points.device)
            labels[row] = poisoned.labels[drawn]
            if poisoned.places is not None:
                points[row] = poisoned.places[drawn]
            if poisoned.trigger is not None and poisoned.marked is not None:
                marks[row] = poisoned.trigger, poisoned.marked[drawn]
        return cls(batch_size, positions, points, labels, marks)

    def gather(self, features: Tensor, step: int, scratch: Scratch) -> Tensor:
        """Return the points of a step, with the triggers on them, in memory that the next call overwrites."""
        batch = scratch.rows(features, self.points[:, step])
        for row, (trigger, marked) in self.marks.items():
            trigger.stamp_(batch[row], marked[step])
        return batch

    def of_row(self, row: int) -> DrawnPoints:
        """Return what one client draws."""
        one = slice(row, row + 1)
        marks = {0: self.marks[row]} if row in self.marks else {}
        return replace(
            self, positions=self.positions[one], points=self.points[one], labels=self.labels[one], marks=marks
        )

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
