"""What exactly malformed replies do to the arrays and records of an honest one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flwr.app import Array, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from steadfed._core.rng import stream
from steadfed.flower.redteam._forging import (
    Forge,
    Record,
    arrays_key,
    arrays_of,
    is_float,
    layers,
    records,
    with_arrays,
)


def spoiled(value: float, where: slice | int = slice(None)) -> Any:
    """Return a function that puts a number into some places of the flattened values."""

    def change(values: NDArray[Any]) -> NDArray[Any]:
        flat = values.copy().reshape(-1)
        flat[where] = min(value, float(np.finfo(flat.dtype).max)) if math.isfinite(value) else value
        return flat.reshape(values.shape)

    return change


def last_spoiled(arrays: dict[str, Array]) -> dict[str, Array]:
    """Return NaN in the first place of the last array of floats."""
    name = [name for name, each in arrays.items() if is_float(each)][-1]
    return arrays | {name: Array(spoiled(math.nan, 0)(arrays[name].numpy()))}


def wider(values: NDArray[Any]) -> NDArray[Any]:
    """Return one column more, or one number more."""
    flat = np.atleast_1d(values)
    return np.concatenate([flat, flat[..., :1]], axis=-1)


def broadcastable(values: NDArray[Any]) -> NDArray[Any]:
    """Return what numpy would silently stretch to the right shape."""
    return values[:1].copy() if values.ndim and values.shape[0] > 1 else values[None].copy()


def transposed(values: NDArray[Any]) -> NDArray[Any]:
    """Return the transpose, or a column if that has the same shape."""
    return values.T.copy() if values.shape != values.shape[::-1] else values[..., None].copy()


def hidden_transpose(array: Array) -> Array:
    """Return the transpose, said to have the right shape."""
    return Array(array.dtype, array.shape, array.stype, Array(transposed(array.numpy())).data)


def other_order(array: Array, *, said: bool) -> Array:
    """Return the numbers in the other byte order, as is said or not."""
    values = array.numpy()
    swapped = Array(values.astype(values.dtype.newbyteorder()))
    return swapped if said else Array(array.dtype, array.shape, array.stype, swapped.data)


def hidden_double(array: Array) -> Array:
    """Return float64, said to be the right dtype."""
    return Array(array.dtype, array.shape, array.stype, Array(array.numpy().astype(np.float64)).data)


def without_first(arrays: dict[str, Array]) -> dict[str, Array]:
    """Leave out the first array."""
    return {name: arrays[name] for name in list(arrays)[1:]}


def renamed(arrays: dict[str, Array], suffix: str) -> dict[str, Array]:
    """Add something to the name of the first array."""
    first = next(iter(arrays))
    return {f"{name}{suffix}" if name == first else name: each for name, each in arrays.items()}


def with_extra(number: int, size: int) -> Forge:
    """Add so many arrays of so many zeros."""
    return layers(lambda arrays: arrays | {f"extra.{i}": Array(np.zeros(size, np.float32)) for i in range(number)})


def only(kind: type[Record]) -> Forge:
    """Keep only records of a kind."""
    return records(lambda all_records: {key: r for key, r in all_records.items() if isinstance(r, kind)})


def moved(content: RecordDict, _sent: RecordDict) -> RecordDict:
    """Put the arrays under another key."""
    key = arrays_key(content)
    return RecordDict({f"{each}-too" if each == key else each: record for each, record in content.items()})


def second(content: RecordDict, _sent: RecordDict) -> RecordDict:
    """Add a second record of arrays."""
    return RecordDict({**content, "more-arrays": content[arrays_key(content)]})


def instead(kind: type[ConfigRecord | MetricRecord]) -> Forge:
    """Put the numbers into a record of another kind, under the key of the arrays."""

    def forge(content: RecordDict, _sent: RecordDict) -> RecordDict:
        lists: dict[str, Any] = {name: each.numpy().ravel().tolist() for name, each in arrays_of(content).items()}
        key = arrays_key(content)
        return RecordDict({each: kind(lists) if each == key else record for each, record in content.items()})

    return forge


def stale(content: RecordDict, sent: RecordDict) -> RecordDict:
    """Return the arrays that came."""
    return with_arrays(content, arrays_of(sent))


def garbage(data: bytes) -> bytes:
    """Return as many random bytes."""
    return stream(0, "garbage", len(data)).bytes(len(data))


def thousandfold(values: NDArray[Any]) -> NDArray[Any]:
    """Multiply by a thousand, as far as the dtype goes."""
    largest = float(np.finfo(values.dtype).max)
    return np.asarray(np.clip(values.astype(np.float64) * 1000.0, -largest, largest).astype(values.dtype))


def denormal(values: NDArray[Any]) -> NDArray[Any]:
    """Return the smallest number above 0 everywhere."""
    return np.full_like(values, np.finfo(values.dtype).smallest_subnormal)


def backwards(arrays: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays in the opposite order."""
    return dict(reversed(arrays.items()))


def with_config(every: dict[str, Record]) -> dict[str, Record]:
    """Add a record that nobody asked for."""
    return every | {"config-too": ConfigRecord({"text": "", "secret": b"bytes"})}


def without_number(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out num-examples."""
    return {name: value for name, value in values.items() if name != "num-examples"}


def listed(values: dict[str, Any]) -> dict[str, Any]:
    """Return every metric as a list."""
    return {name: [float(value)] * 3 for name, value in values.items()}


def many(values: dict[str, Any]) -> dict[str, Any]:
    """Add thousands of metrics."""
    return values | {f"metric-{i}": float(i) for i in range(5000)}
