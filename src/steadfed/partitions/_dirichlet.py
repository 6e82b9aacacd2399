"""Label distributions drawn from a Dirichlet distribution."""

from __future__ import annotations

from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from steadfed._core.arrays import Indices
from steadfed._core.rng import stream
from steadfed._core.values import real_number
from steadfed.data._base import Dataset
from steadfed.partitions._base import NumClients, NumPoints, Partition, Shares, check_points, point_classes
from steadfed.partitions._by_label import sort_by_label
from steadfed.partitions._dealing import equal_offsets, with_at_least
from steadfed.partitions._registry import PARTITIONS


@PARTITIONS.register("dirichlet")
@final
class DirichletPartition(Partition):
    r"""Draw every client's label distribution from a Dirichlet distribution (Hsu, Qi, Brown 2019).

    Client r draws q_r ~ Dir(α C p), where p is the label distribution of all points and C the number of classes, so
    that for equal classes q_r ~ Dir(α, …, α); then it draws the labels of its points from q_r, all clients equally many
    points up to 1. The smaller α, the fewer classes a client holds.

    Points are finite, so a class can run out: then those who win its last points are random, and the others draw again
    from q_r restricted to the classes that are left. Each time a class runs out, so C draws are enough; what rounding
    leaves open is filled with the points that are left. Every point is given out, and sizes are as equal as can be, so
    `min_points` only has to be possible.

    With `equal_sizes = False` the proportions are drawn per class instead (Yurochkin et al. 2019, section 4; what most
    benchmarks do): class c is divided among the clients by Dir_R(α, …, α), so sizes differ as labels do. Clients that
    get fewer than `min_points` are given points of those who have more, in proportion to what they can spare.

    **Deviations.** Hsu et al. write Dir(α p): their α is C times this one, which is the α of Yurochkin et al. and of
    nearly all benchmarks. Others redraw everything until the smallest client is large enough, which need not end.

    >>> import torch
    >>> x, y = torch.rand(1000, 1), torch.arange(1000) % 10
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=10)
    >>> DirichletPartition(num_clients=6, alpha=0.1).split(data, seed=0).sizes
    array([166, 167, 167, 166, 167, 167])
    >>> uneven = DirichletPartition(num_clients=6, alpha=0.1, equal_sizes=False, min_points=32)
    >>> int(uneven.split(data, seed=0).sizes.min())
    32
    """

    citation: ClassVar[str] = "Hsu, Qi, Brown 2019; per class Yurochkin et al. 2019, section 4"

    num_clients: NumClients = 100
    """R, how many clients there are."""
    alpha: Annotated[float, Field(ge=1e-9, le=1e9), BeforeValidator(real_number)] = 0.5
    """α, how alike the clients are: 0.1 is far from it, 100 nearly IID."""
    equal_sizes: bool = True
    """Whether all clients hold equally many points; if not, proportions are drawn per class."""
    min_points: NumPoints = 1
    """How many points every client holds at least."""

    def split(self, dataset: Dataset, seed: int) -> Shares:
        """Draw the proportions and deal the points."""
        check_points(dataset, self.num_clients, self.min_points)
        classes, num_classes = point_classes(dataset)
        generator = stream(seed, "partition", "dirichlet")
        counts = np.bincount(classes, minlength=num_classes)
        deal = self._per_client if self.equal_sizes else self._per_class
        owners = np.empty(len(classes), dtype=np.int64)
        owners[sort_by_label(classes, generator)] = deal(counts, generator)
        return Shares.of_owners(owners, self.num_clients)

    def _per_client(self, counts: Indices, generator: np.random.Generator) -> Indices:
        """Return the owner of every point, in the order of the classes: labels drawn from q_r."""
        present = counts > 0
        share = counts[present] / counts.sum()
        logs = _log_gammas(self.alpha * len(counts) * share, self.num_clients, generator)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return _draw(weights, np.diff(equal_offsets(int(counts.sum()), self.num_clients)), counts[present], generator)

    def _per_class(self, counts: Indices, generator: np.random.Generator) -> Indices:
        """Return the owner of every point, in the order of the classes: each class cut by its own proportions."""
        clients = np.arange(self.num_clients)
        owners = []
        for count in counts:
            logs = _log_gammas(np.array([self.alpha]), self.num_clients, generator)[:, 0]
            shares = np.cumsum(np.exp(logs - logs.max()))
            cuts = np.floor(count * (shares / shares[-1])).astype(np.int64)
            owners.append(np.repeat(clients, np.diff(cuts, prepend=0)))
        return with_at_least(np.concatenate(owners), self.num_clients, self.min_points, generator)


def _log_gammas(shapes: NDArray[np.float64], num_clients: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return logarithms of Gamma(shape) draws, one column per shape; the logarithm does not underflow for small shapes.

    Gamma(a) has the distribution of Gamma(a + 1) · U^(1/a) with U uniform on (0, 1].
    """
    size = (num_clients, len(shapes))
    logs = np.log(generator.standard_gamma(shapes + 1.0, size))
    logs += np.log1p(-generator.random(size)) / shapes
    return logs


def _draw(weights: NDArray[np.float64], open_slots: Indices, left: Indices, generator: np.random.Generator) -> Indices:
    """Return who holds each of the `left` points of every class, when clients draw classes by their weights.

    Args:
        weights: clients × classes, in proportion to q_r.
        open_slots: how many points each client is to hold; they sum to the number of points.
        left: how many points each class has.
        generator: the source of all draws.
    """
    ends = np.cumsum(left)
    owners = np.full(int(ends[-1]), -1)
    open_slots, left = open_slots.copy(), left.copy()
    for _ in range(len(left)):
        rows = np.flatnonzero(open_slots)
        chances = weights[rows] * (left > 0)
        totals = chances.sum(axis=1)
        rows, chances, totals = rows[totals > 0], chances[totals > 0], totals[totals > 0]
        if not len(rows):
            break
        wanted = generator.multinomial(open_slots[rows], chances / totals[:, None])
        for c in np.flatnonzero(left):
            winners = np.repeat(rows, wanted[:, c])
            if len(winners) > left[c]:
                winners = generator.permutation(winners)[: left[c]]
            owners[ends[c] - left[c] : ends[c] - left[c] + len(winners)] = winners
            left[c] -= len(winners)
            open_slots -= np.bincount(winners, minlength=len(open_slots))
    owners[owners < 0] = generator.permutation(np.repeat(np.arange(len(open_slots)), open_slots))
    return owners
