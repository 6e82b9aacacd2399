"""Flower's records of arrays and the arrays in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import final

from flwr.app import Array, ArrayRecord

from steadfed.states._arrays import NDArray
from steadfed.states._layout import BUFFERS, ModelLayout


@final
class RecordNumbers(Mapping[str, NDArray]):
    """The arrays of a trusted record by name, each read when it is asked for.

    >>> import numpy as np
    >>> RecordNumbers(ArrayRecord([np.arange(3)]))["0"]
    array([0, 1, 2])
    """

    def __init__(self, record: ArrayRecord) -> None:
        self._record = record

    def __getitem__(self, name: str) -> NDArray:
        return self._record[name].numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)


def layout_of(record: ArrayRecord, buffers: Sequence[str] = BUFFERS) -> ModelLayout:
    """Return the layout of a trusted record; see `ModelLayout.of`."""
    return ModelLayout.of(RecordNumbers(record), buffers)


def record_of(arrays: Mapping[str, NDArray]) -> ArrayRecord:
    """Return a record of arrays by name."""
    return ArrayRecord({name: Array(value) for name, value in arrays.items()})
