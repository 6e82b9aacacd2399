"""Nodes that are honest unless told otherwise; what they import counts, as every message is a new process."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from steadfed.flower._acceptance import signed_orders_only  # without torch, which clients that lie not need not import

from .numbers import distance, trained


def told(message: Message, context: Context) -> str:
    """Return how to lie: what the node's own config says of this run, or what the server says of this round."""
    own = context.node_config.get(f"in-{context.run_config['play']}", "")
    if own:
        return str(own)
    config: Any = message.content["config"]
    drills = str(config["drills"]).split(",")
    place = int(config["server-round"]) - 1
    chosen = context.node_config["partition-id"] == config["liar"] and place < len(drills)
    return drills[place] if chosen else ""


def drill(message: Message, context: Context, call_next: Any) -> Message:
    """Leave a mark that a message has come, wait if told to, and lie if told to."""
    config: Any = message.content["config"]
    kind, round = message.metadata.message_type.partition(".")[0], int(config["server-round"]) - 1
    folder = Path(str(context.run_config["folder"]))
    (folder / f"{kind}-{round}-{context.node_config['partition-id']}").touch()
    while round == config["wait-in"] and not (folder / "go").exists():
        time.sleep(0.2)
    lie = told(message, context)
    if not lie:
        reply: Message = call_next(message, context)
        return reply
    from steadfed.flower.redteam import byzantine

    return byzantine(lie)(message, context, call_next)


def verified(message: Message, context: Context, call_next: Any) -> Message:
    """Verify orders, but for a run in which they can be foreseen: no signature could be."""
    mod = call_next if context.run_config["foreseeable"] else partial(signed_orders_only, call_next=call_next)
    reply: Message = mod(message, context)
    return reply


app = ClientApp(mods=[verified, drill])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Take the local steps."""
    node = int(context.node_config["partition-id"])
    if context.run_config["task"] == "digits":
        return _digits(message, context, int(context.run_config["rounds"]))
    arrays = {name: Array(values) for name, values in trained(_received(message), node).items()}
    metrics = MetricRecord({"num-examples": 10 * (node + 1), "loss": 0.5 + node})
    return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Report how far the model is from what everybody likes, and the node's number."""
    node = int(context.node_config["partition-id"])
    metrics = MetricRecord({"num-examples": 1, "distance": distance(_received(message)), "node": float(node)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def _received(message: Message) -> dict[str, Any]:
    arrays: Any = message.content["arrays"]
    return {name: array.numpy() for name, array in arrays.items()}


def _digits(message: Message, context: Context, rounds: int) -> Message:
    from steadfed.flower.client import local_steps, receive, train_reply

    from .digits import model, share, twin

    described = twin(rounds)
    network = model(described)
    config = receive(message, network, context)
    batches = share(described, int(context.node_config["partition-id"]))
    loss = local_steps(network, batches.batches_for(config), config)
    return train_reply(message, network, num_examples=len(batches.labels), metrics={"loss": loss})
