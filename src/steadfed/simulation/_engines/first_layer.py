"""The first layer of a dense stack, which sees the clients' points: on gathered batches, or in sample space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Indices
from steadfed.simulation._engines.dense import Bound, Descent
from steadfed.simulation._engines.points import ALIGNED, DrawnPoints, Scratch, points_at
from steadfed.simulation._local import Chunk, ClientData, TrainingTask

GRAM_BUDGET = 2**28
"""Most bytes that the Gram matrices of all clients may take; they are formed once, in about a second."""
_COPY = 12
"""Copying a number into a batch takes as long as so many multiplications (measured: 0.44 against 0.037 ns)."""
_MARGIN = 1.3
"""Sample space must be so much less work: its products are of less convenient shapes."""


class FirstLayer(ABC):
    """The first layer of the clients of a chunk during a round."""

    @abstractmethod
    def outputs(self, step: int) -> Tensor:
        """Return the outputs on the points of a step: c × outputs × b, a tensor that may be written to."""

    @abstractmethod
    def descend(self, step: int, delta: Tensor, by: Descent) -> None:
        """Take in the gradient by these outputs, a sum over points."""

    @abstractmethod
    def finish(self) -> None:
        """Leave the weights after the last step in the rows."""


@final
class Gathered(FirstLayer):
    """Copy the points of a step together and multiply."""

    def __init__(self, layer: Bound, features: Tensor, drawn: DrawnPoints, scratch: Scratch) -> None:
        self._layer, self._features, self._drawn, self._scratch = layer, features, drawn, scratch
        self._batch = torch.empty(0)

    def outputs(self, step: int) -> Tensor:
        """Return W xᵀ + bias; a full batch is gathered once."""
        if step < self._drawn.points.shape[1]:
            self._batch = self._drawn.gather(self._features, step, self._scratch)
        return self._layer.outputs(self._batch.transpose(1, 2))

    def descend(self, step: int, delta: Tensor, by: Descent) -> None:
        """Take in δ x."""
        self._layer.descend(delta, self._batch, by)

    def finish(self) -> None:
        """Do nothing: the rows hold the weights after every step."""


@dataclass(frozen=True, eq=False)
class Grams:
    """X_r X_rᵀ + 1 of the clients for which sample space pays; the +1 is the bias, if there is one.

    A matrix is padded to a size that depends on the client alone, with rows of its first point, which no step reads.
    """

    padded: Indices
    """The size of each client's matrix; 0 for clients without one."""
    slots: Indices
    """Where each client's matrix stands among those of its size."""
    stacks: dict[int, Tensor]
    """The matrices by size, one below the other: (clients · size) × size."""

    @classmethod
    def of(cls, task: TrainingTask, features: Tensor, outputs: int, *, biased: bool) -> Grams:
        """Form them all, or none if they would not fit the budget."""
        sizes = task.data.shares.sizes
        padded = -(-sizes // ALIGNED) * ALIGNED
        width = features.shape[1]
        padded[~pays(sizes, task.local.batch_sizes(sizes), task.local.steps, width, outputs)] = 0
        if task.data.adversarial is not None:
            padded[task.data.adversarial.apart] = 0
        if not task.local.is_plain or int((padded**2).sum()) * features.itemsize > GRAM_BUDGET:
            padded[:] = 0
        slots, stacks = np.zeros_like(padded), {}
        for size in np.unique(padded[padded > 0]).tolist():
            clients = np.flatnonzero(padded == size)
            slots[clients] = np.arange(len(clients))
            stack = features.new_empty(len(clients), size, size)
            for gram, client in zip(stack, clients, strict=True):
                points = features[all_points(task.data, np.array([client]), size)[0]]
                torch.mm(points, points.T, out=gram)
            stacks[size] = stack.add_(1.0 if biased else 0.0).view(-1, size)
        return cls(padded, slots, stacks)

    def size_of(self, clients: Indices) -> int:
        """Return the size of the matrices of clients that may share a chunk."""
        return int(self.padded[clients[0]])


@dataclass(frozen=True, eq=False)
class Space:
    """What all rounds in sample space share."""

    task: TrainingTask
    features: Tensor
    grams: Grams
    points: Scratch
    rows: Scratch


@final
class SampleSpace(FirstLayer):
    r"""Keep the outputs Z on all n_r points of a client instead of its weights W, bias b.

    *Exactly the same steps.* Let X hold the client's points as rows, 1 be the vector of ones, and let a step on the
    points B with output gradients δ (points × outputs, zero outside B) and ρ = 1 − ηλ be

        W ← ρ W − (η/|B|) δᵀ X,    b ← ρ b − (η/|B|) δᵀ 1.

    By induction over the steps W = ρᵗ W₀ − (η/|B|) Cᵀ X and b = ρᵗ b₀ − (η/|B|) Cᵀ 1, where C ← ρ C + δ starts at 0.
    The outputs Z = X Wᵀ + 1 bᵀ therefore change by

        Z ← ρ Z − (η/|B|) (X Xᵀ + 1 1ᵀ) δ = ρ Z − (η/|B|) Q[:, B] δ_B,

    which needs the Gram matrix Q and neither X nor W. ∎ X is read at the start and at the end of a round, instead of
    H·b of its rows being copied; see `pays`.
    """

    def __init__(self, layer: Bound, chunk: Chunk, drawn: DrawnPoints, space: Space) -> None:
        """Begin a round: read all points of the clients."""
        self._layer, self._space, self._size = layer, space, space.grams.size_of(chunk.clients)
        self._steps = chunk.steps
        places = all_points(space.task.data, chunk.clients, self._size)
        self._points = space.points.rows(space.features, places)
        self._positions = torch.from_numpy(drawn.positions.copy()).to(self._points.device)
        self._offsets = torch.from_numpy(space.grams.slots[chunk.clients] * self._size).to(self._points.device)
        self._outputs = layer.outputs(self._points.transpose(1, 2))
        self._sums = torch.zeros_like(self._outputs)
        self._total = Descent(1.0, 0.0)
        self._rows = torch.empty(0)

    def outputs(self, step: int) -> Tensor:
        """Return the columns of Z of the step's points."""
        return self._outputs.gather(2, self._places(step))

    def descend(self, step: int, delta: Tensor, by: Descent) -> None:
        """Change Z and C."""
        if by.keep != 1.0:
            self._sums.mul_(by.keep)
        self._sums.scatter_add_(2, self._places(step), delta)
        self._total = Descent(self._total.keep * by.keep, by.scale)
        if step + 1 == self._steps:
            return
        if step < self._positions.shape[1]:
            places = self._offsets[:, None] + self._positions[:, step]
            self._rows = self._space.rows.rows(self._space.grams.stacks[self._size], places)
        self._outputs.baddbmm_(delta, self._rows, beta=by.keep, alpha=by.scale)

    def finish(self) -> None:
        """Form W and b from C."""
        self._layer.descend(self._sums, self._points, self._total)

    def _places(self, step: int) -> Tensor:
        drawn = self._positions[:, min(step, self._positions.shape[1] - 1)]
        return drawn.unsqueeze(1).expand(-1, self._outputs.shape[1], -1)


def all_points(data: ClientData, clients: Indices, size: int) -> Tensor:
    """Return where the points of each client lie, padded to a size with its first point: clients × size."""
    positions = np.arange(size)[None, :]
    return points_at(data, clients, np.where(positions < data.sizes(clients)[:, None], positions, 0))


def pays(sizes: Indices, batch_sizes: Indices, steps: int, width: int, outputs: int) -> NDArray[np.bool_]:
    """Tell for which clients sample space is less work than gathering batches.

    In multiplications, a copied number counted as `_COPY`: gathering takes H b · width · (copy + 2 · outputs); sample
    space takes n · width · (copy + 2 · outputs) for its two passes over the client's points, and H b · n ·
    (copy + outputs) for the rows of the Gram matrix.
    """
    drawn = steps * batch_sizes
    gathering = drawn * width * (_COPY + 2 * outputs)
    sample_space = sizes * (width * (_COPY + 2 * outputs) + drawn * (_COPY + outputs))
    return gathering > _MARGIN * sample_space
