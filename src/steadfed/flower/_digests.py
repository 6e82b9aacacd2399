"""What a model is called: the one name of its arrays, for what the server sends, makes and receives."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord

from steadfed._core.digests import ArrayParts, arrays_digest


def model_digest(arrays: ArrayRecord) -> str:
    """Return the SHA-256 of the arrays of a record, see `arrays_digest`: names, dtypes, shapes and numbers.

    >>> one = ArrayRecord({"a": Array(np.arange(6.0).reshape(2, 3)), "b": Array(np.array(7))})
    >>> other = ArrayRecord({"b": Array(np.array(7)), "a": Array(np.asfortranarray(np.arange(6.0).reshape(2, 3)))})
    >>> model_digest(one) == model_digest(other)
    True
    """
    return arrays_digest(_parts(name, array) for name, array in arrays.items())


def _parts(name: str, array: Array) -> ArrayParts:
    values = array.numpy()
    numbers = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return name, values.dtype.name, values.shape, numbers.reshape(-1).view(np.uint8).data
