"""What the peers compute where their definitions differ from steadfed's, written with steadfed's own parts.

Each function takes the rows and the number of Byzantine ones and returns the update under the peer's definition. That
these updates equal the peer's own is what makes an explanation of a difference more than a guess.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._linalg.gram import gram_with_points
from steadfed._linalg.sources import as_columns
from steadfed._linalg.weiszfeld import distances_to_combination
from steadfed.aggregators import Aggregator, Bucketing, Clipping, Median
from steadfed.aggregators._selection.krum import krum_scores
from steadfed.aggregators._selection.subsets import lowest
from steadfed.extend import pivoted_gram, squared_distances, stream

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Direction = Callable[[Matrix, Vector], tuple[float, Vector]]
"""A map from centred rows and their weights to a spread and the direction in which it was measured."""


def distances(rows: Tensor) -> Matrix:
    """Return ‖g_i − g_j‖²."""
    return squared_distances(pivoted_gram(as_columns(rows)).matrix)


def combination(rows: Tensor, weights: Vector) -> Tensor:
    """Return Σ w_i g_i."""
    return torch.from_numpy(weights) @ rows.double()


def average_of_subset(rows: Tensor, subset: tuple[int, ...]) -> Tensor:
    """Return the mean of some rows."""
    return rows[list(subset)].double().mean(0)


def lower_median(rows: Tensor, num_byzantine: int) -> Tensor:
    """Return torch's median, of an even number of values the lower middle one: that of n + 1 values, one far below."""
    del num_byzantine
    below = rows.min(0).values - 1.0
    return Median()(torch.cat([rows, below[None]]) if len(rows) % 2 == 0 else rows).update


def krum_one_more_neighbour(rows: Tensor, num_byzantine: int) -> Tensor:
    """Return byzfl's Krum, which sums over the n − f − 1 nearest other rows, as the paper's does for f − 1."""
    return combination(rows, lowest(krum_scores(distances(rows), num_byzantine - 1), 1))


def multi_krum_one_more_neighbour(rows: Tensor, num_byzantine: int) -> Tensor:
    """Return byzfl's Multi-Krum: the average of the n − f best by the scores of its Krum."""
    scores = krum_scores(distances(rows), num_byzantine - 1)
    return combination(rows, lowest(scores, len(rows) - num_byzantine))


def krum_unsquared(rows: Tensor, num_byzantine: int) -> Tensor:
    """Return TorchJD's Krum, which sums distances and not their squares."""
    return combination(rows, lowest(krum_scores(np.sqrt(distances(rows)), num_byzantine), 1))


def multi_krum_unsquared(rows: Tensor, num_byzantine: int) -> Tensor:
    """Return TorchJD's Multi-Krum with n − f rows."""
    scores = krum_scores(np.sqrt(distances(rows)), num_byzantine)
    return combination(rows, lowest(scores, len(rows) - num_byzantine))


def weiszfeld_from_origin(rows: Tensor, smoothing: float, num_iterations: int) -> Tensor:
    """Return byzfl's geometric median: a few smoothed Weiszfeld steps that start at the origin."""
    columns = as_columns(rows)
    points = gram_with_points(columns, pivoted_gram(columns), [None])
    centre = np.append(np.zeros(len(rows)), 1.0)
    for _ in range(num_iterations):
        inverse = 1.0 / np.maximum(distances_to_combination(points, centre)[:-1], smoothing)
        centre = np.append(inverse / inverse.sum(), 0.0)
    return combination(rows, centre[:-1])


def first_of_smallest_diameter(rows: Tensor, num_byzantine: int) -> Tensor:
    """Return byzfl's MDA: of the subsets of smallest diameter the first, in the order of the rows."""
    squared = distances(rows)
    squared = np.maximum(squared, squared.T)
    subsets = list(_subsets(len(rows), num_byzantine))
    diameters = [float(squared[np.ix_(subset, subset)].max()) for subset in subsets]
    return average_of_subset(rows, subsets[int(np.argmin(diameters))])


def smea(rows: Tensor, num_byzantine: int, direction: Direction) -> Tensor:
    """Return the mean of the n − f rows whose spread, as `direction` measures it, is the smallest."""
    wide = rows.double().numpy()
    subsets = list(_subsets(len(rows), num_byzantine))
    everyone = np.ones(len(rows) - num_byzantine)
    parts = (wide[list(subset)] for subset in subsets)
    spreads = [direction(part - part.mean(axis=0), everyone)[0] for part in parts]
    return average_of_subset(rows, subsets[int(np.argmin(spreads))])


def caf(rows: Tensor, num_byzantine: int, direction: Direction, *, among_all: bool) -> Tensor:
    """Return the mean of smallest spread that the filter passes, as `direction` measures it.

    Args:
        rows: one per client.
        num_byzantine: f; the filter stops at mass n − 2f.
        direction: how the largest spread and its direction are found.
        among_all: whether the largest τ is sought among all rows, or among those that still have weight.
    """
    wide, c = rows.double().numpy(), np.ones(len(rows))
    best, remembered = np.inf, wide.mean(axis=0)
    while c.sum() > len(rows) - 2 * num_byzantine + 1e-5:
        mean = c @ wide / c.sum()
        spread, v = direction(wide - mean, c)
        if spread < best:
            best, remembered = spread, mean
        tau = ((wide - mean) @ v) ** 2
        c *= np.maximum(0.0, 1.0 - tau / tau[(c > 0.0) | among_all].max())
    return torch.from_numpy(remembered)


def top_eigenpair(centred: Matrix, weights: Vector) -> tuple[float, Vector]:
    """Return the largest spread and its direction, exactly."""
    root = np.sqrt(weights / weights.sum())[:, None] * centred
    values, vectors = np.linalg.eigh(root @ root.T)
    v = vectors[:, -1] @ root
    return float(values[-1]), v / np.linalg.norm(v)


def one_power_step(seed: int, dim: int) -> Direction:
    """Return what byzfl takes for the top eigenpair: one power step from a normal vector, drawn anew every time."""
    generator = torch.Generator().manual_seed(seed)

    def direction(centred: Matrix, weights: Vector) -> tuple[float, Vector]:
        start = torch.randn(dim, generator=generator).double().numpy()
        image = (weights * (centred @ (start / np.linalg.norm(start)))) @ centred / weights.sum()
        return float(np.linalg.norm(image)), image / np.linalg.norm(image)

    return direction


def bucketing_in_order(rows: Tensor, order: NDArray[np.intp], rule: Bucketing) -> Tensor:
    """Return what `rule` makes of the rows if `order`, and not its own permutation, says who shares a bucket."""
    own = stream(rule.seed, "buckets", 0).permutation(len(rows))
    dealt = torch.empty_like(rows)
    dealt[torch.from_numpy(own)] = rows[torch.from_numpy(order)]
    return rule(dealt).update


def arc_rounded_down_in_floats(rows: Tensor, num_byzantine: int, rule: Aggregator) -> Tensor:
    """Return byzfl's ARC, whose number of clipped rows is cut to a whole number after rounding in floats."""
    number = int((2 * num_byzantine / len(rows)) * (len(rows) - num_byzantine))
    norms = rows.double().norm(dim=1).sort(descending=True).values
    return Clipping(radius=float(norms[number]), rule=rule)(rows).update


def _subsets(num_rows: int, num_byzantine: int) -> Iterator[tuple[int, ...]]:
    return combinations(range(num_rows), num_rows - num_byzantine)
