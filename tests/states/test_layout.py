"""The layout of a trusted model, and medians of buffers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from steadfed.errors import DtypeError, ParameterError
from steadfed.states._arrays import Kind, Numbers
from steadfed.states._layout import ModelLayout


def record(**arrays: Numbers) -> dict[str, Numbers]:
    return {name.replace("__", "."): value for name, value in arrays.items()}


def mixed() -> dict[str, Numbers]:
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
    assert layout.nbytes == sum(array.nbytes for array in mixed().values())


def test_arrays_made_from_a_row_are_like_the_trusted_ones() -> None:
    layout, model = ModelLayout.of(mixed()), mixed()
    again = layout.to_arrays(layout.parameters_of(model), layout.buffers_of(model))
    assert list(again) == list(model)
    for name, array in model.items():
        assert (again[name].dtype, again[name].shape) == (array.dtype, array.shape)
        assert again[name].tobytes() == np.asarray(array).tobytes()


def test_a_float64_parameter_makes_the_row_float64() -> None:
    layout = ModelLayout.of(record(a=np.ones(1, np.float32), b=np.array([1e300])))
    assert layout.dtype == torch.float64
    assert layout.parameters_of(record(a=np.ones(1, np.float32), b=np.array([1e300]))).tolist() == [1.0, 1e300]


def test_a_number_beyond_the_range_of_float16_becomes_the_largest_one() -> None:
    layout = ModelLayout.of(record(a=np.ones(3, np.float16)))
    new = layout.to_arrays(torch.tensor([1e6, -1e6, 0.5]), {})
    assert new["a"].tolist() == [65504.0, -65504.0, 0.5]


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
        ({}, ParameterError),
    ],
)
def test_what_cannot_be_a_model_is_refused(model: dict[str, Numbers], error: type[Exception]) -> None:
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


def test_a_state_holds_what_the_arrays_hold_and_gives_it_back() -> None:
    arrays = record(
        mean=np.array([1.5, 2.5], np.float16), a=np.ones((2, 3), np.float32), count=np.array(7), var=np.array([3.25])
    )
    layout = ModelLayout.of(arrays, buffers=["mean", "var"])
    state = layout.state_of(arrays, round=4)
    assert (state.round, state.model.tolist(), state.model.dtype) == (4, [1.0] * 6, torch.float32)
    assert (state.buffers.tolist(), state.buffers.dtype) == ([1.5, 2.5, 3.25], torch.float64)
    assert {name: value.tolist() for name, value in state.counters.items()} == {"count": 7}
    back = layout.arrays_of(state)
    assert list(back) == list(arrays)
    for name, array in back.items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name])


def test_buffers_of_replies_are_stacked_one_row_a_reply() -> None:
    arrays = record(a=np.ones(2, np.float32), running_mean=np.zeros(2, np.float32), count=np.array(0))
    layout = ModelLayout.of(arrays)
    replies = [{"running_mean": np.array([n, -n], np.float32), "count": np.array(n)} for n in (1, 2)]
    rows, counters = layout.stack_buffers(replies)
    assert rows.tolist() == [[1, -1], [2, -2]]
    assert [each["count"].tolist() for each in counters] == [1, 2]
    assert len(layout.stack_buffers([])[0]) == 0


def test_a_model_is_rounded_to_what_its_arrays_hold() -> None:
    half = record(a=np.zeros(1, np.float16))
    layout = ModelLayout.of(half)
    state = layout.state_of(half)
    rounded = layout.representable(replace(state, model=torch.tensor([1.0 + 2**-12])))
    assert rounded.model.tolist() == [1.0]
    single = ModelLayout.of(record(a=np.zeros(1, np.float32))).state_of(record(a=np.zeros(1, np.float32)))
    assert ModelLayout.of(record(a=np.zeros(1, np.float32))).representable(single) is single
