"""Rules and attacks of a user, as tests name them: functions, classes that are called, and what is wrong with some."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from steadfed._linalg.columns import Columns
from steadfed.aggregators import Aggregation, BoundedAggregator, Median, ServerView
from steadfed.attacks import AdversaryView, Attack, ClassFlip, Forged, SignFlip

HERE = __name__


def median(updates: Tensor) -> Tensor:
    """The median, as ByzFL would have it."""
    return updates.median(0).values


def trimmed(updates: Tensor, num_byzantine: int, share: float = 1.0) -> Tensor:
    """The mean of what lies in the middle of every coordinate."""
    cut = int(share * num_byzantine)
    return updates.sort(0).values[cut : len(updates) - cut].mean(0)


def by_f(updates: Tensor, f: int, /) -> Tensor:
    """A constant that says what it was told; taken by place."""
    return torch.full_like(updates[0], float(f))


def array(updates: np.ndarray[Any, Any]) -> Any:
    """The mean, in numpy, of an array that it spoils."""
    assert isinstance(updates, np.ndarray)
    found = updates.astype(np.float64).mean(axis=0)
    updates[:] = np.nan
    return found


def counted(updates: Tensor, usable: Tensor) -> Tensor:
    """How many rows are unusable, in every coordinate: it asks for them."""
    return torch.full_like(updates[0], float((~usable).sum()) + len(updates) / 1000)


def round_number(updates: Tensor, view: ServerView) -> list[float]:
    """The number of the round, and who sent the first row, as a list."""
    names = view.identities(len(updates))
    return [float(view.round), float(names[0]), *[0.0] * (updates.shape[1] - 2)]


def heaviest(updates: Tensor) -> tuple[Tensor, Tensor]:
    """All weight for the last row."""
    return updates[-1], torch.arange(len(updates)) == len(updates) - 1


class Nearest:
    """A rule as ByzFL has them: an object that is called; it would remember, were it kept."""

    def __init__(self, f: int, scale: float = 1.0) -> None:
        self.f, self.scale, self.calls = f, scale, 0

    def __call__(self, vectors: Tensor) -> Tensor:
        """Return the scaled mean of the shortest rows, and how often this object was called."""
        self.calls += 1
        kept = vectors.norm(dim=1).argsort()[: len(vectors) - self.f]
        return self.scale * vectors[kept].mean(0) + (self.calls - 1)


@final
class First(BoundedAggregator):
    """A rule with all that belongs to one."""

    citation: ClassVar[str] = "this test"

    weight: float = 1.0

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Do as the median does."""
        return Median(num_byzantine=num_byzantine).aggregate(columns, num_byzantine, view)


an_object = Median(num_byzantine=2)
not_callable = 3


def of_torch(updates: Tensor) -> Any:
    """What many will forget first."""
    return updates.median(0)


def too_short(updates: Tensor) -> Tensor:
    """One number too few."""
    return updates.mean(0)[1:]


def not_finite(updates: Tensor) -> Tensor:
    """What no update is."""
    return updates.mean(0) / 0.0


def failing(updates: Tensor) -> Tensor:
    """An error of the code itself."""
    raise ZeroDivisionError(f"no {len(updates)}")


def words(updates: Tensor) -> Any:
    """No numbers at all."""
    return "update"


def negative(updates: Tensor) -> tuple[Tensor, Tensor]:
    """Weights that are none."""
    return updates.mean(0), -torch.ones(len(updates))


def numpys(updates: Tensor) -> Any:
    """What fails on tensors only."""
    return np.mean(updates, axis=0)


def wants_more(updates: Tensor, radius: float) -> Tensor:
    """A parameter that has to be given."""
    return updates.mean(0) * radius


def takes_nothing() -> None:
    """No function of updates."""


def random(updates: Tensor) -> Tensor:
    """What differs from call to call."""
    return updates.mean(0) + torch.rand(updates.shape[1])


def turned(honest_updates: Tensor, strength: float = 1.0) -> Tensor:
    """One row for all."""
    return -strength * honest_updates.mean(0)


def noisy(honest_updates: Tensor, num_byzantine: int, generator: np.random.Generator) -> Any:
    """A row for each."""
    return generator.standard_normal((num_byzantine, honest_updates.shape[1]))


def echo(honest_updates: Tensor, own_updates: Tensor) -> Tensor:
    """What its own clients would send, and what the honest ones send on top."""
    return own_updates + honest_updates.sum(0)


def tries(honest_updates: Tensor, view: AdversaryView) -> Tensor:
    """What the server would make of the honest rows."""
    return view.aggregate(honest_updates[: view.num_byzantine]).update


class Factor:
    """An attack as ByzFL has them."""

    def __init__(self, tau: float = 2.0) -> None:
        self.tau = tau

    def __call__(self, honest_vectors: Tensor) -> Tensor:
        """Return the mean, enlarged."""
        return self.tau * honest_vectors.mean(0)


@final
class Zeros(Attack):
    """An attack with all that belongs to one."""

    citation: ClassVar[str] = "this test"

    def forge(self, view: AdversaryView) -> Forged:
        """Send zeros."""
        return Forged(rows=torch.zeros_like(view.own), silent=torch.zeros(view.num_byzantine, dtype=torch.bool))


flipped = SignFlip(factor=3.0)
classes = ClassFlip(source=0, target=1)
