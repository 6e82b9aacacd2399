"""Randomness: one root seed, named independent streams, a generator passed in.

No code of holdfast touches a global random state, so two runs in one process cannot influence each other and the
numbers of one stream do not depend on how often another was used.
"""

from __future__ import annotations

import hashlib
import operator

import numpy as np

from holdfast.errors import ParameterError


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
        msg = f"seed must be an integer >= 0, got {seed!r}"
        raise ParameterError(msg)
    # repr of a tuple of ints and strings is unambiguous: 1 and "1" differ, and no separator can be forged.
    words = [name if isinstance(name, str) else operator.index(name) for name in names]
    digest = hashlib.blake2b(repr((seed, *words)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
