"""An order is carried out if the server gave it, to this node, for now and once; everything else is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from hypothesis import given, settings, strategies as st
from tests.flower.grids import carried, identify
from tests.flower.keys import KEY, PUBLIC_FILE, knowing, trusting
from torch import nn

from steadfed._core.signatures import SigningKey
from steadfed.errors import OrderError, ParameterError
from steadfed.flower import _acceptance as acceptance
from steadfed.flower._acceptance import CLOCK_SKEW, accept
from steadfed.flower._messages import Letter, Writer
from steadfed.flower._nodes import Member
from steadfed.flower._npy import with_secret
from steadfed.flower._orders import MOST_BYTES, ORDER, SECRET, Order
from steadfed.flower.client import receive, signed_orders_only

CONFIG: dict[str, Any] = {"server-round": 4, "round": 3, "local-steps": 5, "lr": 0.05, "batch-size": 8, "seed": 1}
NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _identity() -> None:
    identify()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the clock of the node."""

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: seconds)

    return set_clock


def writer(key: SigningKey | None = KEY, ttl: float | None = 60.0) -> Writer:
    made = Writer(key, arrays_key="arrays", config_key="config")
    made.ttl = ttl
    return made


def arrays(seed: int = 0) -> ArrayRecord:
    generator = torch.Generator().manual_seed(seed)
    return ArrayRecord({"weight": Array(torch.randn(4, 4, generator=generator).numpy()), "bias": Array(np.zeros(4))})


def ordered(
    *, key: SigningKey | None = KEY, node: int = 7, kind: str = "train", by: Writer | None = None, **config: Any
) -> Message:
    """Return a message as a server writes it, and as it comes out at the other end of the wire."""
    told = ConfigRecord(CONFIG | {name.replace("_", "-"): value for name, value in config.items()})
    (message,) = (by or writer(key)).write([Letter(Member("clinic", node), kind, told)], arrays(), 3)
    return carried(message)


def config_of(message: Message) -> ConfigRecord:
    record = message.content["config"]
    assert isinstance(record, ConfigRecord)
    return record


def refused(message: Message, match: str, context: Context | None = None) -> None:
    with pytest.raises(OrderError, match=match):
        accept(message, context or knowing())


def test_what_the_server_orders_is_accepted_with_all_it_says() -> None:
    message = ordered(note="ä", key_=b"\x00\xff", nothing=float("nan"), many=[1.0, 2.0])
    order = accept(message, knowing())
    assert order is not None
    assert (order.run, order.client, order.kind, order.round) == ("1", "7", "train", 3)
    assert order.config[SECRET] == config_of(message)[SECRET]
    assert order.expires - order.issued == pytest.approx(60.0)


def test_the_key_is_a_file_or_its_text() -> None:
    for key in (str(PUBLIC_FILE), PUBLIC_FILE.read_text(encoding="utf-8"), "\n" + KEY.public.to_pem().decode()):
        assert accept(ordered(), knowing(server_key=key)) is not None


@pytest.mark.parametrize("given", ["/nowhere/key.pem", "-----BEGIN nonsense", "", 3, True])
def test_a_key_that_cannot_be_read_is_no_licence(given: Any) -> None:
    with pytest.raises(ParameterError):
        accept(ordered(), knowing(server_key=given))


def test_a_node_without_the_key_refuses_and_says_where_to_get_it() -> None:
    context = trusting()
    del context.node_config["unsigned-orders"]
    refused(ordered(), r"get the file server-signing\.pub\.pem from the operator.*server-key='/path/of/it'", context)
    refused(ordered(), "unsigned-orders=true", context)


def test_a_node_can_be_told_to_trust_everybody_and_an_app_cannot_tell_one_with_a_key() -> None:
    unsigned, without = ordered(key=None), trusting()
    assert accept(unsigned, without) is None
    del without.node_config["unsigned-orders"]
    assert accept(unsigned, without, unsigned=True) is None
    with pytest.raises(OrderError, match="no order of the federation's server"):
        accept(unsigned, knowing(), unsigned=True)
    assert accept(unsigned, knowing(unsigned_orders=True)) is None
    with pytest.raises(ParameterError, match="must be true or false, got 'yes'"):
        accept(unsigned, knowing(unsigned_orders="yes"))


def test_an_order_signed_with_another_key_is_refused() -> None:
    refused(ordered(key=SigningKey.generate()), "not signed with the key that is trusted")


def test_a_message_without_an_order_is_refused() -> None:
    refused(ordered(key=None), r"no order of the federation's server \(no text 'steadfed-order'")
    refused(ordered(key=None, steadfed_order=b"bytes"), "no text 'steadfed-order'")


def test_a_forged_order_of_100_000_steps_is_refused_before_a_number_is_believed() -> None:
    content = RecordDict({"arrays": arrays(), "config": ConfigRecord(CONFIG | {"local-steps": 100_000})})
    refused(Message(content, 7, "train"), "no order of the federation's server")
    genuine = ordered()
    config_of(genuine)["local-steps"] = 100_000
    refused(genuine, "says something else than the order")


def test_an_order_for_somebody_else_is_refused() -> None:
    refused(ordered(node=8), "for another node: 8, and this is '7'")
    refused(ordered(), "for another run: 1, and this is '2'", knowing(run=2))
    message = ordered()
    message.metadata.message_type = "evaluate"
    refused(message, "for another kind of message: train, and this is 'evaluate'")
    message.metadata.dst_node_id = 8
    message.metadata.message_type = "train"
    assert accept(message, knowing()) is not None  # who it is for is what the node knows of itself


def test_orders_are_for_now_and_clocks_may_disagree_by_minutes(now: Callable[[float], None]) -> None:
    now(NOW)
    message = ordered()
    for moment in (NOW - CLOCK_SKEW, NOW, NOW + 60.0 + CLOCK_SKEW):
        now(moment)
        assert accept(carried(message), knowing()) is not None
    now(NOW - CLOCK_SKEW - 42.0)
    refused(message, r"given 342 s from now by this node's clock; the clocks .* may disagree by 300 s: set them right")
    now(NOW + 60.0 + CLOCK_SKEW + 5.0)
    refused(message, r"expired 305 s ago by this node's clock; .* it is an old one, or they must be set right")


def test_an_order_is_carried_out_once() -> None:
    context, by = knowing(), writer()
    first, evaluation = ordered(by=by), ordered(by=by, kind="evaluate")
    again = carried(first)
    second = ordered(by=by)
    assert accept(first, context) is not None
    refused(again, r"the order to train in round 3 is 0\.000 s older .* it is a replay", context)
    assert accept(second, context) is not None
    refused(carried(first), "it is a replay", context)
    assert accept(evaluation, context) is not None  # another kind, though older
    refused(carried(evaluation), "the order to evaluate .* replay", context)


def test_what_was_accepted_is_remembered_for_the_run_only() -> None:
    context, by = knowing(), writer()
    message = ordered(by=by)
    assert accept(carried(message), context) is not None
    kept = context.state
    context = Context(1, 7, context.node_config, RecordDict(dict(kept.items())), {})
    refused(carried(message), "replay", context)
    record = kept[acceptance.MEMORY]
    assert isinstance(record, ConfigRecord)
    record["run"] = "2"  # as a run before this one has left it
    assert accept(carried(message), context) is not None


def test_a_round_that_is_played_again_brings_an_order_that_is_taken_even_if_the_servers_clock_was_set_back(
    now: Callable[[float], None],
) -> None:
    context, by = knowing(), writer()
    now(NOW)
    assert accept(ordered(by=by), context) is not None
    now(NOW - 100.0)
    assert accept(ordered(by=by), context) is not None


def test_a_refused_message_does_not_stand_in_the_way_of_the_next(now: Callable[[float], None]) -> None:
    context, by = knowing(), writer()
    now(NOW)
    later = ordered(by=by)
    config_of(later)["lr"] = 9.0
    refused(later, "something else", context)
    assert not context.state
    assert accept(ordered(by=writer()), context) is not None


def test_a_changed_added_or_removed_entry_is_refused() -> None:
    for key, value in (("lr", 0.5), ("lr", 1), ("steadfed-secret", "0" * 32), ("coordinates", 3), ("note", True)):
        message = ordered(note=1)
        config_of(message)[key] = value
        refused(message, "says something else than the order")
    message = ordered()
    del config_of(message)["seed"]
    refused(message, "says something else than the order")


def test_a_record_that_was_added_is_refused() -> None:
    for added in (ConfigRecord({"coordinates-seed": 3}), MetricRecord({"a": 1.0}), arrays(1)):
        message = ordered()
        message.content["another"] = added
        refused(message, r"one ConfigRecord and at most one ArrayRecord, got \{")
    refused(Message(RecordDict(), 7, "train"), "got nothing")


def test_another_model_is_refused_and_another_serialisation_is_not() -> None:
    message = ordered()
    message.content["arrays"] = arrays(1)
    refused(message, "the model is not the one that the server sent")
    message.content["arrays"] = with_secret(arrays())
    assert accept(message, knowing()) is not None
    gone = ordered()
    del gone.content["arrays"]
    refused(gone, "the model is not the one")


@pytest.mark.parametrize("data", [b"", b"garbage", np.lib.format.magic(1, 0) + b"\xff\xff" + b" " * 70_000])
def test_arrays_that_are_none_are_refused(data: bytes) -> None:
    message = ordered()
    message.content["arrays"] = ArrayRecord({"weight": Array("float32", (4, 4), "numpy.ndarray", data)})
    refused(message, "the arrays of the message are no model: the array 'weight' is no .npy file")


def test_an_array_that_claims_more_numbers_than_it_has_is_refused_before_anything_is_allocated() -> None:
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + "\n"
    message, data = ordered(), b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(8)
    message.content["arrays"] = ArrayRecord({"weight": Array("float64", (2**40,), "numpy.ndarray", data)})
    refused(message, "the arrays of the message are no model")


@pytest.mark.parametrize("text", ["", "{}", "null", "[" * 10_000, '{"payload":"", "payloadType":"", "signatures":[1]}'])
def test_garbage_in_the_place_of_an_order_is_refused(text: str) -> None:
    message = ordered()
    config_of(message)[ORDER] = text
    refused(message, "the order is not the server's: not a DSSE envelope")


def test_a_huge_envelope_is_refused_before_it_is_decoded() -> None:
    message = ordered()
    config_of(message)[ORDER] = "x" * (MOST_BYTES + 1)
    refused(message, rf"may take {MOST_BYTES} bytes, got {MOST_BYTES + 1}")
    with pytest.raises(ParameterError, match="the ConfigRecord is too large to be signed"):
        ordered(note="x" * MOST_BYTES)


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"run": "1"}', b"\xff", b'{"round": 1e999}'])
def test_a_signed_statement_that_is_no_order_is_refused(payload: bytes) -> None:
    message = ordered()
    config_of(message)[ORDER] = KEY.seal("application/vnd.steadfed.order+json", payload).to_json()
    refused(message, "signed what is no order of this version")
    config_of(message)[ORDER] = KEY.seal("application/vnd.steadfed.round+json", payload).to_json()
    refused(message, "must be of type")


def test_the_order_of_another_message_is_refused() -> None:
    by = writer()
    one, other = ordered(by=by), ordered(by=by)
    config_of(one)[ORDER] = config_of(other)[ORDER]
    refused(one, "says something else than the order")


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.lists(st.floats(), min_size=1, max_size=3),
    st.lists(st.binary(max_size=5), min_size=1, max_size=3),
)
CONFIGS = st.dictionaries(st.text(max_size=10), VALUES, max_size=5)


@settings(deadline=None, max_examples=60)
@given(config=CONFIGS)
def test_whatever_a_config_holds_arrives_as_it_was_ordered(config: dict[str, Any]) -> None:
    identify()
    (message,) = writer().write([Letter(Member("a", 7), "train", ConfigRecord(config))], arrays(), 0)
    assert accept(carried(message), knowing()) is not None


@settings(deadline=None, max_examples=60)
@given(config=CONFIGS, key=st.text(max_size=10), value=VALUES)
def test_no_entry_can_be_changed(config: dict[str, Any], key: str, value: Any) -> None:
    identify()
    (message,) = writer().write([Letter(Member("a", 7), "train", ConfigRecord(config))], arrays(), 0)
    before = repr(config_of(message).get(key, message))
    config_of(message)[key] = value
    if repr(value) != before:
        refused(message, "says something else than the order")


@settings(deadline=None, max_examples=60)
@given(place=st.integers(0), bit=st.integers(0, 7))
def test_no_bit_of_an_envelope_can_be_flipped_so_that_another_order_is_accepted(place: int, bit: int) -> None:
    identify()
    message, context = ordered(), knowing()
    genuine = config_of(message)[ORDER]
    assert isinstance(genuine, str)
    text = bytearray(genuine.encode())
    text[place % len(text)] ^= 1 << bit
    config_of(message)[ORDER] = text.decode("latin-1")
    try:
        order = accept(message, context)
    except OrderError:
        return
    assert order == Order.opened(genuine, KEY.public)  # it was the key's name, a hint, or what JSON does not look at


def test_a_client_that_does_not_call_receive_is_protected_by_a_mod() -> None:
    app, seen = ClientApp(mods=[signed_orders_only]), []

    def answer(message: Message, context: Context) -> Message:
        seen.append(context.node_id)
        return Message(RecordDict(), reply_to=message)

    for decorator in (app.train, app.evaluate, app.query):
        decorator()(answer)
    by = writer()
    for kind in ("train", "evaluate", "query"):
        app(ordered(by=by, kind=kind), knowing())
        with pytest.raises(OrderError, match="no order of the federation's server"):
            app(ordered(key=None, kind=kind), knowing())
    assert seen == [7, 7, 7]


def test_a_mod_and_receive_look_at_a_message_once() -> None:
    message, model, context = ordered(), nn.Linear(4, 4), knowing()
    reply = signed_orders_only(
        message, context, lambda each, own: Message(RecordDict(), reply_to=each) if receive(each, model, own) else each
    )
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    with pytest.raises(OrderError, match="replay"):
        receive(carried(message), model, context)


def test_receive_loads_nothing_that_was_not_ordered() -> None:
    model = nn.Linear(4, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(OrderError):
        receive(ordered(key=None), model, knowing())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    config = receive(ordered(), model, knowing())
    assert dict(config) == CONFIG | {SECRET: config[SECRET]}
    assert not torch.equal(model.weight, before["weight"])


def test_an_order_is_short_and_readable() -> None:
    envelope = config_of(ordered())[ORDER]
    assert isinstance(envelope, str)
    assert len(envelope) < 1500
    assert set(json.loads(envelope)) == {"payload", "payloadType", "signatures"}
