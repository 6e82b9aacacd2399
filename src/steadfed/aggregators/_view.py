"""What the server may tell a rule besides the rows, and what a rule asks to be given back in the next round."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import torch
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._linalg.columns import Columns
from steadfed.errors import DtypeError, MissingKnowledgeError, ParameterError, ShapeError


class Need(Enum):
    """What a rule cannot do without; the value is a phrase for people."""

    MODEL = "the current model"
    TRUSTED_ROW = "an update of the server's own, from data it trusts"
    TRUSTED_LOSS = "the loss on a batch the server trusts, as a function of the model"

    def __str__(self) -> str:
        """Return the phrase."""
        return str(self.value)


MOST_APART = 1e9
"""How many times the lightest row's weight the heaviest one's may be."""

Memory = Mapping[str, Tensor]
"""What a rule remembers: vectors by name. It is handed out in the `Aggregation` and handed back in the view."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerView:
    """What the server knows besides the rows. A rule that needs nothing is called without one.

    With `ShardedColumns`, vectors are this rank's slices.
    """

    round: int = 0
    """The number of the round; rules that draw at random draw anew in every round."""
    clients: Sequence[int | str] | None = None
    """Who sent each row, for rules that remember clients; the row numbers if left out."""
    cohort_size: int | None = None
    """K, how many clients were asked for a row, if some may have sent none; a bound given as a fraction is of these."""
    sampled: bool = True
    """Whether those were drawn from more clients, so that by chance more of them may be Byzantine than on average."""
    model: Tensor | None = None
    """x, the model that the clients started from."""
    trusted_row: Tensor | None = None
    """The update that the server computed on data it trusts."""
    trusted_loss: Callable[[Tensor], float] | None = None
    """The loss on a batch the server trusts, as a function of the model."""
    memory: Memory = field(default_factory=dict)
    """What the rule's last `Aggregation` asked to remember."""
    weights: Sequence[float] | None = None
    """How much each row counts, as the operator weighs its site; every row alike if left out."""
    cohort_weight: float | None = None
    """What all weigh who were asked for a row, if some may have sent none: `byzantine_weight` is a share of that."""
    secret: int | None = None
    """A number that no client knew when it sent its row: sketches are keyed by it. The system's own if left out."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a view."""
        if not isinstance(self.round, int) or isinstance(self.round, bool) or self.round < 0:
            raise ParameterError(f"round must be a whole number from 0 on, got {self.round!r}")
        size = self.cohort_size
        if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
            raise ParameterError(f"cohort_size must be a whole number from 1 on, got {size!r}")
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked_weights(self.weights))
        if self.cohort_weight is not None and not 0.0 < _number(self.cohort_weight) < math.inf:
            raise ParameterError(f"cohort_weight must be a finite number above 0, got {self.cohort_weight!r}")
        if self.secret is not None and (type(self.secret) is not int or self.secret < 0):
            raise ParameterError(f"secret must be a whole number from 0 on, got {self.secret!r}")
        if not isinstance(self.memory, Mapping):
            raise ParameterError(
                f"memory must be what the last Aggregation asked to remember, got {type(self.memory).__name__}"
            )

    def needed_vector(self, need: Need, columns: Columns, rule: object) -> Tensor:
        """Return the model or the trusted row, as the rows are; raise if it was not given or does not fit."""
        vector = self.model if need is Need.MODEL else self.trusted_row
        if vector is None:
            keyword = "model" if need is Need.MODEL else "trusted_row"
            raise MissingKnowledgeError(f"{rule!r} needs {need}; pass ServerView({keyword}=...)")
        return check_vector(vector, columns, str(need))

    def needed_loss(self, rule: object) -> Callable[[Tensor], float]:
        """Return the trusted loss; raise if it was not given."""
        if self.trusted_loss is None:
            raise MissingKnowledgeError(f"{rule!r} needs {Need.TRUSTED_LOSS}; pass ServerView(trusted_loss=...)")
        return self.trusted_loss

    def unequal_weights(self, num_rows: int) -> Vector | None:
        """Return how much each row counts; None if all count alike."""
        if self.weights is None:
            return None
        if len(self.weights) != num_rows:
            raise ShapeError(f"weights must be one number for each of the {num_rows} updates, got {len(self.weights)}")
        weights = np.array(self.weights)
        return None if bool((weights == weights[0]).all()) else weights

    def remembered(self, name: str, columns: Columns) -> Tensor | None:
        """Return the vector remembered under `name`, as the rows are, or None in the first round."""
        vector = self.memory.get(name)
        return None if vector is None else check_vector(vector, columns, f"memory {name!r}")

    def identities(self, num_rows: int) -> list[str]:
        """Return who sent each row, each once."""
        names = [str(i) for i in range(num_rows)] if self.clients is None else [str(name) for name in self.clients]
        if len(names) != num_rows or len(set(names)) != num_rows:
            raise ShapeError(f"clients must name each of the {num_rows} updates once, got {len(names)}: {names[:8]}")
        return names


def _number(value: object) -> float:
    """Return a number as it is, NaN for what is none."""
    return float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan


def _checked_weights(weights: Sequence[float]) -> tuple[float, ...]:
    """Return weights as numbers; raise if they are none, or so far apart that the lightest ones are rounding."""
    numbers = tuple(_number(weight) for weight in weights)
    for given, number in zip(weights, numbers, strict=True):
        if not 0.0 < number < math.inf:
            raise ParameterError(f"weights must be finite numbers above 0, got {given!r}")
    if numbers and max(numbers) > MOST_APART * min(numbers):
        raise ParameterError(
            f"weights may differ by a factor of {MOST_APART:g} at most, got {min(numbers):g} and {max(numbers):g}"
        )
    return numbers


def check_vector(vector: Tensor, columns: Columns, what: str) -> Tensor:
    """Return a server's vector in the dtype and on the device of the rows; raise if it is not d finite numbers."""
    if isinstance(vector, Tensor) and (
        vector.layout is not torch.strided or not vector.is_floating_point() or vector.device.type == "meta"
    ):
        raise DtypeError(
            f"{what} must hold plain floats, got {vector.dtype} in layout {vector.layout} on {vector.device}"
        )
    if not isinstance(vector, Tensor) or vector.shape != (columns.num_columns,):
        shape = tuple(vector.shape) if isinstance(vector, Tensor) else type(vector).__name__
        raise ShapeError(
            f"{what} must be a tensor of {columns.num_columns} numbers, as many as an update has; got {shape}"
        )
    converted = vector.detach().to(dtype=columns.dtype, device=columns.device)
    if not bool(torch.isfinite(converted).all()):
        raise ShapeError(f"{what} must be finite, as it is the server's own; got NaN or Inf")
    return converted
