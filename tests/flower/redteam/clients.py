"""A real ClientApp in one process, and messages to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from tests.flower.keys import trusting
from torch import Tensor, nn

from steadfed._core.rng import stream
from steadfed.flower._records import RecordNumbers, layout_of
from steadfed.flower.client import SeededBatches, evaluate_reply, local_steps, receive, train_reply
from steadfed.flower.redteam._mods import Mod

CONFIG: dict[str, Any] = {"round": 3, "local-steps": 4, "lr": 0.1, "batch-size": 8, "seed": 1}


def model_of(seed: int = 0) -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(stream(seed, "model").standard_normal(tuple(parameter.shape))))
    return model


def points() -> tuple[Tensor, Tensor]:
    draw = stream(0, "points")
    return torch.from_numpy(draw.standard_normal((40, 5))).float(), torch.from_numpy(draw.integers(0, 3, 40))


def app_of(mods: Sequence[Mod] = ()) -> ClientApp:
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model = model_of(5)
        config = receive(message, model, context)
        loss = local_steps(model, SeededBatches(*points(), client=2).batches_for(config), config)
        return train_reply(message, model, num_examples=40, metrics={"loss": loss})

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        model = model_of(5)
        receive(message, model, context)
        return evaluate_reply(message, model, [points()])

    return app


def message_of(kind: str = "train", **config: Any) -> Message:
    arrays = ArrayRecord(model_of().state_dict())
    return Message(RecordDict({"arrays": arrays, "config": ConfigRecord(CONFIG | config)}), 7, kind)


def context_of() -> Context:
    return trusting(partition_id=2)


def answer(mods: Sequence[Mod] = (), message: Message | None = None, context: Context | None = None) -> RecordDict:
    """Return the content of the client's reply."""
    return app_of(mods)(message or message_of(), context or context_of()).content


def arrays_in(content: RecordDict) -> ArrayRecord:
    record = content["arrays"]
    assert isinstance(record, ArrayRecord)
    return record


def metrics_in(content: RecordDict) -> dict[str, Any]:
    record = content["metrics"]
    assert isinstance(record, MetricRecord)
    return dict(record.items())


def update_in(content: RecordDict, lr: float = 0.1) -> Tensor:
    """Return (x − x_r)/η of a reply, in the order of the server's row."""
    sent = arrays_in(message_of().content)
    layout = layout_of(sent)
    return (layout.parameters_of(RecordNumbers(sent)) - layout.parameters_of(RecordNumbers(arrays_in(content)))) / lr
