"""Mini-batches drawn without replacement, for many clients and steps at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Indices
from steadfed._core.rng import stream_keys, stream_words

_TABLE = 2**19
"""Most entries of the table of first draws; more clients are done in several goes, so that the table stays in cache."""


def batches(seed: int, round: int, clients: Indices, sizes: Indices, *, steps: int, batch_size: int) -> Indices:
    r"""Return for every client and step a uniform subset of its points, as positions 0 .. n_r − 1: clients × H × b.

    Floyd's algorithm (Bentley, Floyd 1987): for j = n − b, …, n − 1 draw t uniformly from 0 .. j and take t, or j if t
    was taken before. *Proof* that every subset is equally likely, by induction over b: the first b − 1 draws are
    Floyd's algorithm on 0 .. n − 2, hence a uniform (b − 1)-subset A. A subset S with n − 1 ∈ S arises from
    A = S \ {n − 1} and any of the b draws t ∈ A ∪ {n − 1}: probability b/n / C(n−1, b−1) = 1/C(n, b). One without n − 1
    arises from b choices of A = S \ {t}, each with the draw t: b/n / C(n−1, b−1), the same. ∎

    The draws of a client are its own stream of (seed, round, client), so a client's batches depend neither on the other
    clients nor on where they are drawn. A draw has a bias below n_r / 2³².
    """
    chosen = np.empty((len(clients), steps, batch_size), dtype=np.int64)
    if len(clients) == 0:
        return chosen
    width = int(sizes.max())
    group = max(1, _TABLE // (steps * width))
    table = np.empty(min(group, len(clients)) * steps * width, dtype=np.int32)
    keys = stream_keys(seed, "batches", round, ids=clients)
    for start in range(0, len(clients), group):
        part = slice(start, start + group)
        words = stream_words(keys[part], steps * batch_size) >> np.uint64(32)
        first = np.repeat(sizes[part] - batch_size, steps)
        draws = words.reshape(len(first), batch_size)
        chosen[part] = _floyd(draws, first, table, width).reshape(-1, steps, batch_size)
    return chosen


def _floyd(draws: NDArray[np.uint64], first: Indices, table: NDArray[np.int32], width: int) -> Indices:
    """Return the subsets, one per row, from draws of 32 bits; `first` is n − b of each row.

    Step i of Floyd's algorithm sees j_i = first + i and a draw t_i ≤ j_i. After it t_i is always among the points
    taken, so t_i was taken before exactly if an earlier draw was t_i, or if t_i = j_k of an earlier step k whose own
    draw was taken before. The first is seen by writing the steps' numbers into a table, the last first, and reading
    back who stands there; the second is followed from step to step for the few draws ≥ n − b.
    """
    rows, batch_size = draws.shape
    ends = (first[:, None] + np.arange(batch_size)).astype(np.int64)
    drawn = ((draws * (ends + 1).view(np.uint64)) >> np.uint64(32)).view(np.int64)
    places = drawn + (np.arange(rows) * width)[:, None]
    numbers = np.arange(rows * batch_size, dtype=np.int32)
    flat = places.ravel()
    table[flat[::-1]] = numbers[::-1]
    taken = table[flat] != numbers
    earlier = drawn - first[:, None]
    follows = np.flatnonzero((earlier >= 0) & (earlier < np.arange(batch_size)))
    leads = follows - follows % batch_size + earlier.ravel()[follows]
    while (late := taken[leads] > taken[follows]).any():
        taken[follows[late]] = True
    return np.where(taken.reshape(rows, batch_size), ends, drawn)
