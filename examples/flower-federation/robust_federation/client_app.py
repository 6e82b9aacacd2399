"""What a node does: H steps on its own data. One whose node config names an `attack` is Byzantine, as a drill."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from robust_federation import task
from steadfed.flower.client import local_steps, receive, train_reply


def drill(message: Message, context: Context, call_next: ClientApp) -> Message:
    """Let a node be Byzantine if its operator says so; leave this out where nobody should."""
    attack = str(context.node_config.get("attack", ""))
    if not attack:
        return call_next(message, context)
    from steadfed.flower.redteam import byzantine

    return byzantine(attack)(message, context, call_next)


app = ClientApp(mods=[drill])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Take the local steps of one round."""
    dataset = task.data(str(context.run_config["dataset"]))
    model = task.model(dataset, int(context.run_config["seed"]))
    config = receive(message, model, context)
    part, parts = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    batches = task.share(dataset, part, parts, int(context.run_config["seed"]))
    loss = local_steps(model, batches.batches_for(config), config)
    return train_reply(message, model, num_examples=len(batches.labels), metrics={"train_loss": loss})
