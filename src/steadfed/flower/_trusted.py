"""What a server knows from data that it trusts, as its rule is told: an update of its own, the loss of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

from flwr.app import ArrayRecord
from torch import Tensor

from steadfed.flower._records import RecordNumbers, record_of
from steadfed.flower._settings import require_known
from steadfed.server._state import ServerState
from steadfed.states._layout import ModelLayout


@final
@dataclass(frozen=True, eq=False)
class Trusted:
    """The user's functions of arrays as functions of rows."""

    layout: ModelLayout
    state: ServerState
    """What the round begins from."""
    lr: float
    update_fn: Callable[[int, ArrayRecord], ArrayRecord] | None
    loss_fn: Callable[[ArrayRecord], float] | None

    def row(self) -> Tensor:
        """Return the server's own update."""
        arrays = require_known(self.update_fn)(self.state.round + 1, record_of(self.layout.arrays_of(self.state)))
        return (self.state.model - self.layout.parameters_of(RecordNumbers(arrays))) / self.lr

    def loss(self, model: Tensor) -> float:
        """Return the loss of a model."""
        return float(require_known(self.loss_fn)(record_of(self.layout.arrays_of(replace(self.state, model=model)))))
