"""Mini-batches drawn without replacement, for many clients and steps at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.rng import stream_keys, stream_words

Indices = NDArray[np.int64]
_TABLE = 2**24
"""Largest number of flags in the table of points already chosen; more clients are done in several goes."""


def batches(seed: int, round: int, clients: Indices, sizes: Indices, *, steps: int, batch_size: int) -> Indices:  # noqa: A002
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
    group = max(1, _TABLE // (steps * int(sizes.max())))
    for start in range(0, len(clients), group):
        part = slice(start, start + group)
        chosen[part] = _floyd(seed, round, clients[part], sizes[part], steps, batch_size)
    return chosen


def _floyd(seed: int, round: int, clients: Indices, sizes: Indices, steps: int, batch_size: int) -> Indices:  # noqa: A002
    """Return the subsets of a few clients, with a table of flags that says what was taken."""
    keys = stream_keys(seed, "batches", round, ids=clients)
    words = stream_words(keys, steps * batch_size) >> np.uint64(32)
    draws = words.reshape(len(clients) * steps, batch_size).T.copy()
    last = np.repeat(sizes - batch_size, steps).astype(np.uint64)
    taken = np.zeros((len(last), int(sizes.max())), dtype=np.bool_)
    rows = np.arange(len(last))
    chosen = np.empty((batch_size, len(last)), dtype=np.int64)
    for place in range(batch_size):
        drawn = (draws[place] * (last + np.uint64(1))) >> np.uint64(32)
        fresh = np.where(taken[rows, drawn], last, drawn)
        taken[rows, fresh] = True
        chosen[place] = fresh
        last += np.uint64(1)
    return chosen.T.reshape(len(clients), steps, batch_size)
