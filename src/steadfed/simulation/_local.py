"""What one client does between receiving the model and sending it back: settings, data, and a chunk of such work."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from steadfed._core.arrays import Indices
from steadfed._core.rng import stream
from steadfed._core.values import ValueObject, real_number, whole_number
from steadfed.attacks._poisoning import PoisonedShare, Poisoning
from steadfed.attacks._replacement import AdversarialTraining
from steadfed.models._layout import Layout
from steadfed.models._losses import Loss
from steadfed.partitions._base import Shares
from steadfed.server._timer import Timer
from steadfed.simulation._batches import batches

Number = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]
Share = Annotated[float, Field(ge=0.0, lt=1.0), BeforeValidator(real_number)]


class LocalSteps(ValueObject):
    """H steps of SGD from the model that was received: x_r ← x_r − η g_r (Algorithm 1, lines 5 to 11).

    With momentum β, m ← β m + g_r and x_r ← x_r − η m; a client keeps its m from one of its rounds to the next.
    """

    steps: Number = 1
    """H, how many steps a client takes in a round; the most, if rounds differ."""
    batch_size: Number | Literal["full"] = 32
    """b, how many of its points a client draws for a step, without replacement; all if it has fewer, or "full"."""
    momentum: Share = 0.0
    """β of the clients; 0, as in the paper, for none."""
    weight_decay: Annotated[float, Field(ge=0.0), BeforeValidator(real_number)] = 0.0
    """Added to every gradient, times the parameters; not part of the objective, unlike the model's l2."""
    clip: Annotated[float, Field(gt=0.0), BeforeValidator(real_number)] | None = None
    """Longest gradient that an honest client steps along; longer ones are shortened to it."""

    @property
    def is_plain(self) -> bool:
        """Whether a step is x ← x − η g and nothing else."""
        return self.momentum == 0.0 and self.clip is None

    def batch_sizes(self, sizes: Indices) -> Indices:
        """Return how many points each client draws for a step: min(b, n_r), or n_r."""
        return sizes if self.batch_size == "full" else np.minimum(sizes, self.batch_size)


@dataclass(frozen=True, eq=False)
class Adversarial:
    """What clients do while they attack through their data, and which of them may."""

    poisoning: Poisoning
    """What becomes of their points and labels."""
    members: NDArray[np.bool_]
    """Which of all clients may attack in some round."""
    training: AdversarialTraining | None = None
    """How they take their steps; None if as the others do."""

    @property
    def apart(self) -> NDArray[np.bool_]:
        """Which clients an engine may not prepare for by their own points, as they train on others in some rounds."""
        return self.members & (self.poisoning.moves_points or self.training is not None)


@dataclass(frozen=True, eq=False)
class ClientData:
    """The points of all clients in stacked tensors, and whose they are."""

    features: Tensor
    labels: Tensor
    num_classes: int | None
    shares: Shares
    order: Tensor
    """The order of the shares, as a tensor beside the features."""
    adversarial: Adversarial | None
    """What some of the clients do while they attack through their data; None if nobody does."""
    seed: int
    _poisoned: dict[int, PoisonedShare] = field(default_factory=dict)

    def sizes(self, clients: Indices) -> Indices:
        """Return n_r of the clients."""
        offsets = self.shares.offsets
        return offsets[clients + 1] - offsets[clients]

    def poisoned(self, client: int) -> PoisonedShare:
        """Return what an attacking client trains on, the same in every round."""
        if client not in self._poisoned:
            attacks, points = self.adversarial, self.shares.points(client)
            if attacks is None:
                own = PoisonedShare(self.labels[torch.from_numpy(points).to(self.labels.device)])
            else:
                member = int(attacks.members[:client].sum())
                own = attacks.poisoning.share(points, member, stream(self.seed, "poison", client))
            self._poisoned[client] = own.to(self.labels.device)
        return self._poisoned[client]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some clients of a cohort that take their steps together."""

    round: int
    lr: float
    steps: int
    """How many each of them takes in this round."""
    clients: Indices
    poisoned: NDArray[np.bool_]
    """Which of them train on poisoned data in this round."""
    first: int = 0
    """How many steps of the round they have taken already; `steps` counts those that are left."""

    def __len__(self) -> int:
        """Return how many clients there are."""
        return len(self.clients)

    def part(self, start: int, stop: int) -> Chunk:
        """Return the clients start .. stop − 1."""
        return replace(self, clients=self.clients[start:stop], poisoned=self.poisoned[start:stop])


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """All that engines need to know to take steps for any client."""

    module: nn.Module
    """The model, whose weights are nobody's: engines put in those of the client at hand."""
    layout: Layout
    loss: Loss
    l2: float
    local: LocalSteps
    data: ClientData
    seed: int
    timer: Timer = field(default_factory=Timer)
    """Time spent on drawing batches."""

    @property
    def decay(self) -> float:
        """What times the parameters is added to the gradient of the loss: the objective's l2 and the weight decay."""
        return self.l2 + self.local.weight_decay

    def positions(self, chunk: Chunk) -> Indices:
        """Return the positions of the points of every step, clients × H × b; all clients must draw equally many.

        For full batches they are those of one step, clients × 1 × n.
        """
        sizes = self.data.sizes(chunk.clients)
        number = int(self.local.batch_sizes(sizes)[0]) if len(chunk) else 0
        if self.local.batch_size == "full":
            return np.broadcast_to(np.arange(number), (len(chunk), 1, number))
        with self.timer.part("batches"):
            last = chunk.first + chunk.steps
            drawn = batches(self.seed, chunk.round, chunk.clients, sizes, steps=last, batch_size=number)
            return drawn[:, chunk.first :]

    @torch.no_grad()
    def step_(
        self,
        rows: Float[Tensor, "c d"],
        gradients: Float[Tensor, "c d"],
        momentum: Float[Tensor, "c d"] | None,
        lr: float,
    ) -> None:
        """Take one step of every row in place: decay, clipping, momentum, descent. The gradients are used up.

        Every operation works row by row, so a client's step does not depend on who else is in the chunk.
        """
        if self.decay:
            gradients.add_(rows, alpha=self.decay)
        if self.local.clip is not None:
            for gradient in gradients:
                length = float(torch.linalg.vector_norm(gradient, dtype=torch.float64))
                if length > self.local.clip:
                    gradient.mul_(self.local.clip / length)
        if momentum is not None:
            gradients = momentum.mul_(self.local.momentum).add_(gradients)
        rows.add_(gradients, alpha=-lr)
