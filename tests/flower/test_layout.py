"""The layout of a trusted model, and medians of buffers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from holdfast.errors import DtypeError, ParameterError
from holdfast.flower.layout import Kind, ModelLayout, NDArray, combined_buffers


def record(**arrays: NDArray) -> ArrayRecord:
    return ArrayRecord({name.replace("__", "."): Array(value) for name, value in arrays.items()})


def mixed() -> ArrayRecord:
    return record(
        conv__weight=np.arange(6, dtype=np.float32).reshape(2, 3),
        bn__running_mean=np.zeros(2, np.float32),
        bn__running_var=np.ones(2, np.float32),
        bn__num_batches_tracked=np.array(3),
        scale=np.array(2.5, np.float32),
        empty=np.zeros((0, 3), np.float32),
        mask=np.array([True, False]),
        half=np.array([1, 2], np.float16),
    )


def test_parameters_lie_one_after_the_other_and_buffers_beside_the_row() -> None:
    layout = ModelLayout.of(mixed())
    assert [(spec.name, spec.offset) for spec in layout.parameters] == [
        ("conv.weight", 0),
        ("scale", 6),
        ("empty", 7),
        ("half", 7),
    ]
    assert layout.dim == 9
    assert layout.dtype == torch.float32
    assert layout.parameters_of(mixed()).tolist() == [0, 1, 2, 3, 4, 5, 2.5, 1, 2]
    assert {spec.name: spec.kind for spec in layout.buffers} == {
        "bn.running_mean": Kind.FLOAT_BUFFER,
        "bn.running_var": Kind.FLOAT_BUFFER,
        "bn.num_batches_tracked": Kind.OTHER_BUFFER,
        "mask": Kind.OTHER_BUFFER,
    }
    assert layout.nbytes == sum(array.numpy().nbytes for array in mixed().values())


def test_arrays_made_from_a_row_are_like_the_trusted_ones() -> None:
    layout, model = ModelLayout.of(mixed()), mixed()
    again = layout.to_arrays(layout.parameters_of(model), layout.buffers_of(model))
    assert list(again) == list(model)
    for name, array in model.items():
        assert (again[name].dtype, again[name].shape) == (array.dtype, array.shape)
        assert again[name].numpy().tobytes() == array.numpy().tobytes()


def test_a_float64_parameter_makes_the_row_float64() -> None:
    layout = ModelLayout.of(record(a=np.ones(1, np.float32), b=np.array([1e300])))
    assert layout.dtype == torch.float64
    assert layout.parameters_of(record(a=np.ones(1, np.float32), b=np.array([1e300]))).tolist() == [1.0, 1e300]


def test_a_number_beyond_the_range_of_float16_becomes_the_largest_one() -> None:
    layout = ModelLayout.of(record(a=np.ones(3, np.float16)))
    new = layout.to_arrays(torch.tensor([1e6, -1e6, 0.5]), {})
    assert new["a"].numpy().tolist() == [65504.0, -65504.0, 0.5]


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (record(a=np.ones(2, np.complex64)), DtypeError),
        (record(a=np.array(["x"])), DtypeError),
        (record(a=np.ones(2, ">f4")), DtypeError),
        (record(a=np.ones(2, np.longdouble)), DtypeError),
        (record(a=np.array([1, np.nan], np.float32)), ParameterError),
        (record(a=np.ones(1, np.float32), running_var=np.array([np.inf], np.float32)), ParameterError),
        (record(a=np.array(1)), ParameterError),
        (record(running_mean=np.ones(2, np.float32)), ParameterError),
        (record(empty=np.ones(0, np.float32)), ParameterError),
        (ArrayRecord(), ParameterError),
    ],
)
def test_what_cannot_be_a_model_is_refused(model: ArrayRecord, error: type[Exception]) -> None:
    with pytest.raises(error):
        ModelLayout.of(model)


def test_another_record_or_row_is_refused_by_name_shape_and_dtype() -> None:
    layout = ModelLayout.of(record(a=np.ones(2, np.float32)))
    for other in (
        record(b=np.ones(2, np.float32)),
        record(a=np.ones(3, np.float32)),
        record(a=np.ones(2)),
        record(a=np.ones(2, np.float32), b=np.ones(1, np.float32)),
    ):
        with pytest.raises(ParameterError, match=r"'a'|arrays a"):
            layout.parameters_of(other)
    with pytest.raises(ParameterError, match=r"\(3,\)"):
        layout.to_arrays(torch.ones(3), {})


def test_the_fingerprint_tells_names_shapes_dtypes_and_kinds_apart() -> None:
    ones = np.ones((2, 3), np.float32)
    models = [record(a=ones), record(b=ones), record(a=ones.T), record(a=ones.astype(np.float16))]
    layouts = [ModelLayout.of(model) for model in models]
    layouts.append(ModelLayout.of(record(a=ones, b=ones)))
    layouts.append(ModelLayout.of(record(a=ones, b=ones), buffers=["b"]))
    assert len({layout.fingerprint() for layout in layouts}) == len(layouts)
    assert layouts[0].fingerprint() == ModelLayout.of(record(a=ones * 7)).fingerprint()


def test_buffers_are_medians_and_integers_lower_ones() -> None:
    before = {"mean": np.zeros(2, np.float32), "count": np.array(0), "flag": np.array([False])}
    rows = [
        {"mean": np.array([value, -value], np.float32), "count": np.array(int(value)), "flag": np.array([value > 1])}
        for value in (1.0, 2.0, 3.0, 1e30)
    ]
    combined = combined_buffers(rows, before)
    assert combined["mean"].tolist() == [2.5, -2.5]
    assert combined["mean"].dtype == np.float32
    assert combined["count"].tolist() == 2
    assert combined["flag"].tolist() == [True]
    assert combined_buffers(rows[:2], before)["flag"].tolist() == [False]


def test_without_a_reply_buffers_stay_and_are_not_aliased() -> None:
    before = {"mean": np.zeros(2, np.float32)}
    combined = combined_buffers([], before)
    combined["mean"] += 1
    assert before["mean"].tolist() == [0, 0]


def test_a_variance_does_not_become_negative() -> None:
    before = {"running_var": np.array([1, 2, 0], np.float32), "other": np.array([1.0])}
    rows = [{"running_var": np.array([-5, 3, -1], np.float32), "other": np.array([-1.0])}] * 3
    combined = combined_buffers(rows, before)
    assert combined["running_var"].tolist() == [1, 3, 0]
    assert combined["other"].tolist() == [-1]


def test_the_median_of_the_largest_numbers_is_finite() -> None:
    largest = np.finfo(np.float32).max
    rows = [{"mean": np.array([largest], np.float32)}, {"mean": np.array([largest / 2], np.float32)}]
    assert np.isfinite(combined_buffers(rows, {"mean": np.zeros(1, np.float32)})["mean"]).all()


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 7), st.integers(0, 4)), elements=st.floats(-1e3, 1e3, width=32)))
def test_buffers_agree_with_the_median_of_numpy(values: NDArray) -> None:
    combined = combined_buffers([{"mean": row} for row in values], {"mean": values[0] * 0})
    np.testing.assert_allclose(combined["mean"], np.median(values, axis=0), rtol=1e-6, atol=1e-30)
