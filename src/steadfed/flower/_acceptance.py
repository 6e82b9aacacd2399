"""Whether a message is an order that the federation's server gave this node, for now and for the first time.

Clients start a process for every message; this module needs no torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict

from steadfed._core.signatures import VerificationKey
from steadfed.errors import OrderError, ParameterError
from steadfed.flower._npy import model_digest
from steadfed.flower._orders import ORDER, Order

KEY = "server-key"
"""The entry of a node config that says where the server's public key is, or holds it."""
UNSIGNED = "unsigned-orders"
"""The entry of a node config that says that orders need no signature, if it is true."""
MEMORY = "steadfed-orders"
"""Under which name a client's state keeps when the orders that it accepted last were issued."""
CLOCK_SKEW = 300.0
"""Seconds by which the clocks of server and node may disagree."""
_PEM = "-----BEGIN"
_accepted: WeakKeyDictionary[Message, Order] = WeakKeyDictionary()
"""The messages of this process that were accepted: a mod and `receive` look at the same one."""


def signed_orders_only(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Let through only messages that are orders of the federation's server: a mod for clients without `receive`.

    All kinds of messages are looked at. The node config must have `server-key`, or `unsigned-orders = true`.

        app = ClientApp(mods=[signed_orders_only])

    Raises:
        OrderError: the message is no such order.
    """
    accept(message, context)
    return call_next(message, context)


def accept(message: Message, context: Context, *, unsigned: bool = False) -> Order | None:
    """Return the order that a message is, and take note that it was accepted; None where none is needed.

    Verified are, in this order: signature, recipient, run, kind, every entry of the config, the time, that it is newer
    than the one accepted before, the digest of the model. Nothing is loaded and no number is believed before.

    Args:
        message: what came.
        context: of the node: its config has the key, its state what was accepted before.
        unsigned: whether a node without a key takes orders of anybody.

    Raises:
        OrderError: the message is no order of the server's for this node, now.
        ParameterError: the key cannot be read.
    """
    key = _key_of(context.node_config, unsigned=unsigned)
    if key is None:
        return None
    if message in _accepted:
        return _accepted[message]
    config, arrays = _parts(message)
    text = config.get(ORDER)
    if not isinstance(text, str):
        raise OrderError(
            f"the message holds no order of the federation's server (no text {ORDER!r} in its config), so anybody may "
            f"have written it; a strategy of steadfed signs with `signing_key`"
        )
    order = Order.opened(text, key)
    _check_addressee(order, message, context)
    if not order.says(config):
        raise OrderError("the config of the message says something else than the order that the server signed")
    _check_time(order, time.time())
    _check_newer(order, context.state)
    _check_model(order, arrays)
    _remember(order, context.state)
    _accepted[message] = order
    return order


def time_left(order: Order) -> float:
    """Return for how many seconds from now the server waits for a reply, as far as a node can tell."""
    return max(0.0, min(order.expires - order.issued, order.expires + CLOCK_SKEW - time.time()))


def _key_of(node_config: Mapping[str, Any], *, unsigned: bool) -> VerificationKey | None:
    """Return the server's key; None if orders need no signature."""
    excused, given = node_config.get(UNSIGNED, False), node_config.get(KEY)
    if not isinstance(excused, bool):
        raise ParameterError(f"{UNSIGNED!r} in the node config must be true or false, got {excused!r}")
    if excused or (given is None and unsigned):
        return None
    if given is None:
        raise OrderError(
            f"this node does not know the key of the federation's server, so anybody could give it orders; get the "
            f"file server-signing.pub.pem from the operator, by a way you trust, and start the node with "
            f"{KEY}='/path/of/it' in its node config (or with {UNSIGNED}=true, where everybody who reaches the "
            f"SuperLink is trusted)"
        )
    if not isinstance(given, str) or not given:
        raise ParameterError(f"{KEY!r} in the node config must be the path of a PEM file, or its text, got {given!r}")
    return VerificationKey.of_text(given) if given.lstrip().startswith(_PEM) else VerificationKey.read(given)


def _parts(message: Message) -> tuple[ConfigRecord, ArrayRecord]:
    """Return the one ConfigRecord of a message and its arrays; what holds anything else holds more than was ordered."""
    content = message.content if message.has_content() else RecordDict()
    configs = list(content.config_records.values())
    arrays = list(content.array_records.values())
    if len(configs) != 1 or len(arrays) > 1 or len(content) > len(configs) + len(arrays):
        found = {key: type(record).__name__ for key, record in list(content.items())[:10]}
        raise OrderError(f"an order is one ConfigRecord and at most one ArrayRecord, got {found or 'nothing'}")
    return configs[0], arrays[0] if arrays else ArrayRecord()


def _check_addressee(order: Order, message: Message, context: Context) -> None:
    """Refuse the order of another node, another run or to do something else."""
    kind = message.metadata.message_type
    for what, ordered, own in (
        ("node", order.client, str(context.node_id)),
        ("run", order.run, str(context.run_id)),
        ("kind of message", order.kind, kind),
    ):
        if ordered != own:
            raise OrderError(f"the order is for another {what}: {ordered}, and this is {own[:40]!r}")


def _check_time(order: Order, now: float) -> None:
    """Refuse what is not of now, give or take what clocks disagree by."""
    ahead, late = order.issued - now, now - order.expires
    if ahead > CLOCK_SKEW:
        raise OrderError(
            f"the order was given {ahead:.0f} s from now by this node's clock; the clocks of server and node may "
            f"disagree by {CLOCK_SKEW:.0f} s: set them right"
        )
    if late > CLOCK_SKEW:
        raise OrderError(
            f"the order expired {late:.0f} s ago by this node's clock; the clocks of server and node may disagree by "
            f"{CLOCK_SKEW:.0f} s: it is an old one, or they must be set right"
        )


def _check_newer(order: Order, state: RecordDict) -> None:
    """Refuse what is not newer than the last order of its kind; a round that is played again brings a new order."""
    last = _recall(order.run, state).get(_memory_of(order))
    if isinstance(last, float) and order.issued <= last:
        raise OrderError(
            f"the order to {order.kind} in round {order.round} is {last - order.issued:.3f} s older than the one that "
            f"this node has accepted last, or the same: it is a replay"
        )


def _check_model(order: Order, arrays: ArrayRecord) -> None:
    try:
        digest = model_digest(arrays)
    except ValueError as error:
        raise OrderError(f"the arrays of the message are no model: {error}") from None
    if digest != order.model:
        raise OrderError(
            f"the model is not the one that the server sent: {digest[:16]}… in place of {order.model[:16]}…"
        )


def _recall(run: str, state: RecordDict) -> ConfigRecord:
    """Return when the orders accepted last were issued, by kind; those of other runs are forgotten."""
    record = state.get(MEMORY)
    return record if isinstance(record, ConfigRecord) and record.get("run") == run else ConfigRecord({"run": run})


def _memory_of(order: Order) -> str:
    return f"{order.kind}-issued"


def _remember(order: Order, state: RecordDict) -> None:
    """Take note of an order in the client's state, which the SuperNode keeps for the run, until it is started anew."""
    record = _recall(order.run, state)
    record[_memory_of(order)] = order.issued
    state[MEMORY] = record
