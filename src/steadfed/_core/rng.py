"""Randomness: one root seed, named independent streams, a generator passed in.

No code of steadfed touches a global random state, so two runs in one process cannot influence each other and the
numbers of one stream do not depend on how often another was used.
"""

from __future__ import annotations

import hashlib
import math
import operator

import numpy as np
from numpy.typing import NDArray

from steadfed.errors import ParameterError


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the generator of the stream that `names` call, independent of every other stream of the same seed.

    The stream is a Philox counter generator whose 128-bit key is the BLAKE2b hash of the seed and the names, so a
    stream can be opened in any order, in any process, and again after a restart.

    >>> float(stream(0, "sampling", 3).random()) == float(stream(0, "sampling", 3).random())
    True
    >>> float(stream(0, "sampling", 3).random()) == float(stream(0, "sampling", 4).random())
    False
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ParameterError(f"seed must be an integer >= 0, got {seed!r}")
    # repr of a tuple of ints and strings is unambiguous: 1 and "1" differ, and no separator can be forged.
    words = [name if isinstance(name, str) else operator.index(name) for name in names]
    digest = hashlib.blake2b(repr((seed, *words)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


Words = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def stream_keys(seed: int, *names: str | int, ids: NDArray[np.int64]) -> Words:
    """Return a 64-bit key for each of many streams at once: the stream that `names` and the id call.

    A key depends on the seed, the names and its own id, never on the other ids, so a set of streams may be opened in
    any order and in any grouping.
    """
    root = stream(seed, *names).integers(0, 2**64, 2, dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        return _mixed(root[0] ^ _mixed(ids.astype(np.uint64) * _GOLDEN + root[1]))


def stream_words(keys: Words, count: int) -> Words:
    """Return the first `count` 64-bit words of each stream, one row per key.

    This is SplitMix64 (Steele, Lea, Flood 2014) started at the key: word j is mix(key + (j + 1) · golden), so all words
    of all streams are one vectorised expression.

    >>> keys = stream_keys(0, "batches", 3, ids=np.array([7, 8]))
    >>> bool((stream_words(keys, 4)[1, :2] == stream_words(keys[1:], 2)).all())
    True
    """
    with np.errstate(over="ignore"):
        return _mixed(keys[:, None] + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64))


def shuffled_places(ids: NDArray[np.int64], size: int, seed: int, *names: str | int) -> NDArray[np.int64]:
    """Return the places of `ids` in a random order of 0 .. size − 1, without forming the order.

    A Feistel network of six rounds is a bijection of 0 .. 4^m − 1 ≥ size; walking each value along its cycle until it
    falls below `size` makes it one of 0 .. size − 1 (Black, Rogaway 2002, method 2). The cost is that of the ids asked
    for, whatever the size.

    >>> sorted(shuffled_places(np.arange(10), 10, 0, "order").tolist()) == list(range(10))
    True
    """
    half = np.uint64(max(1, math.ceil(math.log2(max(2, size)) / 2)))
    mask = (np.uint64(1) << half) - np.uint64(1)
    keys = stream(seed, *names).integers(0, 2**64, 6, dtype=np.uint64)
    places = ids.astype(np.uint64)
    walking = np.ones(len(ids), dtype=np.bool_)
    while walking.any():
        left, right = places[walking] >> half, places[walking] & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right + key) & mask)
        places[walking] = (left << half) | right
        walking = places >= np.uint64(size)
    return places.astype(np.int64)


def _mixed(words: Words) -> Words:
    """Return the words scrambled by the finaliser of SplitMix64, a bijection of 64 bits."""
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))
