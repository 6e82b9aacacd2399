"""Coordinates that a server and its clients draw alike from one number: nothing but a seed has to be sent."""

from __future__ import annotations

import numpy as np

from steadfed._core.arrays import Indices
from steadfed._core.ranges import check_whole
from steadfed._core.rng import stream

SEED_BITS = 53
"""A round's seed is a whole number of at most so many bits, which every reader of JSON keeps."""
NUMBER, SEED, PARAMETERS = "coordinates", "coordinates-seed", "parameters"
"""How clients are told: k, what the coordinates are drawn from, and d, of how many."""
_WORDS = 2**64


def seed_of_round(seed: int, round: int) -> int:
    """Return the seed of a round's coordinates, from the root seed of a run; one says nothing about the next.

    >>> seed_of_round(0, 3) == seed_of_round(0, 3), seed_of_round(0, 3) == seed_of_round(0, 4)
    (True, False)
    """
    word = int(stream(seed, "coordinates", round).bit_generator.random_raw())
    return word >> (64 - SEED_BITS)


def coordinates_of(seed: int, number: int, dim: int) -> Indices:
    r"""Return `number` different of the coordinates 0 .. dim − 1, increasing; every such set is equally likely.

    Words of the Philox stream of the seed are reduced modulo dim, those left out that would favour small numbers; the
    first k different ones are kept. *Proof* of uniformity: the words are exchangeable over the coordinates, so the set
    of the first k different ones has the same probability as its image under any permutation of the coordinates. If k
    is more than half of dim, those to leave out are drawn instead, and the complement of a uniform set is uniform.

    The words are those of the bit generator itself, which numpy promises never to change, so that a server and a client
    with other versions of numpy draw the same. It takes one byte of memory per coordinate of the model.

    >>> coordinates_of(0, 3, 10)
    array([0, 5, 7])
    >>> coordinates_of(0, 11, 10)
    Traceback (most recent call last):
    steadfed.errors.ParameterError: the number of coordinates must be a whole number from 1 to 10, got 11
    """
    size = check_whole("the dimension", dim)
    count = check_whole("the number of coordinates", number, most=size)
    fewer = min(count, size - count)
    taken = np.zeros(size, dtype=np.bool_)
    bits, even = stream(seed, "coordinates").bit_generator, _WORDS - _WORDS % size
    while missing := fewer - np.count_nonzero(taken):  # never more words than are missing: the first k different ones
        words = np.atleast_1d(bits.random_raw(missing))
        if even < _WORDS:
            words = words[words < np.uint64(even)]
        taken[(words % np.uint64(size)).astype(np.int64)] = True
    return np.flatnonzero(taken if fewer == count else ~taken)
