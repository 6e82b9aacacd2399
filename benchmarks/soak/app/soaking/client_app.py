"""Honest nodes, and the last one, which plays another drill in every round."""

from __future__ import annotations

from typing import Any

from benchmarks.soak.numbers import trained
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from steadfed.flower._acceptance import signed_orders_only  # without torch, which honest nodes need not wait for

STALL = 60.0
"""Seconds that a stalling node sleeps: longer than the server waits, shorter than the test."""


def drill(message: Message, context: Context, call_next: Any) -> Message:
    """Let the last node lie."""
    settings, node = context.run_config, int(context.node_config["partition-id"])
    config: Any = message.content["config"]
    if node != int(settings["num-nodes"]) - 1:
        reply: Message = call_next(message, context)
        return reply
    from benchmarks.soak.schedule import drill_of  # imports torch

    from steadfed.flower.redteam import byzantine

    name = drill_of(int(settings["seed"]), int(config["server-round"]))
    parameters: dict[str, Any] = {"seconds": STALL} if name == "stall" else {}
    return byzantine(name, **parameters)(message, context, call_next)


app = ClientApp(mods=[signed_orders_only, drill])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Go half of the way."""
    received: Any = message.content["arrays"]
    values = trained(
        {name: array.numpy() for name, array in received.items()}, int(context.node_config["partition-id"])
    )
    arrays = ArrayRecord({name: Array(each) for name, each in values.items()})
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)
