"""What an engine is: H local steps of a chunk of clients, in place in their rows of the matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from steadfed._core.arrays import Indices
from steadfed.simulation._local import Chunk, TrainingTask


class Engine(ABC):
    """A way to compute what Algorithm 1 defines; all engines agree to rounding.

    On one thread an engine gives a client the same bits whoever else is in the chunk, unless it says that
    `company_matters`; every engine gives the same chunk the same bits.
    """

    name: ClassVar[str]
    """What a configuration calls it."""
    company_matters: ClassVar[bool] = False
    """Whether a client's last bits depend on the chunk; the chunks must then be the same for any number of workers."""
    chunk_size: int
    """How many clients it likes to take at a time."""

    def __init__(self, task: TrainingTask) -> None:
        """Prepare for a task; raises `EngineRefusalError` if the engine cannot do it."""
        self.task = task

    def kinds(self, clients: Indices) -> Indices:
        """Return a number for each client; only clients of the same number share a chunk."""
        return self.task.local.batch_sizes(self.task.data.sizes(clients))

    @abstractmethod
    def train(
        self,
        rows: Float[Tensor, "c d"],
        chunk: Chunk,
        *,
        momentum: Float[Tensor, "c d"] | None = None,
        buffers: Float[Tensor, "c m"] | None = None,
    ) -> None:
        """Take the H steps of every client of the chunk, in place.

        Args:
            rows: one row per client that holds the model x and is left holding x_r; rows may be strided.
            chunk: who they are, in which round, with which step size.
            momentum: each client's momentum, if the task has any; left as it is after the last step.
            buffers: each client's floating-point buffers, if the model has any; left as they are after the last step.
        """


class EngineRefusalError(Exception):
    """Why an engine cannot do a task, in one line; the next engine is asked."""
