"""Algorithm 1: the rounds of a federation on one machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed._core.arrays import Indices, Vector
from steadfed._core.coordinates import seed_of_round
from steadfed._core.own_code import loaded
from steadfed._core.rng import stream, stream_keys, stream_words
from steadfed._linalg.columns import DenseColumns
from steadfed._linalg.threads import one_torch_thread
from steadfed.aggregators import Aggregation, ServerView
from steadfed.data import Dataset
from steadfed.server._buffers import variance_columns
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._coordinates import Places, places_of
from steadfed.server._decision import Skipped
from steadfed.server._record import Client, RoundCoordinates, RoundRecord
from steadfed.server._round import MessageBytes, Received, Server, round_record
from steadfed.server._state import ServerState, below, with_prefix
from steadfed.server._timer import Timer
from steadfed.simulation._adversary import Adversary, AttackContext
from steadfed.simulation._config import RunConfig
from steadfed.simulation._local import Chunk
from steadfed.simulation._measuring import honest_figures
from steadfed.simulation._reading import Outputs
from steadfed.simulation._setting import Setting, dtype_of
from steadfed.simulation._worker_pool import Start, WorkerPool, take_steps

_ATTACK, _MOMENTUM, _WHO = "attack/", "clients/momentum", "clients/who"
"""What the server keeps for the adversary and the clients, in a checkpoint."""


@dataclass(frozen=True, eq=False)
class Cohort:
    """Who takes part in a round. Clients that the engine can take together are adjacent."""

    round: int
    lr: float
    steps: int
    """How many each of them takes."""
    sampled: Indices
    byzantine: Indices
    """The adversary's clients that send something."""
    honest: Indices
    """The honest clients that send something."""
    adversarial: Indices
    """All of the adversary's clients that were sampled, those whose update is lost on the way among them."""


class Federation:
    """R clients, their data, a server and an adversary, as a configuration describes them; a context manager.

    >>> with Federation(RunConfig(rounds=2)) as federation:
    ...     state, record = federation.play(federation.start())
    >>> record.round, len(record.cohort), state.round
    (0, 40, 1)
    """

    def __init__(self, config: RunConfig, *, dataset: Dataset | None = None, jobs: int = 1) -> None:
        """Load the data (unless given), deal them out, build the model, choose the engine.

        Args:
            config: what to run.
            dataset: the data, if they are not to be loaded from `config.data`.
            jobs: how many worker processes take the clients' steps; the result does not depend on it.
        """
        config = loaded(config)
        self.config = config
        with one_torch_thread():
            self.setting = Setting.of(config, dataset if dataset is not None else config.data.load())
        self._adversary = Adversary(config.attack, config.granted(), config.seed)
        variances = variance_columns((place.name, place.size) for place in self.setting.layout.buffers)
        self._server = Server(config.rule, config.server.momentum, variances, self.setting.sites)
        self._pool = WorkerPool(self.setting.engine, config.cohort_size, jobs)

    def __enter__(self) -> Self:
        """Start the worker processes."""
        self._pool.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """End the worker processes."""
        self._pool.stop()

    @property
    def client_momentum(self) -> Float[Tensor, "R d"] | None:
        """Every client's momentum, changed by every round; None unless the configuration asks for it."""
        return self._pool.momentum

    def start(self) -> ServerState:
        """Return the state before the first round: the model as the architecture and the seed make it, no momentum."""
        self._pool.forget()
        dtype, layout = dtype_of(self.config), self.setting.layout
        module = self.config.model.build(self.setting.dataset, self.config.seed).to(dtype)
        device = self.config.device
        return ServerState(
            0, layout.parameters_of(module, dtype).to(device), layout.buffers_of(module, dtype).to(device)
        )

    def checkpoint(self, state: ServerState) -> Checkpoint:
        """Return everything that the next round depends on; of the clients' momentum only what is not zero."""
        momentum = self.client_momentum
        if momentum is None:
            return state.to_checkpoint()
        touched = momentum.any(dim=1).nonzero().flatten()
        return replace(state, extra={**state.extra, _WHO: touched, _MOMENTUM: momentum[touched]}).to_checkpoint()

    def restore(self, checkpoint: Checkpoint) -> ServerState:
        """Return the state that a checkpoint holds, and give the clients their momentum back."""
        state, momentum = ServerState.from_checkpoint(checkpoint, self.config.device), self.client_momentum
        if momentum is not None:
            momentum.zero_()
            momentum[state.extra[_WHO]] = state.extra[_MOMENTUM]
        attack = {name: tensor for name, tensor in state.extra.items() if name not in {_WHO, _MOMENTUM}}
        return replace(state, extra=attack)

    def play(self, state: ServerState) -> tuple[ServerState, RoundRecord]:
        """Run one round: sample, local steps, attack, aggregation, step of the server; then look at the model."""
        timer = Timer()
        with one_torch_thread():
            with timer.part("sampling"):
                cohort = self._cohort(state.round)
                coordinates = self._coordinates(state.round)
                places = places_of(coordinates, len(state.model), self.config.device)
            with timer.part("local_steps"):
                self._train(state, cohort)
                view = self._server_view(state, len(cohort.sampled), places)
            timer.move("local_steps", "sampling", self._pool.sampling_seconds)
            with timer.part("attack"):
                received, num_forged, extra = self._attack(state, cohort, view, places)
            honest = received.updates[num_forged:]
            with timer.part("aggregation"):
                outcome, following = self._server.conclude(
                    state, received, view, lr=cohort.lr, asked=cohort.sampled.tolist()
                )
                following = replace(following, extra=extra)
            facts = self._truth(
                cohort.round, honest, self._weights(cohort, received.clients[num_forged:]), outcome, timer
            )
            with timer.part("evaluation"):
                facts |= self._evaluate(following)
        return following, round_record(
            outcome,
            round=state.round,
            step=self.config.steps_until(state.round + 1),
            lr=cohort.lr,
            cohort=cohort.sampled.tolist(),
            received=received.clients,
            message_bytes=self._message_bytes(state, received),
            coordinates=coordinates,
            byzantine=tuple(cohort.adversarial.tolist()),
            seconds=timer.rounded(),
            **facts,
        )

    def _cohort(self, round_number: int) -> Cohort:
        """Sample K clients; find who is lost on the way and who is Byzantine."""
        config, num_clients = self.config, self.setting.num_clients
        sampled = config.cohorts.cohort(round_number, num_clients, config.cohort_size, config.seed)
        words = stream_words(stream_keys(config.seed, "erasures", round_number, ids=sampled), 1)[:, 0]
        lost = words.astype(np.float64) < config.client.erasure_rate * 2.0**64
        adversarial = config.byzantine.among(sampled, round_number, num_clients, config.seed)
        return Cohort(
            round_number,
            config.lr_of(round_number),
            config.steps_of(round_number),
            sampled,
            byzantine=self._sort_by_kind(sampled[~lost & adversarial]),
            honest=self._sort_by_kind(sampled[~lost & ~adversarial]),
            adversarial=sampled[adversarial],
        )

    @staticmethod
    def _message_bytes(state: ServerState, received: Received) -> MessageBytes:
        """Return the bytes of a model with its buffers, and those of an update with them."""
        numbers = (len(state.model) + len(state.buffers), received.updates.shape[1] + len(state.buffers))
        return MessageBytes(*(number * state.model.element_size() for number in numbers))

    def _coordinates(self, round_number: int) -> RoundCoordinates | None:
        """Return which coordinates a round is about, from the run's own stream; None for all."""
        number = self.config.compression.number(self.setting.layout.dim)
        if number == self.setting.layout.dim:
            return None
        return RoundCoordinates(number=number, seed=seed_of_round(self.config.seed, round_number))

    def _sort_by_kind(self, clients: Indices) -> Indices:
        """Return the clients with those adjacent that the engine can take together."""
        return clients[np.argsort(self.setting.engine.kinds(clients), kind="stable")]

    def _train(self, state: ServerState, cohort: Cohort) -> None:
        """Fill the matrix with (x − x_r)/η: the Byzantine clients' rows first, then the honest ones'."""
        num_byzantine, trains = len(cohort.byzantine), self._adversary.trains(len(cohort.honest))
        self._pool.matrix[:num_byzantine].zero_()
        self._pool.buffer_matrix[:num_byzantine] = state.buffers
        clients = np.concatenate([cohort.byzantine, cohort.honest]) if trains else cohort.honest
        poisoned = np.isin(clients, cohort.byzantine) & self._adversary.poisons(cohort.round)
        chunk = Chunk(cohort.round, cohort.lr, cohort.steps, clients, poisoned)
        self._pool.train((state.model, state.buffers), chunk, first_row=0 if trains else num_byzantine)

    def _server_view(self, state: ServerState, asked: int, places: Places = None) -> ServerView:
        """Return what the server tells its rule besides the rows."""

        def loss(model: Tensor) -> float:
            score = None if self.setting.trusted is None else self.setting.trusted.score(model, state.buffers)
            return score.loss if score is not None else 0.0

        secret = int.from_bytes(stream(self.config.seed, "secret", state.round).bytes(16), "little")
        return self._server.view(
            state,
            asked=asked,
            sampled=asked < self.setting.num_clients,
            trusted_row=lambda: self._trusted_row(state),
            trusted_loss=loss,
            secret=secret,
            places=places,
        )

    def _trusted_row(self, state: ServerState) -> Float[Tensor, " d"]:
        """Return what the server would send if it were a client, from its own points."""
        server = np.array([self.setting.num_clients])
        number, config = state.round, self.config
        chunk = Chunk(number, config.lr_of(number), config.steps_of(number), server, np.zeros(1, dtype=np.bool_))
        row, buffers = torch.empty_like(state.model)[None], torch.empty_like(state.buffers)[None]
        momentum = self._pool.momentum
        take_steps(self.setting.engine, chunk, Start(state.model, state.buffers, momentum), row, buffers)
        if momentum is not None:
            momentum[self.setting.num_clients].zero_()  # the server begins anew in every round
        return row[0]

    def _attack(
        self, state: ServerState, cohort: Cohort, view: ServerView, places: Places
    ) -> tuple[Received, int, dict[str, Tensor]]:
        """Put what the Byzantine clients send in the place of what they computed.

        In a round about some coordinates these are taken out of the rows first: the adversary sees and forges what is
        sent, of the coordinates of this round.

        Forged rows come first, so that ties are broken in the adversary's favour; their number and what the adversary
        remembers are returned too.
        """
        num_byzantine, number = len(cohort.byzantine), len(cohort.byzantine) + len(cohort.honest)
        rows = self._pool.matrix[:number]
        if places is not None:
            rows = DenseColumns(rows).take(places.cpu().numpy())
        own, honest = rows[:num_byzantine], rows[num_byzantine:]
        clients = np.concatenate([cohort.byzantine, cohort.honest])
        weights = {} if self._server.sites is None else self._server.sites.among(cohort.sampled.tolist())
        context = AttackContext(view, clients, below(_ATTACK, state.extra), weights)
        forged = self._adversary.forge(own, honest, self.config.rule, context)
        first = int(forged.silent.sum())  # silent ones are left out at the front, so nothing is copied behind it
        rows[first:num_byzantine] = forged.sent
        speaking = np.concatenate([~forged.silent.cpu().numpy(), np.ones(len(cohort.honest), dtype=np.bool_)])
        buffers = self._pool.buffer_matrix[:number][torch.from_numpy(speaking)]
        received = Received(rows[first:], tuple(clients[speaking].tolist()), buffers, places=places)
        return received, num_byzantine - first, with_prefix(_ATTACK, forged.memory)

    def _weights(self, cohort: Cohort, honest: tuple[Client, ...]) -> Vector | None:
        """Return how much each honest row counts; None if all count alike."""
        if self._server.sites is None or not honest:
            return None
        weights = self._server.sites.among(cohort.sampled.tolist())
        found = np.array([weights[client] for client in honest])
        return None if bool((found == found[0]).all()) else found

    def _truth(
        self,
        round_number: int,
        honest: Float[Tensor, "h d"],
        weights: Vector | None,
        outcome: Aggregation | Skipped,
        timer: Timer,
    ) -> dict[str, Any]:
        """Return how far the update is from the honest mean, and the spread of the honest rows where it is measured."""
        facts: dict[str, Any] = {}
        aggregation = None if isinstance(outcome, Skipped) else outcome
        if aggregation is not None and len(honest):
            mean = honest.mean(0) if weights is None else DenseColumns(honest).combine(weights / weights.sum())
            facts["error"] = float(torch.linalg.vector_norm(aggregation.update - mean))
        if self.config.measures(round_number):
            with timer.part("measuring"):
                facts |= honest_figures(honest, aggregation, weights)
        return facts

    def _evaluate(self, state: ServerState) -> dict[str, Any]:
        """Return losses and accuracies, in the rounds in which the model is looked at."""
        if state.round % self.config.evaluation.every and state.round != self.config.rounds:
            return {}
        found: dict[str, Any] = {}
        metrics: dict[str, float | None] = {}
        for name, evaluator in (("train", self.setting.train), ("test", self.setting.test)):
            score = evaluator.score(state.model, state.buffers)
            if score is not None:
                found |= {f"{name}_loss": score.loss, f"{name}_accuracy": score.accuracy}
                metrics |= score.metrics
                found |= self._client_scores(score.outputs, state.round - 1)
        for probe in self.setting.probes:
            score = probe.score(state.model, state.buffers)
            metrics |= {} if score is None else score.metrics
        return found | ({"test_metrics": metrics} if metrics else {})

    def _client_scores(self, outputs: Outputs | None, round_number: int) -> dict[str, Any]:
        """Return how good the model is for the clients that are honest in a round, if that is asked for."""
        scorer, config = self.setting.scorer, self.config
        if scorer is None or outputs is None:
            return {}
        byzantine = config.byzantine.among(scorer.clients, round_number, self.setting.num_clients, config.seed)
        return {"client_scores": scorer.score(outputs, byzantine)}
