"""One name for a model: whoever computes it, and no other model has it."""

import numpy as np
import pytest

from steadfed._core.digests import ArrayParts, arrays_digest


def parts(name: str, values: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> ArrayParts:
    return name, str(values.dtype), values.shape, values.tobytes()


WEIGHT, BIAS = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(3, np.float32)


def test_the_order_of_arrays_does_not_matter() -> None:
    arrays = [parts("weight", WEIGHT), parts("bias", BIAS)]
    assert arrays_digest(arrays) == arrays_digest(arrays[::-1])


@pytest.mark.parametrize(
    "other",
    [
        [parts("weight", WEIGHT), parts("bias2", BIAS)],
        [parts("weight", WEIGHT.reshape(3, 2)), parts("bias", BIAS)],
        [parts("weight", WEIGHT), ("bias", "int32", (3,), BIAS.tobytes())],
        [parts("weight", WEIGHT), parts("bias", BIAS + 1)],
        [parts("weight", WEIGHT)],
        [parts("weight", BIAS), parts("bias", WEIGHT)],
    ],
    ids=["name", "shape", "dtype", "numbers", "fewer", "swapped"],
)
def test_another_model_has_another_name(other: list[ArrayParts]) -> None:
    assert arrays_digest(other) != arrays_digest([parts("weight", WEIGHT), parts("bias", BIAS)])
