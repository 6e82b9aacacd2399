"""The arrays of a reply become a row and buffers here, or a `ReplyError`; there is no other way in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Protocol, final

import numpy as np

from steadfed.errors import DtypeError, ShapeError
from steadfed.states._arrays import ArraySpec, Kind, NDArray
from steadfed.states._faults import Fault, describe_error, only_reply_errors, refuse, short_repr, type_of
from steadfed.states._layout import COORDINATES, ModelLayout

_BLOCK = 1 << 16  # numbers that are looked at together: the scratch stays in the cache
_MOST_NAMES = 100_000  # names that are looked at besides those of the model


class Write(Protocol):
    """How one array of a reply is read."""

    def __call__(self, value: Any, spec: ArraySpec, target: NDArray, /, *, convert: bool) -> None:
        """Copy its numbers into the target, whose dtype may be another if they are to be converted.

        Raises:
            ReplyError: it is not what the model has there.
        """


@final
class StateValidator:
    """Admits named arrays that are a model like the trusted one, and nothing else.

    There must be exactly the names of the model; every array must have the model's shape and dtype, and only finite
    numbers. In a round about some coordinates the layout is that of these: a whole model is then as malformed as half
    of one.

    Args:
        layout: what the model looks like.
        write: how one array is read; it believes nothing that the array says of itself.
        convert_dtypes: whether real numbers of another precision are converted. A number that the model's dtype cannot
            hold counts as not finite.
        describe: what is said of an error that nobody foresaw.
    """

    def __init__(
        self,
        layout: ModelLayout,
        write: Write,
        *,
        convert_dtypes: bool = False,
        describe: Callable[[Exception], str] = describe_error,
    ) -> None:
        self.layout, self.convert_dtypes = layout, convert_dtypes
        self._write, self._describe = write, describe

    def admit(self, arrays: Mapping[str, Any], row: NDArray) -> dict[str, NDArray]:
        """Write the parameters of a reply into `row` and return its buffers.

        Whatever the arrays are, the only error is a `ReplyError`, after which the row holds nothing of use. Besides the
        row and the buffers, less than a megabyte is allocated.
        """
        self._check_row(row)
        with only_reply_errors(self._describe), np.errstate(all="ignore"):  # what overflows is found by looking
            self._check_names(arrays)
            return self._admit(arrays, row)

    def _check_row(self, row: NDArray) -> None:
        """Refuse a row that cannot take the parameters: the caller's mistake, not the client's."""
        if row.dtype not in (np.float32, np.float64):
            raise DtypeError(f"the row must be float32 or float64, got {row.dtype}")
        if row.shape != (self.layout.dim,) or not row.flags.c_contiguous or not row.flags.writeable:
            raise ShapeError(
                f"the row must be writable, contiguous and of length {self.layout.dim}, got the shape {row.shape}"
            )

    def _admit(self, arrays: Mapping[str, Any], row: NDArray) -> dict[str, NDArray]:
        buffers = {}
        for spec in self.layout.specs:
            target = row[spec.columns].reshape(spec.shape) if spec.kind is Kind.PARAMETER else _room_for(spec)
            self._write(arrays[spec.name], spec, target, convert=self.convert_dtypes)
            _check_finite(target.reshape(-1), spec)
            if spec.kind is not Kind.PARAMETER:
                buffers[spec.name] = target
        return buffers

    def _check_names(self, arrays: Mapping[str, Any]) -> None:
        names = {spec.name for spec in self.layout.specs}
        sent = list(islice(arrays, len(names) + _MOST_NAMES))
        if len(sent) == len(names) and names == set(sent):
            return
        missing, extra = sorted(names - set(sent)), [name for name in sent if name not in names]
        wanted = "those of the model"
        if self.layout.is_of_coordinates:
            wanted = f"{COORDINATES!r}, the {self.layout.dim} coordinates that were asked for, and the model's buffers"
        refuse(Fault.KEYS, f"the arrays must be {wanted}; missing: {list_some(missing)}; extra: {list_some(extra)}")


def list_some(names: Iterable[Any]) -> str:
    """Return the first few names and how many there are.

    >>> list_some(["a", "b", "c", "d", "e"]), list_some([]), list_some([3])
    ("'a', 'b', 'c' and 2 more", 'none', "a name of the type 'int'")
    """
    found = list(names)
    shown = (short_repr(each) if type(each) is str else f"a name of the type {type_of(each)}" for each in found[:3])
    listed = ", ".join(shown)
    return f"{listed} and {len(found) - 3} more" if len(found) > 3 else listed or "none"


def _room_for(spec: ArraySpec) -> NDArray:
    """Return room for a buffer, so that the bytes of the whole reply are not kept for it."""
    return np.empty(spec.shape, spec.held)


def _check_finite(values: NDArray, spec: ArraySpec) -> None:
    """Refuse NaN, Inf and what the model's dtype cannot hold, a block at a time."""
    if spec.kind is Kind.OTHER_BUFFER:
        return
    narrower, largest = spec.largest < float(np.finfo(values.dtype).max), spec.largest
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        fine: Any = np.abs(block) <= largest if narrower else np.isfinite(block)
        if not fine.all():
            refuse(Fault.NOT_FINITE, f"array {spec.name!r}: every number must be finite, got NaN or Inf")
