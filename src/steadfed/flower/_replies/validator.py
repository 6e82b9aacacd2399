"""What a client sent becomes a row and buffers here, or a `ReplyError`; there is no other way in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, final

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

from steadfed.errors import DtypeError, ReplyError, ShapeError
from steadfed.flower._faults import Fault
from steadfed.flower._layout import COORDINATES, ArraySpec, Kind, ModelLayout, NDArray
from steadfed.flower._npy import model_digest
from steadfed.flower._replies.npy import describe_error, read_array, short_repr

_BLOCK = 1 << 16  # numbers that are looked at together: the scratch stays in the cache


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

    >>> model = ArrayRecord([np.zeros(3, np.float32)])
    >>> validator, row = ReplyValidator(ModelLayout.of(model)), np.empty(3, np.float32)
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
        self.convert_dtypes = convert_dtypes

    def admit(self, content: RecordDict, row: NDArray) -> dict[str, NDArray]:
        """Write the parameters of a reply into `row` and return its buffers.

        Whatever the reply is, the only error is a `ReplyError`, after which the row holds nothing of use. Besides the
        row and the buffers, less than a megabyte is allocated.
        """
        self._check_row(row)
        with _nothing_but_reply_errors(), np.errstate(all="ignore"):  # what overflows is found by looking
            return self._admit(content, row)

    def digest(self, content: RecordDict) -> str:
        """Return the SHA-256 of the arrays of a reply as they came, once it was admitted: see `arrays_digest`.

        The only error is a `ReplyError`.
        """
        with _nothing_but_reply_errors():
            return model_digest(self._arrays_of(content))

    def _check_row(self, row: NDArray) -> None:
        """Refuse a row that cannot take the parameters: the caller's mistake, not the client's."""
        if row.dtype not in (np.float32, np.float64):
            raise DtypeError(f"the row must be float32 or float64, got {row.dtype}")
        if row.shape != (self.layout.dim,) or not row.flags.c_contiguous or not row.flags.writeable:
            raise ShapeError(
                f"the row must be writable, contiguous and of length {self.layout.dim}, got the shape {row.shape}"
            )

    def _admit(self, content: RecordDict, row: NDArray) -> dict[str, NDArray]:
        arrays = self._arrays_of(content)
        self._check_names(arrays)
        buffers = {}
        for spec in self.layout.specs:
            array = arrays[spec.name]
            if not isinstance(array, Array):
                _refuse(Fault.GARBAGE, f"array {spec.name!r} must be an Array, got {short_repr(type(array).__name__)}")
            values = read_array(array, spec, convert=self.convert_dtypes)
            target = row[spec.columns].reshape(spec.shape) if spec.kind is Kind.PARAMETER else _room_for(spec)
            np.copyto(target, values, casting="same_kind")
            _check_finite(target.reshape(-1), spec)
            if spec.kind is not Kind.PARAMETER:
                buffers[spec.name] = target
        return buffers

    def _arrays_of(self, content: RecordDict) -> ArrayRecord:
        """Return the one record of arrays."""
        if not isinstance(content, RecordDict):
            _refuse(Fault.GARBAGE, f"the content must be a RecordDict, got {short_repr(type(content).__name__)}")
        found = [key for key, record in content.items() if isinstance(record, ArrayRecord)]
        if found != [self.arrays_key]:
            _refuse(Fault.KEYS, f"there must be one ArrayRecord, called {self.arrays_key!r}; got {_list_some(found)}")
        record = content[self.arrays_key]
        if not isinstance(record, ArrayRecord):
            _refuse(Fault.GARBAGE, "the record of arrays changes while it is read")
        return record

    def _check_names(self, arrays: ArrayRecord) -> None:
        names = {spec.name for spec in self.layout.specs}
        sent = list(arrays)
        if len(sent) == len(names) and names == set(sent):
            return
        missing, extra = sorted(names - set(sent)), [name for name in sent if name not in names]
        wanted = "those of the model"
        if self.layout.is_of_coordinates:
            wanted = f"{COORDINATES!r}, the {self.layout.dim} coordinates that were asked for, and the model's buffers"
        _refuse(
            Fault.KEYS,
            f"the arrays must be {wanted}; missing: {_list_some(missing)}; extra: {_list_some(extra)}",
        )


@contextmanager
def _nothing_but_reply_errors() -> Iterator[None]:
    """Turn whatever a reply makes go wrong into a `ReplyError`."""
    try:
        yield
    except ReplyError:
        raise
    # The safety net. Everything known to go wrong is refused by name below and in `npy`. What is left are objects
    # that do not behave as their class says (a record whose keys cannot be compared, an array without its
    # fields) and failures of the parsers that nobody has seen yet. All of it is one client's doing, and one client
    # must not end the round of all others; the fault and the error are on record. It stands here and not further
    # in because this is where the last thing that a client sent is touched. What is not an `Exception` passes: an
    # interrupt or the end of the run is no property of a reply.
    except Exception as error:
        raise ReplyError(Fault.GARBAGE, f"the reply cannot be read: {describe_error(error)}") from error


def _room_for(spec: ArraySpec) -> NDArray:
    """Return room for a buffer, so that the bytes of the whole reply are not kept for it."""
    return np.empty(spec.shape, spec.dtype)


def _check_finite(values: NDArray, spec: ArraySpec) -> None:
    """Refuse NaN, Inf and what the model's dtype cannot hold, a block at a time."""
    if spec.kind is Kind.OTHER_BUFFER:
        return
    narrower = spec.dtype.itemsize < values.dtype.itemsize
    largest = np.finfo(spec.dtype).max
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        fine: Any = np.abs(block) <= largest if narrower else np.isfinite(block)
        if not fine.all():
            _refuse(Fault.NOT_FINITE, f"array {spec.name!r}: every number must be finite, got NaN or Inf")


def _list_some(names: list[Any]) -> str:
    """Return the first few names and how many there are."""
    listed = ", ".join(short_repr(name) for name in names[:3])
    return f"{listed} and {len(names) - 3} more" if len(names) > 3 else listed or "none"


def _refuse(fault: Fault, detail: str) -> NoReturn:
    raise ReplyError(fault, detail)
