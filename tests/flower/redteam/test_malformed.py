"""Malformed replies are what they say they are, and Flower itself can send them."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import InflatableObject, get_all_nested_objects

from steadfed._core.rng import stream
from steadfed.attacks import ATTACKS
from steadfed.errors import ParameterError, ReplyError
from steadfed.flower._records import layout_of
from steadfed.flower._replies.validator import ReplyValidator
from steadfed.flower.redteam import _malformed as module
from steadfed.flower.redteam._malformed import MALFORMED

HIDDEN = {"chunk-bomb"}
"""What cannot be put together in a test."""


def arrays(seed: int) -> ArrayRecord:
    draw = stream(seed, "arrays")
    values = {
        "bias": draw.standard_normal(4).astype(np.float32),
        "weight": draw.standard_normal((4, 3)).astype(np.float32),
        "running_var": draw.random(4).astype(np.float32),
        "num_batches_tracked": np.array(7),
    }
    return ArrayRecord({name: Array(each) for name, each in values.items()})


def honest() -> RecordDict:
    return RecordDict({"arrays": arrays(0), "metrics": MetricRecord({"num-examples": 12, "loss": 0.5})})


def sent() -> RecordDict:
    return RecordDict({"arrays": arrays(1)})


def forged(name: str) -> RecordDict:
    return MALFORMED[name].forge(honest(), sent())


def weight(name: str) -> Array:
    record = forged(name)["arrays"]
    assert isinstance(record, ArrayRecord)
    return record["weight"]


def is_well_formed(content: RecordDict) -> bool:
    """Tell by Flower's own means whether there is one record of finite arrays of the right names, shapes, dtypes."""
    records = [record for record in content.values() if isinstance(record, ArrayRecord)]
    if len(records) != 1 or content.get("arrays") is not records[0] or set(records[0]) != set(arrays(0)):
        return False
    for name, array in records[0].items():
        model = arrays(0)[name].numpy()
        try:
            values = array.numpy()
        except Exception:  # noqa: BLE001  whatever numpy says to such bytes
            return False
        if (array.shape, array.dtype) != (model.shape, str(model.dtype)) or array.stype != "numpy.ndarray":
            return False
        if values.shape != model.shape or values.dtype.str != model.dtype.str or not np.isfinite(values).all():
            return False
        if len(array.data) != len(arrays(0)[name].data):
            return False
    return True


def through_flower(content: RecordDict) -> RecordDict:
    """Return what arrives when Flower takes the content to pieces and puts it together again."""
    whole: dict[str, InflatableObject] = {}
    for key, each in get_all_nested_objects(content).items():
        whole[key] = type(each).inflate(each.deflate(), {child: whole[child] for child in each.children or {}} or None)
    arrived = whole[content.object_id]
    assert isinstance(arrived, RecordDict)
    return arrived


def test_what_is_honest_is_well_formed_and_arrives() -> None:
    assert is_well_formed(honest())
    assert through_flower(honest()) == honest()


@pytest.mark.parametrize("name", MALFORMED)
def test_a_reply_is_well_formed_exactly_if_it_is_called_harmless(name: str) -> None:
    assert is_well_formed(forged(name)) == MALFORMED[name].harmless


@pytest.mark.parametrize("name", MALFORMED)
def test_a_reply_differs_from_the_honest_one_which_is_not_changed(name: str) -> None:
    content, message = honest(), sent()
    reply = MALFORMED[name].forge(content, message)
    assert through_flower(content) == honest()
    assert through_flower(message) == sent()
    assert reply.object_id != content.object_id


@pytest.mark.parametrize("name", MALFORMED)
def test_the_same_reply_is_forged_from_the_same_content(name: str) -> None:
    assert forged(name).object_id == forged(name).object_id


@pytest.mark.parametrize("name", sorted(set(MALFORMED) - HIDDEN))
def test_a_reply_arrives_as_it_was_sent(name: str) -> None:
    arrived = through_flower(forged(name))
    assert arrived.object_id == forged(name).object_id
    assert is_well_formed(arrived) == MALFORMED[name].harmless


@pytest.mark.parametrize("name", MALFORMED)
def test_the_gate_admits_exactly_what_is_harmless(name: str) -> None:
    layout = layout_of(arrays(1))
    row = np.empty(layout.dim, np.float32)
    if MALFORMED[name].harmless:
        assert set(ReplyValidator(layout).admit(forged(name), row)) == {"running_var", "num_batches_tracked"}
        assert np.isfinite(row).all()
    else:
        with pytest.raises(ReplyError):
            ReplyValidator(layout).admit(forged(name), row)


def test_a_chunk_bomb_is_small_on_the_wire_and_huge_when_put_together() -> None:
    bomb = weight("chunk-bomb")
    pieces = get_all_nested_objects(bomb)
    assert sum(len(each.deflate()) for each in pieces.values()) < 2**19
    assert sum(len(chunk.deflate()) for _, chunk in bomb.slice_array()) > 2**32


def test_no_reply_is_called_as_an_attack_is_and_every_one_is_described() -> None:
    assert not set(MALFORMED) & set(ATTACKS)
    descriptions = [each.description for each in MALFORMED.values()]
    assert len(set(descriptions)) == len(descriptions)
    assert len(MALFORMED) == sum(len(value) for key, value in vars(module).items() if key in SECTIONS)


SECTIONS = {"_NUMBERS", "_SHAPES", "_DTYPES", "_BYTES", "_LAYERS", "_RECORDS", "_METRICS"}


def test_numbers_are_where_the_description_says() -> None:
    assert np.isnan(weight("all-nan").numpy()).all()
    assert np.isnan(weight("one-nan").numpy()).sum() == 1
    assert (weight("minus-infinity").numpy() == -np.inf).sum() == 1
    assert (weight("huge-numbers").numpy() == np.float32(1e30)).all()
    np.testing.assert_allclose(weight("thousandfold").numpy(), 1000 * arrays(0)["weight"].numpy(), rtol=1e-6)
    assert 0 < weight("denormals").numpy().max() < np.finfo(np.float32).tiny
    assert (weight("stale").numpy() == arrays(1)["weight"].numpy()).all()
    last = forged("last-nan")["arrays"]
    assert isinstance(last, ArrayRecord)
    assert np.isnan(last["running_var"].numpy()).sum() == 1


def test_fortran_order_holds_the_same_numbers_in_other_bytes() -> None:
    array = weight("fortran-order")
    assert (array.numpy() == arrays(0)["weight"].numpy()).all()
    assert b"'fortran_order': True" in array.data


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("wrong-shape", (4, 4)),
        ("broadcastable", (1, 3)),
        ("scalar", ()),
        ("transposed", (3, 4)),
        ("empty-array", (0,)),
        ("negative-shape", (-1, 2)),
        ("huge-claim", (2**40,)),
    ],
)
def test_a_shape_is_said_that_is_not_the_models(name: str, shape: tuple[int, ...]) -> None:
    assert weight(name).shape == shape


@pytest.mark.parametrize("name", ["huge-header", "hidden-negative-shape", "hidden-transpose"])
def test_a_hidden_shape_is_only_in_the_header(name: str) -> None:
    assert weight(name).shape == (4, 3)
    assert b"'shape': (4, 3)" not in weight(name).data


def test_objects_are_pickled_and_numpy_refuses_them() -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        weight("objects").numpy()


def test_a_square_matrix_is_not_sent_as_it_is_when_it_is_to_be_transposed() -> None:
    content = RecordDict({"arrays": ArrayRecord([np.eye(3, dtype=np.float32)])})
    record = MALFORMED["transposed"].forge(content, content)["arrays"]
    assert isinstance(record, ArrayRecord)
    assert record["0"].shape == (3, 3, 1)


def test_half_precision_is_spoiled_within_its_range() -> None:
    content = RecordDict({"arrays": ArrayRecord([np.ones((2, 3), dtype=np.float16)])})
    for name in ("huge-numbers", "thousandfold", "denormals"):
        record = MALFORMED[name].forge(content, content)["arrays"]
        assert isinstance(record, ArrayRecord)
        assert np.isfinite(record["0"].numpy()).all()
        assert record["0"].dtype == "float16"


def test_only_what_holds_arrays_can_be_forged() -> None:
    with pytest.raises(ParameterError, match="must be an ArrayRecord to forge, got nothing"):
        MALFORMED["all-nan"].forge(RecordDict(), RecordDict())
