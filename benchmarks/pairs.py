"""What a pair is: something that steadfed and a peer both have, and why their values differ if they do.

A pair without an explanation must agree. A pair with one must differ somewhere, and the explanation is checked: it
names pairs of values that must be equal, among them the peer's value and steadfed's under the peer's definition.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.peers import byzfl_module, torchjd_aggregators
from steadfed.aggregators import Aggregator
from steadfed.attacks import AdversaryView, Attack

SHAPES = tuple((clients, dim) for clients in (11, 25, 40) for dim in (1, 7, 200))
SEED = 7
PLANES = tuple(shape for shape in SHAPES if shape[1] > 1)
"""The shapes with more than one column."""


@dataclass(frozen=True)
class Cloud:
    """Rows of which some are forged."""

    rows: Tensor
    forged: NDArray[np.bool_]

    @property
    def f(self) -> int:
        """How many rows are assumed Byzantine."""
        return int(self.forged.sum())

    @property
    def size(self) -> float:
        """The norm of the longest row."""
        return float(self.rows.double().norm(dim=1).max())

    @cached_property
    def view(self) -> AdversaryView:
        """The cloud as an adversary sees it whose clients' honest rows are the forged ones."""
        own = torch.from_numpy(self.forged)
        return AdversaryView(
            num_byzantine=self.f, cohort_size=len(self.rows), own_rows=self.rows[own], honest_rows=self.rows[~own]
        )


Value = Callable[[Cloud], Tensor]
Equations = Callable[[Cloud], Iterator[tuple[Tensor, Tensor]]]


def any_minority(clients: int) -> int:
    """Return the largest f with 2f < n."""
    return (clients - 1) // 2


def krum_bound(clients: int) -> int:
    """Return the largest f with 2f + 2 < n."""
    return (clients - 3) // 2


@dataclass(frozen=True)
class Pair:
    """Something that steadfed and a peer both have."""

    steadfed: str
    peer: str
    ours: Value
    theirs: Value
    largest: Callable[[int], int] = any_minority
    """The largest number of Byzantine rows of so many that both allow."""
    smallest: int = 0
    most_subsets: int | None = None
    """How many subsets can be afforded, if the peer tries all of them."""
    shapes: Sequence[tuple[int, int]] = SHAPES
    unique_only: bool = False
    """Leave out an even number of values of one coordinate, where the result is not unique."""
    single: bool = False
    """Whether the peer computes in float32 whatever it is given."""
    tolerance: float | None = None
    """What counts as equal, if not rounding."""
    why: str = ""
    """Why the values differ; empty if they must not."""
    equations: Equations | None = None
    """What must be equal if the explanation is right."""

    def bounds(self, clients: int) -> list[int]:
        """Return the numbers of Byzantine rows that are tried."""
        largest = self.largest(clients)
        if self.most_subsets is not None:
            return [f for f in range(self.smallest, largest + 1) if comb(clients, f) <= self.most_subsets]
        return [f for f in sorted({0, 1, largest // 2, largest}) if f >= self.smallest]


def ours(build: Callable[[int], Aggregator]) -> Value:
    """Return a rule of steadfed, told the number of Byzantine rows."""
    return lambda cloud: build(cloud.f)(cloud.rows).update


def byzfl(build: Callable[[Any, int], Callable[[Any], Any]]) -> Value:
    """Return a rule of byzfl, which computes in float64 if it is handed a numpy array and never if a tensor.

    It works on a copy, as some of its rules change what they are handed.
    """

    def value(cloud: Cloud) -> Tensor:
        rule = build(byzfl_module("aggregators"), cloud.f)
        if cloud.rows.dtype == torch.float64:
            return torch.from_numpy(np.array(rule(cloud.rows.numpy().copy())))
        return torch.as_tensor(rule(cloud.rows.clone()))

    return value


def byzfl_at_random(build: Callable[[Any, int], Callable[[Any], Any]]) -> Value:
    """Return a rule of byzfl that draws from torch's global generator, which is seeded before."""

    def value(cloud: Cloud) -> Tensor:
        torch.default_generator.manual_seed(SEED)
        return torch.as_tensor(build(byzfl_module("aggregators"), cloud.f)(cloud.rows.float().clone()))

    return value


def torchjd(build: Callable[[Any, Cloud], Callable[[Tensor], Tensor]]) -> Value:
    """Return a rule of TorchJD."""
    return lambda cloud: build(torchjd_aggregators(), cloud)(cloud.rows)


def forged(attack: Attack) -> Value:
    """Return what an attack of steadfed lets the Byzantine clients send, one row each."""
    return lambda cloud: attack(cloud.view).rows


def byzfl_forged(build: Callable[[Any], Callable[[Any], Any]]) -> Value:
    """Return what an attack of byzfl sends: one row, the same for all Byzantine clients."""

    def value(cloud: Cloud) -> Tensor:
        torch.default_generator.manual_seed(SEED)
        honest, attack = cloud.view.honest.clone(), build(byzfl_module("attacks"))
        random = "Gaussian" in type(attack).__name__
        row = attack(honest.numpy() if honest.dtype == torch.float64 and not random else honest)
        return torch.as_tensor(row).expand(cloud.f, -1)

    return value


def same(under_their_definition: Value, theirs: Value) -> Equations:
    """Return the one equation that the peer's value is steadfed's under the peer's definition."""
    return lambda cloud: iter([(under_their_definition(cloud), theirs(cloud))])


def defined(function: Callable[[Tensor, int], Tensor]) -> Value:
    """Return a definition of the peer's as a value of a cloud."""
    return lambda cloud: function(cloud.rows, cloud.f)
