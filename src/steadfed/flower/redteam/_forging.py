"""Small tools that turn an honest reply into another one, without changing the honest one."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.app.message.arraychunk import ArrayChunk
from numpy.typing import DTypeLike, NDArray

from steadfed.errors import ParameterError
from steadfed.flower._npy import header_bytes

Forge = Callable[[RecordDict, RecordDict], RecordDict]
"""What the client would honestly send, and what it was sent -> what it sends instead."""
Record = ArrayRecord | MetricRecord | ConfigRecord


def arrays_key(content: RecordDict) -> str:
    """Return under which name a content holds its arrays; raises `ParameterError` if it has none."""
    for key in content.array_records:
        return key
    raise ParameterError(f"there must be an ArrayRecord to forge, got {list(content) or 'nothing'}")


def arrays_of(content: RecordDict) -> dict[str, Array]:
    """Return the arrays of a content by name, in order."""
    return dict(content.array_records[arrays_key(content)].items())


def is_float(array: Array) -> bool:
    """Tell whether an honest array holds floats."""
    return np.dtype(array.dtype).kind == "f"


def largest(arrays: Mapping[str, Array]) -> str:
    """Return the name of the array with most floats, the first of several."""
    return max(arrays, key=lambda name: (is_float(arrays[name]), len(arrays[name].data)))


def records(change: Callable[[dict[str, Record]], Mapping[str, Record]]) -> Forge:
    """Replace the records of the reply."""
    return lambda content, _sent: RecordDict(dict(change(dict(content.items()))))


def with_arrays(content: RecordDict, arrays: Mapping[str, Array]) -> RecordDict:
    """Return a content with other arrays, in the same place; arrays are taken as they are, not copied."""
    record = ArrayRecord()
    for name, array in arrays.items():
        record[name] = array
    key = arrays_key(content)
    return RecordDict({each: record if each == key else other for each, other in content.items()})


def layers(change: Callable[[dict[str, Array]], Mapping[str, Array]]) -> Forge:
    """Replace the arrays of the reply."""
    return lambda content, _sent: with_arrays(content, change(arrays_of(content)))


def one_array(change: Callable[[Array], Array]) -> Forge:
    """Replace the largest array."""

    def changed(arrays: dict[str, Array]) -> dict[str, Array]:
        name = largest(arrays)
        return arrays | {name: change(arrays[name])}

    return layers(changed)


def numbers(change: Callable[[NDArray[Any]], NDArray[Any]]) -> Forge:
    """Replace the numbers of the largest array; dtype and shape are said to be what they become."""
    return one_array(lambda array: Array(change(array.numpy())))


def all_numbers(change: Callable[[NDArray[Any]], NDArray[Any]]) -> Forge:
    """Replace the numbers of every array of floats."""
    return layers(
        lambda arrays: {name: Array(change(each.numpy())) if is_float(each) else each for name, each in arrays.items()}
    )


def cast(dtype: DTypeLike) -> Forge:
    """Send every array of floats in another dtype."""
    return all_numbers(lambda values: values.astype(dtype))


def data(change: Callable[[bytes], bytes]) -> Forge:
    """Replace the bytes of the largest array, and nothing that is said about them."""
    return one_array(lambda array: Array(array.dtype, array.shape, array.stype, change(array.data)))


def claims(*, dtype: str | None = None, shape: tuple[int, ...] | None = None, stype: str | None = None) -> Forge:
    """Say something else about the bytes of the largest array, which stay."""
    return one_array(
        lambda array: Array(
            array.dtype if dtype is None else dtype,
            array.shape if shape is None else shape,
            array.stype if stype is None else stype,
            array.data,
        )
    )


def header(*, said: bool = False, **changed: Any) -> Forge:
    """Write another .npy header before the numbers of the largest array.

    Args:
        said: whether dtype and shape beside the bytes are changed with it.
        changed: what is changed, of "descr", "fortran_order" and "shape".
    """

    def rewritten(array: Array) -> Array:
        values = array.numpy()
        entries: dict[str, Any] = {"descr": values.dtype.str, "fortran_order": False, "shape": values.shape} | changed
        dtype = str(entries["descr"]) if said and "descr" in changed else array.dtype
        shape = entries["shape"] if said else array.shape
        return Array(dtype, tuple(shape), array.stype, header_bytes(repr(entries)) + values.tobytes())

    return one_array(rewritten)


def raw_header(text: str, version: tuple[int, int] = (1, 0)) -> Forge:
    """Write any text where the .npy header of the largest array belongs."""
    return one_array(
        lambda array: Array(
            array.dtype, array.shape, array.stype, header_bytes(text, version) + array.numpy().tobytes()
        )
    )


def pickled_objects(array: Array) -> Array:
    """Return as many pickled Nones as the array has numbers: what a reader that unpickles would execute."""
    buffer = io.BytesIO()
    np.save(buffer, np.full(array.numpy().shape, None, dtype=object), allow_pickle=True)
    return Array("object", array.shape, array.stype, buffer.getvalue())


def chunk_bomb(array: Array) -> Array:
    """Return an array that takes 64 kB to send and 4 GiB to put together.

    Flower sends the bytes of an array in chunks, each chunk once, and a list of which chunk comes when. Here one chunk
    is listed 65,536 times. The list lies where Flower's own `Array.slice_array` looks for it before it cuts.
    """
    bomb = Array(array.dtype, array.shape, array.stype, b"")
    chunk = ArrayChunk(memoryview(bytes(2**16)))
    vars(bomb)["_chunks"] = [(chunk.object_id, chunk)] * 2**16
    return bomb


def metrics(change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Forge:
    """Replace the metrics of the reply."""

    def changed(all_records: dict[str, Record]) -> dict[str, Record]:
        return {
            key: MetricRecord(dict(change(dict(record.items())))) if isinstance(record, MetricRecord) else record
            for key, record in all_records.items()
        }

    return records(changed)


def num_examples(change: Callable[[Any], Any]) -> Forge:
    """Lie about the number of examples."""
    return metrics(lambda values: values | {"num-examples": change(values.get("num-examples", 1))})
