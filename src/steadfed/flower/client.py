"""A client of a real federation in ten lines: any torch model, any batches, H steps of plain SGD.

>>> import torch
>>> from flwr.clientapp import ClientApp
>>> from steadfed.flower.client import SeededBatches, local_steps, receive, train_reply
>>> features, labels = torch.eye(4).repeat(5, 1), torch.arange(4).repeat(5)
>>> app = ClientApp()
>>> @app.train()
... def train(message, context):
...     model = torch.nn.Linear(4, 4)
...     config = receive(message, model, context)
...     batches = SeededBatches(features, labels, client=int(context.node_config["partition-id"]))
...     loss = local_steps(model, batches.batches_for(config), config)
...     return train_reply(message, model, num_examples=len(labels), metrics={"loss": loss})

`receive` takes orders of nobody but the federation's server: a node is started with `server-key` in its node config,
the public half of the key that the strategy signs with (`signing_key`). This is what happens in a round:

>>> from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
>>> from flwr.supercore.task_identity import TaskIdentity
>>> from steadfed._core.signatures import SigningKey
>>> from steadfed.flower._messages import Letter, Writer
>>> from steadfed.flower._nodes import Member
>>> TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
>>> config = ConfigRecord({"round": 0, "local-steps": 3, "lr": 0.1, "batch-size": 8, "seed": 0})
>>> arrays = ArrayRecord(torch.nn.Linear(4, 4).state_dict())
>>> key = SigningKey.generate()
>>> writer = Writer(key, arrays_key="arrays", config_key="config")
>>> (message,) = writer.write([Letter(Member("clinic", 7), "train", config)], arrays, round=0)
>>> node = {"partition-id": 0, "server-key": key.public.to_pem().decode()}
>>> reply = app(message, Context(1, 7, node, RecordDict(), {}))
>>> sorted(reply.content["arrays"]), sorted(reply.content["metrics"])
(['bias', 'weight'], ['loss', 'num-examples', 'steadfed-secret'])

And this with a message that somebody else has left there in the server's name:

>>> forged = Message(RecordDict({"arrays": arrays, "config": config}), dst_node_id=7, message_type="train")
>>> app(forged, Context(1, 7, node, RecordDict(), {}))
Traceback (most recent call last):
    ...
steadfed.errors.OrderError: the message holds no order of the federation's server ...
"""

from __future__ import annotations

import math
import operator
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from torch import Tensor, nn
from torch.nn import functional

from steadfed._core.coordinates import SEED
from steadfed.errors import ParameterError
from steadfed.flower._acceptance import accept, signed_orders_only, time_left
from steadfed.flower._limits import LARGEST, ClientLimits, RoundConfig, limits_of, whole
from steadfed.flower._npy import model_digest, with_secret
from steadfed.flower._orders import ORDER, SECRET

__all__ = [
    "Batch",
    "ClientLimits",
    "LossFunction",
    "RoundConfig",
    "SeededBatches",
    "count_correct",
    "evaluate_reply",
    "local_steps",
    "receive",
    "reply_digest",
    "signed_orders_only",
    "train_reply",
]


def __dir__() -> list[str]:
    return __all__


Batch = tuple[Tensor, Tensor]
"""Features and labels."""
LossFunction = Callable[[Tensor, Tensor], Tensor]
"""The mean loss of outputs and labels, a scalar that can be differentiated."""
_SECRET_NUMBERS, _SECRET_BITS = 3, 62
"""Metrics are numbers: a secret among them is a list of whole ones that are not negative."""
_MOST_DRAWS = 2**27
"""Most entries, steps times points, of the table that batches are drawn with: half a gigabyte."""


def receive(
    message: Message,
    model: nn.Module,
    context: Context,
    *,
    arrays_key: str = "arrays",
    config_key: str = "config",
    unsigned: bool = False,
) -> RoundConfig:
    """Load the server's arrays into the model and return the round's config, if the server has ordered it.

    Before anything is loaded or believed, the order in the message is verified with the key of the node config
    (`server-key`): that the server signed it, for this node, this run and this kind of message, for now (clocks may
    disagree by five minutes), that it is newer than the one accepted before, that config and model are those of the
    order, and that it asks for no more than the node gives (`most-steps`, `most-batch-size`, `most-lr`, see
    `ClientLimits`). What was accepted is remembered in `context.state`, so an order is carried out once; a SuperNode
    that is started anew has forgotten it, and then only the time that an order is good for protects from its replay.

    Args:
        message: what came.
        model: gets the arrays.
        context: of the node, as the app is given it.
        arrays_key: under which name the arrays are sent.
        config_key: under which name the config is sent.
        unsigned: whether a node without `server-key` takes orders of anybody who reaches the SuperLink; the node
            config can say so too (`unsigned-orders = true`). A node with a key verifies, whatever the app says.

    Raises:
        OrderError: the message is no order of the server's for this node, now; or the node has no key.
        ParameterError: the message has no arrays or no config, the arrays are not those of the model, or the config
            asks for more than the node gives.
    """
    order = accept(message, context, unsigned=unsigned)
    arrays, config = message.content.get(arrays_key), message.content.get(config_key)
    if not isinstance(arrays, ArrayRecord) or not isinstance(config, ConfigRecord):
        found = {key: type(record).__name__ for key, record in message.content.items()}
        raise ParameterError(
            f"a message must hold an ArrayRecord {arrays_key!r} and a ConfigRecord {config_key!r}, got {found}"
        )
    limits = ClientLimits.of_node(context.node_config)
    limits.check(config)
    try:
        model.load_state_dict(arrays.to_torch_state_dict(), strict=True)
    except (RuntimeError, TypeError, ValueError, EOFError) as error:
        raise ParameterError(
            f"the server's arrays must be those of the model's state_dict: {' '.join(str(error).split())}"
        ) from None
    told = {key: value for key, value in config.items() if key != ORDER}
    return RoundConfig(told, limits=limits, left=math.inf if order is None else time_left(order))


def local_steps(
    model: nn.Module,
    batches: Iterable[Batch],
    config: Mapping[str, Any],
    loss: LossFunction = functional.cross_entropy,
    *,
    l2: float = 0.0,
    limits: ClientLimits | None = None,
) -> float:
    """Take H steps x ← x − η (g + l2 · x) and return the mean loss of the batches, each before its step.

    H and η are "local-steps" and "lr" of the config. Batches that end before H are started again, so a `DataLoader`
    shuffles anew; more than H are left. Nothing is kept from one round to the next. What needs no gradient, such as
    frozen layers, stays as the server sent it.

    **Deviations.** Modules that draw at random (dropout) draw from torch's own generator, not from a stream of the seed
    as in the simulator.

    Args:
        model: holds x and is left holding x_r; it is switched to training.
        batches: any iterable of features and labels; they are moved to where the model is.
        config: of this round, as `receive` returns it. A server that leaves the step size to the clients sends no
            "lr": pass `config | {"lr": 0.1}`.
        loss: the mean over a batch, such as `torch.nn.functional.cross_entropy` or `CrossEntropy().mean`.
        l2: λ of the objective, which has λ/2 · ‖x‖² besides the loss.
        limits: what the server may ask for at most; what the config of the node says, if left out.

    Raises:
        ParameterError: a value of the config is missing or out of range, or there is no batch.
        OrderError: the node's time for it is over, or the server's for the reply.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.ones_(model.weight)
    >>> config = {"local-steps": 2, "lr": 0.5}
    >>> local_steps(model, [(torch.ones(1, 1), torch.zeros(1, 1))], config, lambda z, y: (z - y).square().mean() / 2)
    0.3125
    >>> model.weight.item()
    0.25
    """
    most = limits_of(config, limits)
    steps, lr = most.steps_of(config), most.lr_of(config)
    told = config if isinstance(config, RoundConfig) else RoundConfig(config, limits=most)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ParameterError("the model must have a parameter that requires a gradient, it has none")
    model.train()
    total = torch.zeros((), dtype=torch.float64)
    for features, labels in _cycle(batches, steps):
        told.check_time(most)
        value = loss(model(features.to(parameters[0].device)), labels.to(parameters[0].device))
        gradients = torch.autograd.grad(value, parameters, materialize_grads=True)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if l2:
                    parameter.mul_(1.0 - lr * l2)
                parameter.add_(gradient, alpha=-lr)
        total += value.detach().cpu()
    return float(total) / steps


def train_reply(
    message: Message,
    model: nn.Module,
    *,
    num_examples: int,
    metrics: Mapping[str, float] | None = None,
    buffers: Sequence[str] | None = None,
) -> Message:
    """Return the reply that Flower's own strategies take too: the model's state and its metrics.

    If the message asks for k coordinates, they are drawn from its seed and sent in the place of the parameters.

    The arrays are sent in bytes that nobody can foresee, and if the message holds a secret the metrics hold one too:
    nobody can announce their objects to the SuperLink otherwise than they are, before they are sent. Frozen layers,
    counters and plain metrics could be foreseen. `reply_digest` is that of the numbers alone.

    Args:
        message: what is replied to.
        model: after its local steps.
        num_examples: n_r, for strategies that weigh with it; steadfed's rules do not.
        metrics: what else the server may be told, such as {"loss": 0.3}.
        buffers: patterns for names of arrays that are no parameters, as the server has them, if not the usual
            ones; they are looked at only where coordinates are asked for.

    Raises:
        ParameterError: the message asks for coordinates of another model.
    """
    arrays = ArrayRecord(model.state_dict())
    if any(SEED in config for config in message.content.config_records.values()):
        from steadfed.flower._coordinates import arrays_asked_for  # most clients need none of it

        arrays = arrays_asked_for(message.content, arrays, buffers)
    record = _record(message, num_examples, metrics or {})
    return Message(RecordDict({"arrays": with_secret(arrays), "metrics": record}), reply_to=message)


def reply_digest(reply: Message, *, arrays_key: str = "arrays") -> str:
    """Return the SHA-256 by which the server's history names a reply (`reply_digests` of a `RoundRecord`).

    It is over the names, dtypes, shapes and numbers of the arrays, see `steadfed._core.digests`. A client that writes
    it down can later show from `steadfed verify` what it sent, and that nothing else was taken for it.

    Args:
        reply: what `train_reply` returned.
        arrays_key: under which key it holds its arrays.

    Raises:
        ParameterError: it holds none.
    """
    arrays = reply.content.get(arrays_key)
    if not isinstance(arrays, ArrayRecord):
        raise ParameterError(f"a reply must hold an ArrayRecord {arrays_key!r}, got {type(arrays).__name__}")
    return model_digest(arrays)


def count_correct(outputs: Tensor, labels: Tensor) -> int:
    """Count the labels that are the place of the largest output; a single output means class 1 if it is above 0.

    >>> count_correct(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    1
    """
    guesses = (outputs.squeeze(-1) > 0).long() if outputs.shape[-1] == 1 else outputs.argmax(-1)
    return int((guesses == labels.reshape(guesses.shape)).sum())


@torch.no_grad()
def evaluate_reply(
    message: Message,
    model: nn.Module,
    batches: Iterable[Batch],
    loss: LossFunction = functional.cross_entropy,
    num_correct: Callable[[Tensor, Tensor], int] | None = count_correct,
) -> Message:
    """Return the reply to a message that asks how good the model is: "loss", "accuracy" and "num-examples".

    Both are means over all points. The model is switched to evaluation. If the message holds a secret, so does the
    reply, see `train_reply`.

    Args:
        message: what is replied to.
        model: with the server's arrays, see `receive`.
        batches: every batch is looked at once.
        loss: the mean over a batch.
        num_correct: how many labels of a batch were guessed right; None if there is no right or wrong, and then no
            accuracy is reported.

    Raises:
        ParameterError: there is no point.
    """
    model.eval()
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    points = guesses = right = 0
    total = 0.0
    for features, labels in batches:
        outputs, wanted = model(features.to(device)), labels.to(device)
        points += len(labels)
        guesses += labels.numel()
        total += float(loss(outputs, wanted)) * len(labels)
        right += num_correct(outputs, wanted) if num_correct is not None else 0
    if points == 0:
        raise ParameterError("a model is evaluated on at least one point, the batches hold none")
    accuracy = {"accuracy": right / guesses} if num_correct is not None else {}
    record = _record(message, points, {"loss": total / points} | accuracy)
    return Message(RecordDict({"metrics": record}), reply_to=message)


@final
class SeededBatches:
    """The points of one client, and exactly the mini-batches that the simulator draws for it.

    In every step min("batch-size", n) points are drawn without replacement from a stream of (seed, round, client); all
    points if "batch-size" is 0. So a federation and a simulation of the same seed take the same steps.

    Args:
        features: n points.
        labels: of the points.
        client: the number of the client, 0 .. R − 1, as the simulator counts.

    >>> batches = SeededBatches(torch.arange(5.0)[:, None], torch.arange(5), client=3)
    >>> config = {"local-steps": 2, "batch-size": 2, "seed": 0, "round": 4}
    >>> [labels.tolist() for _, labels in batches.batches_for(config)]
    [[1, 2], [1, 4]]
    """

    def __init__(self, features: Tensor, labels: Tensor, *, client: int) -> None:
        """Keep the points; raises `ParameterError` if there are none or the labels are not theirs."""
        if len(features) != len(labels) or len(labels) == 0:
            raise ParameterError(
                f"a client has at least one point and as many labels, got {len(features)} and {len(labels)}"
            )
        self.features, self.labels = features, labels
        self.client = whole({"client": client}, "client", 0, LARGEST)

    def batches_for(self, config: Mapping[str, Any], *, limits: ClientLimits | None = None) -> Iterator[Batch]:
        """Return the H batches of a round; `limits` are what the config of the node says, if left out.

        Raises:
            ParameterError: a value of the config is missing or out of range.
        """
        most = limits_of(config, limits)
        steps, size, points = most.steps_of(config), most.batch_size_of(config), len(self.labels)
        if size == 0:
            most.batch_size_of({"batch-size": points})
            return ((self.features, self.labels) for _ in range(steps))
        return self._draw(steps, size, whole(config, "seed", 0, LARGEST), whole(config, "round", 0, LARGEST))

    def _draw(self, steps: int, size: int, seed: int, round: int) -> Iterator[Batch]:
        from steadfed.simulation._batches import batches as drawn

        points = len(self.labels)
        if steps * points > _MOST_DRAWS:
            raise ParameterError(
                f"'local-steps' times the client's {points} points must be at most {_MOST_DRAWS} for batches that are "
                f"drawn, got {steps} steps; a 'batch-size' of 0 takes all points in every step"
            )
        clients, sizes = np.array([self.client]), np.array([points])
        positions = drawn(seed, round, clients, sizes, steps=steps, batch_size=min(size, points))[0]
        return ((self.features[step], self.labels[step]) for step in torch.from_numpy(positions))


def _cycle(batches: Iterable[Batch], number: int) -> Iterator[Batch]:
    """Yield so many batches, starting again as often as needed."""
    given = 0
    while given < number:
        before = given
        for batch in batches:
            yield batch
            given += 1
            if given == number:
                return
        if given == before:
            raise ParameterError(
                f"'local-steps' asks for {number} batches, got {given}; pass at least one, and what can be gone "
                "through again, such as a list or a DataLoader, if there are fewer than steps"
            )


def _record(message: Message, num_examples: int, metrics: Mapping[str, float]) -> MetricRecord:
    """Return the metrics, with a secret for a server that sends secrets: others would average it, and show the mean."""
    record = MetricRecord({"num-examples": operator.index(num_examples), **metrics})
    if any(SECRET in config for config in message.content.config_records.values()):
        record[SECRET] = [secrets.randbits(_SECRET_BITS) for _ in range(_SECRET_NUMBERS)]
    return record
