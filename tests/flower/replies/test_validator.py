"""The validator: a model like the trusted one comes in, everything else is a ReplyError."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import example, given, strategies as st
from hypothesis.extra import numpy as hnp

from steadfed.errors import DtypeError, ReplyError, ShapeError
from steadfed.flower._records import layout_of
from steadfed.flower._replies.validator import ReplyValidator
from steadfed.states._arrays import NDArray
from steadfed.states._faults import Fault


def model(**changes: NDArray) -> dict[str, Array]:
    arrays = {
        "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "bias": np.array([7, 8], np.float32),
        "running_mean": np.array([1, 2], np.float32),
        "count": np.array(9),
    }
    return {name: Array(value) for name, value in (arrays | changes).items()}


def reply(arrays: dict[str, Array], key: str = "arrays", **records: Any) -> RecordDict:
    return RecordDict({key: ArrayRecord(arrays), **records})


VALIDATOR = ReplyValidator(layout_of(ArrayRecord(model())))


def admitted(
    content: Any, validator: ReplyValidator = VALIDATOR, dtype: Any = np.float32
) -> tuple[NDArray, dict[str, NDArray]]:
    row = np.full(validator.layout.dim, np.nan, dtype)
    return row, validator.admit(content, row)


def fault_of(content: Any, validator: ReplyValidator = VALIDATOR) -> str:
    with pytest.raises(ReplyError) as caught:
        admitted(content, validator)
    assert len(str(caught.value)) < 1000
    assert isinstance(caught.value.fault, Fault)
    return caught.value.fault


def test_a_model_like_the_trusted_one_becomes_a_row_and_buffers() -> None:
    content = reply(model(count=np.array(11)), metrics=MetricRecord({"num-examples": 10**18}))
    row, buffers = admitted(content)
    assert row.tolist() == [0, 1, 2, 3, 4, 5, 7, 8]
    assert {name: value.tolist() for name, value in buffers.items()} == {"running_mean": [1, 2], "count": 11}
    assert all(value.flags.owndata and value.flags.writeable for value in buffers.values())


def test_the_order_of_the_arrays_does_not_matter() -> None:
    row, _ = admitted(reply(dict(reversed(model().items()))))
    assert row.tolist() == [0, 1, 2, 3, 4, 5, 7, 8]


def test_fortran_order_is_turned() -> None:
    row, _ = admitted(reply(model(weight=np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))))
    assert row.tolist() == [0, 1, 2, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["weight", "bias", "running_mean"])
def test_a_single_number_that_is_not_finite_is_found_at_every_place(bad: float, name: str) -> None:
    for place in range(model()[name].numpy().size):
        value = model()[name].numpy().copy()
        value.flat[place] = bad
        assert fault_of(reply(model(**{name: value}))) == Fault.NOT_FINITE


@pytest.mark.parametrize("place", [0, 65_535, 65_536, 199_999])
def test_a_nan_is_found_in_every_block_of_a_large_array(place: int) -> None:
    validator = ReplyValidator(layout_of(ArrayRecord([np.zeros(200_000, np.float32)])))
    value = np.zeros(200_000, np.float32)
    assert admitted(RecordDict({"arrays": ArrayRecord([value])}), validator)[0].sum() == 0
    value[place] = np.nan
    assert fault_of(RecordDict({"arrays": ArrayRecord([value])}), validator) == Fault.NOT_FINITE


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"arrays": MetricRecord()}),
        RecordDict({"arrays": ConfigRecord({"weight": 1.0})}),
        reply(model(), key="other"),
        reply(model(), second=ArrayRecord()),
        reply({}),
        reply({name: array for name, array in model().items() if name != "bias"}),
        reply(model(extra=np.zeros(1, np.float32))),
        reply({f"{name} ": array for name, array in model().items()}),
        reply({str(index): Array(np.zeros(0)) for index in range(10_000)}),
        reply({"x" * 10**6: Array(np.zeros(0))}),
    ],
)
def test_other_records_and_other_names_are_refused(content: RecordDict) -> None:
    assert fault_of(content) == Fault.KEYS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (3, "the content must be a RecordDict, got 'int'"),
        (RecordDict(), "there must be one ArrayRecord, called 'arrays'; got none"),
        (reply(model(), second=ArrayRecord()), "got 'arrays', 'second'"),
        (reply({}), "missing: 'bias', 'count', 'running_mean' and 1 more; extra: none"),
        (reply({name: each for name, each in model().items() if name == "weight"}), "'count', 'running_mean'; extra"),
        (reply(model(extra=np.zeros(1, np.float32))), "missing: none; extra: 'extra'"),
        (reply(model(**{name: np.zeros(1) for name in "abcde"})), "missing: none; extra: 'a', 'b', 'c' and 2 more"),
    ],
)
def test_a_refusal_names_what_is_missing_and_what_is_there_besides(content: Any, words: str) -> None:
    with pytest.raises(ReplyError) as caught:
        admitted(content)
    assert words in str(caught.value)


def test_only_with_conversion_other_floats_are_taken_and_what_overflows_is_not_finite() -> None:
    converting = ReplyValidator(VALIDATOR.layout, convert_dtypes=True)
    wide = reply(model(weight=np.arange(6.0).reshape(2, 3), bias=np.array([7, 8], ">f2")))
    assert fault_of(wide) == Fault.DTYPE
    assert admitted(wide, converting)[0].tolist() == [0, 1, 2, 3, 4, 5, 7, 8]
    assert fault_of(reply(model(bias=np.array([1e39, 0]))), converting) == Fault.NOT_FINITE
    assert fault_of(reply(model(running_mean=np.array([1e39, 0]))), converting) == Fault.NOT_FINITE
    assert fault_of(reply(model(bias=np.array([1, 2]))), converting) == Fault.DTYPE
    assert fault_of(reply(model(count=np.array(9, np.int32))), converting) == Fault.DTYPE


def test_a_number_that_fits_the_row_but_not_the_model_is_not_finite() -> None:
    half = ArrayRecord({"a": Array(np.zeros(2, np.float16))})
    validator = ReplyValidator(layout_of(half), convert_dtypes=True)
    assert fault_of(reply({"a": Array(np.array([1e6, 0]))}), validator) == Fault.NOT_FINITE
    assert fault_of(reply({"a": Array(np.array([np.nan, 0]))}), validator) == Fault.NOT_FINITE
    assert admitted(reply({"a": Array(np.array([65504.0, -65504.0]))}), validator)[0].tolist() == [65504, -65504]


def test_arrays_without_numbers_and_without_axes_are_admitted() -> None:
    arrays = {"empty": Array(np.zeros((0, 3), np.float32)), "scale": Array(np.array(2.5, np.float32))}
    validator = ReplyValidator(layout_of(ArrayRecord(arrays)))
    assert admitted(reply(arrays), validator)[0].tolist() == [2.5]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (np.zeros(7, np.float32), ShapeError),
        (np.zeros((8, 1), np.float32), ShapeError),
        (np.zeros(16, np.float32)[::2], ShapeError),
        (np.zeros(8, np.int64), DtypeError),
    ],
)
def test_a_row_that_cannot_take_the_parameters_is_the_callers_mistake(row: NDArray, error: type[Exception]) -> None:
    with pytest.raises(error):
        VALIDATOR.admit(reply(model()), row)


def test_hardly_any_memory_is_used_besides_the_row() -> None:
    value = np.ones((1000, 1000), np.float32)
    validator = ReplyValidator(layout_of(ArrayRecord([value])), convert_dtypes=True)
    row = np.empty(value.size, np.float32)
    for sent in (value, np.asfortranarray(value), value.astype(">f8")):
        content = RecordDict({"arrays": ArrayRecord([sent])})
        tracemalloc.start()
        validator.admit(content, row)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 400_000


def test_a_claim_of_a_terabyte_allocates_nothing() -> None:
    lie = Array(np.zeros((2, 3), np.float32))
    lie.shape = (2**38,)
    lie.data = lie.data.replace(b"(2, 3)", b"(2**38,)")
    tracemalloc.start()
    assert fault_of(reply(model() | {"weight": lie})) == Fault.SHAPE
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


# Nothing that a client can send makes it raise anything else.

anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**4000)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.just(np.zeros(3)),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple),
    max_leaves=20,
)
shapes = st.lists(st.integers(-3, 7) | st.booleans() | st.integers(), max_size=4).map(tuple) | st.just((2, 3))
dtypes = st.sampled_from(["float32", "<f4", ">f4", "float64", "object", "O", "V4", "i4,i4", "complex64"]) | st.text()
headers = st.builds(
    "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}".format,
    dtypes.map(repr) | anything.map(lambda value: ascii(value)[:200]),
    st.sampled_from(["False", "True", "0", "None"]),
    shapes.map(repr) | st.text(max_size=50),
) | st.text(max_size=300)
numbers = hnp.arrays(np.float32, (2, 3)).map(lambda value: value.tobytes()) | st.binary(max_size=40)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    header = draw(headers).encode("utf-8", "replace")
    version = draw(st.sampled_from([b"\1\0", b"\2\0", b"\3\0", b"\4\0"]))
    length = draw(st.just(len(header)) | st.integers(0, 65_535))
    return b"\x93NUMPY" + version + length.to_bytes(2 if version == b"\1\0" else 4, "little") + header + draw(numbers)


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    data = bytearray(Array(draw(hnp.arrays(np.float32, (2, 3)))).data)
    for place in draw(st.lists(st.integers(0, len(data) - 1), max_size=5)):
        data[place] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Return an array some of whose fields are anything or missing, often none of them, or no array at all."""
    array = Array(draw(hnp.arrays(np.float32, (2, 3))))
    wrong = {
        "dtype": dtypes | anything,
        "shape": shapes | anything,
        "stype": anything,
        "data": spoiled() | files() | st.binary() | anything,
    }
    for name in draw(st.sets(st.sampled_from(sorted(wrong)))):
        if draw(st.integers(0, 9)):
            array.__dict__[name] = draw(wrong[name])
        else:
            del array.__dict__[name]
    return array if draw(st.integers(0, 9)) else draw(anything)


def with_data(owner: Any, data: Any) -> Any:
    """Put anything into one of Flower's records, past its checks."""
    owner.__dict__["_data"] = data
    return owner


@given(arrays(), st.booleans())
@example(array=Array(np.arange(6, dtype=np.float32).reshape(2, 3)), convert=False)  # is admitted
@example(array=Array(np.arange(6, dtype=np.float64).reshape(2, 3)), convert=True)  # too
def test_whatever_an_array_is_the_gate_admits_it_or_raises_a_reply_error(array: Any, convert: bool) -> None:
    content = with_data(RecordDict(), {"arrays": with_data(ArrayRecord(), {**model(), "weight": array})})
    validator = ReplyValidator(VALIDATOR.layout, convert_dtypes=convert)
    row = np.full(validator.layout.dim, np.nan, np.float32)
    try:
        buffers = validator.admit(content, row)
    except ReplyError:
        return
    assert set(buffers) == {"running_mean", "count"}
    assert np.isfinite(row).all()
    assert row[:6].tolist() == array.numpy().astype(np.float32).ravel().tolist()
    assert row[6:].tolist() == [7, 8]


@given(
    st.dictionaries(st.text(max_size=5) | st.integers() | st.just("weight"), arrays() | anything, max_size=5),
    st.dictionaries(st.just("arrays") | st.text(max_size=5) | st.none(), anything, max_size=3),
    st.sampled_from([ArrayRecord, MetricRecord, ConfigRecord]),
)
def test_whatever_the_records_are_the_gate_raises_a_reply_error(inner: Any, outer: Any, record: Any) -> None:
    fault_of(with_data(RecordDict(), {"arrays": with_data(record(), inner), **outer}))
    fault_of(with_data(RecordDict(), inner))
    fault_of(with_data(RecordDict(), {"arrays": with_data(ArrayRecord(), outer)}))


@given(anything)
def test_whatever_the_content_is_the_gate_raises_a_reply_error(content: Any) -> None:
    fault_of(content)
    fault_of(with_data(RecordDict(), content))
    fault_of(with_data(RecordDict(), {"arrays": with_data(ArrayRecord(), content)}))


class Treacherous(Array):
    """An array that raises when it is looked at, with an error that cannot be shown."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        raise RuntimeError(self)

    def __repr__(self) -> str:
        raise RecursionError


class Unequal(str):
    """A name that cannot be compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    def __hash__(self) -> int:
        return hash("weight")


def test_objects_that_break_the_promises_of_their_class_are_garbage() -> None:
    array = Treacherous.__new__(Treacherous)
    array.__dict__.update(dtype="float32", shape=(2, 3), stype="numpy.ndarray")
    record = with_data(ArrayRecord(), model() | {"weight": array})
    assert fault_of(RecordDict({"arrays": record})) == Fault.GARBAGE
    names = {**{name: each for name, each in model().items() if name != "weight"}, Unequal("weight"): array}
    assert fault_of(RecordDict({"arrays": with_data(ArrayRecord(), names)})) == Fault.GARBAGE


def test_an_interrupt_is_no_fault_of_a_reply() -> None:
    class Interrupting(Array):
        @property
        def data(self) -> Any:  # type: ignore[override]
            raise KeyboardInterrupt

    array = Interrupting.__new__(Interrupting)
    array.__dict__.update(dtype="float32", shape=(2, 3), stype="numpy.ndarray")
    with pytest.raises(KeyboardInterrupt):
        admitted(RecordDict({"arrays": with_data(ArrayRecord(), model() | {"weight": array})}))
