"""A node: a few steps of linear regression on data of its own. The last one is Byzantine, as the server says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

STEPS, LR, POINTS = 5, 0.1, 200


def drill(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Let the last node be Byzantine."""
    config = message.content["config"]
    behaviour = str(config["behaviour"])
    last = int(context.node_config["num-partitions"]) - 1
    if not behaviour or int(context.node_config["partition-id"]) != last:
        return call_next(message, context)
    from steadfed.flower.redteam import byzantine

    return byzantine(behaviour, **json.loads(str(config["parameters"])))(message, context, call_next)


app = ClientApp(mods=[drill])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Take a few steps of gradient descent on the squared error."""
    arrays = message.content.array_records["arrays"]
    model = {name: array.numpy().astype(np.float64) for name, array in arrays.items()}
    features, targets = data(int(context.node_config["partition-id"]))
    for _ in range(STEPS):
        errors = features @ model["weight"].T + model["bias"] - targets
        model["weight"] -= LR * errors.T @ features / POINTS
        model["bias"] -= LR * errors.mean(axis=0)
    reply = ArrayRecord({name: Array(values.astype(np.float32)) for name, values in model.items()})
    metrics = MetricRecord({"train_loss": float(np.mean(errors**2)), "num-examples": POINTS})
    return Message(RecordDict({"arrays": reply, "metrics": metrics}), reply_to=message)


def data(node: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the points of a node, the same whenever it is asked: one truth for all, and noise of its own."""
    generator = np.random.Generator(np.random.Philox(key=node))
    features = generator.standard_normal((POINTS, 8))
    truth = np.linspace(-1.0, 1.0, 24).reshape(3, 8)
    return features, features @ truth.T + generator.standard_normal((POINTS, 3))
