"""What a client sent becomes a row and buffers here, or a `ReplyError`; there is no other way in."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

from steadfed.flower._npy import model_digest
from steadfed.flower._replies.npy import read_array
from steadfed.states._arrays import ArraySpec, NDArray
from steadfed.states._faults import Fault, only_reply_errors, refuse, type_of
from steadfed.states._layout import ModelLayout
from steadfed.states._validator import StateValidator, list_some


@final
class ReplyValidator:
    """Admits a reply that is a model like the trusted one, and nothing else.

    A reply must hold exactly one record of arrays, under the agreed key, with exactly the names of the model; every
    array must have the model's shape and dtype, in what is declared and in the bytes, and only finite numbers. In a
    round about some coordinates the layout is that of these: a whole model is then as malformed as half of one.

    Args:
        layout: what the model looks like.
        arrays_key: the key of the record of arrays.
        convert_dtypes: whether float16, float32 and float64, in either byte order, may stand for each other. A number
            that the model's dtype cannot hold counts as not finite.

    >>> layout = ModelLayout.of({"0": np.zeros(3, np.float32)})
    >>> validator, row = ReplyValidator(layout), np.empty(3, np.float32)
    >>> validator.admit(RecordDict({"arrays": ArrayRecord([np.ones(3, np.float32)])}), row)
    {}
    >>> row.tolist()
    [1.0, 1.0, 1.0]
    >>> validator.admit(RecordDict({"arrays": ArrayRecord([np.full(3, np.nan, np.float32)])}), row)
    Traceback (most recent call last):
    ...
    steadfed.errors.ReplyError: array '0': every number must be finite, got NaN or Inf
    """

    def __init__(self, layout: ModelLayout, *, arrays_key: str = "arrays", convert_dtypes: bool = False) -> None:
        self.layout = layout
        self.arrays_key = arrays_key
        self._arrays = StateValidator(layout, _write, convert_dtypes=convert_dtypes)

    def admit(self, content: RecordDict, row: NDArray) -> dict[str, NDArray]:
        """Write the parameters of a reply into `row` and return its buffers.

        Whatever the reply is, the only error is a `ReplyError`, after which the row holds nothing of use. Besides the
        row and the buffers, less than a megabyte is allocated.
        """
        with only_reply_errors():
            arrays = self._arrays_of(content)
        return self._arrays.admit(arrays, row)

    def digest(self, content: RecordDict) -> str:
        """Return the SHA-256 of the arrays of a reply as they came, once it was admitted: see `arrays_digest`.

        The only error is a `ReplyError`.
        """
        with only_reply_errors():
            return model_digest(self._arrays_of(content))

    def _arrays_of(self, content: RecordDict) -> ArrayRecord:
        """Return the one record of arrays."""
        if not isinstance(content, RecordDict):
            refuse(Fault.GARBAGE, f"the content must be a RecordDict, got {type_of(content)}")
        found = [key for key, record in content.items() if isinstance(record, ArrayRecord)]
        if found != [self.arrays_key]:
            refuse(Fault.KEYS, f"there must be one ArrayRecord, called {self.arrays_key!r}; got {list_some(found)}")
        record = content[self.arrays_key]
        if not isinstance(record, ArrayRecord):
            refuse(Fault.GARBAGE, "the record of arrays changes while it is read")
        return record


def _write(array: Any, spec: ArraySpec, target: NDArray, *, convert: bool) -> None:
    """Copy the numbers of an array of a reply."""
    if not isinstance(array, Array):
        refuse(Fault.GARBAGE, f"array {spec.name!r} must be an Array, got {type_of(array)}")
    np.copyto(target, read_array(array, spec, convert=convert), casting="same_kind")
