"""Algorithm 1: the rounds of a federation on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.aggregators import Aggregation, Median, Need, ServerView
from holdfast.data import Dataset
from holdfast.errors import CohortTooSmallError, NoUsableRowError
from holdfast.linalg.threads import one_torch_thread
from holdfast.rng import stream_keys, stream_words
from holdfast.server.record import RoundRecord
from holdfast.simulation.adversary import Adversary, Turn, divergence
from holdfast.simulation.config import RunConfig
from holdfast.simulation.crew import Crew, Start, take_steps
from holdfast.simulation.local import Chunk, Indices
from holdfast.simulation.measuring import honest_figures
from holdfast.simulation.recording import Timer, decided
from holdfast.simulation.setting import Setting, dtype_of

Memory = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class State:
    """All that one round hands to the next. A state is never changed; a round makes a new one."""

    round: int
    """How many rounds are done."""
    model: Float[Tensor, " d"]
    """x."""
    buffers: Float[Tensor, " m"]
    """The floating-point buffers of the model, such as running means."""
    velocity: Float[Tensor, " d"] | None = None
    """The server's momentum."""
    rule_memory: Memory = field(default_factory=dict)
    attack_memory: Memory = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Cohort:
    """Who takes part in a round. Clients that the engine can take together are adjacent."""

    round: int
    lr: float
    sampled: Indices
    byzantine: Indices
    """The adversary's clients that send something."""
    honest: Indices
    """The honest clients that send something."""
    erased: Indices
    """The clients whose update is lost on the way; they take no steps."""
    adversarial: Indices
    """All of the adversary's clients that were sampled, the erased ones among them."""


@dataclass(frozen=True, eq=False)
class Received:
    """The matrix as the server gets it: forged rows first, so that ties are broken in the adversary's favour."""

    updates: Float[Tensor, "n d"]
    clients: Indices
    num_forged: int
    buffers: Float[Tensor, "n m"]

    @property
    def honest(self) -> Float[Tensor, "h d"]:
        """The rows of honest clients."""
        return self.updates[self.num_forged :]


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
        self.config = config
        with one_torch_thread():
            self.setting = Setting.of(config, dataset if dataset is not None else config.data.load())
        self._adversary = Adversary(config.attack, config.granted(), config.seed)
        self._crew = Crew(self.setting.engine, config.cohort_size, jobs)

    def __enter__(self) -> Self:
        """Start the worker processes."""
        self._crew.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the worker processes."""
        self._crew.__exit__(kind, error, trace)

    @property
    def client_momentum(self) -> Float[Tensor, "R d"] | None:
        """Every client's momentum, changed by every round; None unless the configuration asks for it."""
        return self._crew.momentum

    def start(self) -> State:
        """Return the state before the first round: the model as the architecture and the seed make it, no momentum."""
        self._crew.forget()
        dtype, layout = dtype_of(self.config), self.setting.layout
        module = self.config.model.build(self.setting.dataset, self.config.seed).to(dtype)
        device = self.config.device
        return State(0, layout.parameters_of(module, dtype).to(device), layout.buffers_of(module, dtype).to(device))

    def play(self, state: State) -> tuple[State, RoundRecord]:
        """Play one round: sample, local steps, attack, aggregation, step of the server; then look at the model."""
        timer = Timer()
        with one_torch_thread():
            with timer.part("sampling"):
                cohort = self._cohort(state.round)
            with timer.part("local_steps"):
                self._train(state, cohort)
                view = self._server_view(state)
            timer.move("local_steps", "sampling", self._crew.sampling_seconds)
            with timer.part("attack"):
                received, attack_memory = self._attacked(state, cohort, view)
            with timer.part("aggregation"):
                outcome = self._aggregated(received, view)
                following = replace(self._stepped(state, cohort.lr, received, outcome), attack_memory=attack_memory)
            measured = self._measured(cohort.round, received, outcome, timer)
            with timer.part("evaluation"):
                scores = self._looked_at(following)
        facts = {**_who(cohort, received), **_what(received, outcome), **measured, **scores}
        step = following.round * self.config.local_steps
        return following, RoundRecord(round=state.round, step=step, lr=cohort.lr, **facts, seconds=timer.rounded())

    def _cohort(self, round_number: int) -> Cohort:
        """Sample K clients; find who is lost on the way and who is Byzantine."""
        config, num_clients = self.config, self.setting.num_clients
        sampled = config.cohorts.cohort(round_number, num_clients, config.cohort_size, config.seed)
        words = stream_words(stream_keys(config.seed, "erasures", round_number, ids=sampled), 1)[:, 0]
        lost = words.astype(np.float64) < config.client.erasure_rate * 2.0**64
        liars = config.byzantine.among(sampled, round_number, num_clients, config.seed)
        return Cohort(
            round_number,
            config.lr_of(round_number),
            sampled,
            byzantine=self._arranged(sampled[~lost & liars]),
            honest=self._arranged(sampled[~lost & ~liars]),
            erased=sampled[lost],
            adversarial=sampled[liars],
        )

    def _arranged(self, clients: Indices) -> Indices:
        """Return the clients with those adjacent that the engine can take together."""
        return clients[np.argsort(self.setting.engine.kinds(clients), kind="stable")]

    def _train(self, state: State, cohort: Cohort) -> None:
        """Fill the matrix with (x − x_r)/η: the Byzantine clients' rows first, then the honest ones'."""
        num_liars, trains = len(cohort.byzantine), self._adversary.trains(len(cohort.honest))
        self._crew.matrix[:num_liars].zero_()
        self._crew.buffer_matrix[:num_liars] = state.buffers
        clients = np.concatenate([cohort.byzantine, cohort.honest]) if trains else cohort.honest
        poisoned = np.isin(clients, cohort.byzantine) & self._adversary.poisons(cohort.round)
        chunk = Chunk(cohort.round, cohort.lr, clients, poisoned)
        self._crew.train((state.model, state.buffers), chunk, first_row=0 if trains else num_liars)

    def _server_view(self, state: State) -> ServerView:
        """Return what the server tells its rule besides the rows."""
        view = ServerView(round=state.round, model=state.model, memory=state.rule_memory)
        needs, trusted = self.config.rule.all_needs(), self.setting.trusted
        if trusted is None:
            return view
        if Need.TRUSTED_ROW in needs:
            view = replace(view, trusted_row=self._trusted_row(state))

        def loss(model: Tensor) -> float:
            score = trusted.score(model, state.buffers)
            return score.loss if score is not None else 0.0

        return replace(view, trusted_loss=loss) if Need.TRUSTED_LOSS in needs else view

    def _trusted_row(self, state: State) -> Float[Tensor, " d"]:
        """Return what the server would send if it were a client, from its own points."""
        server = np.array([self.setting.num_clients])
        chunk = Chunk(state.round, self.config.lr_of(state.round), server, np.zeros(1, dtype=np.bool_))
        row, buffers = torch.empty_like(state.model)[None], torch.empty_like(state.buffers)[None]
        momentum = self._crew.momentum
        take_steps(self.setting.engine, chunk, Start(state.model, state.buffers, momentum), row, buffers)
        if momentum is not None:
            momentum[self.setting.num_clients].zero_()  # the server begins anew in every round
        return row[0]

    def _attacked(self, state: State, cohort: Cohort, view: ServerView) -> tuple[Received, Memory]:
        """Put what the Byzantine clients send in the place of what they computed."""
        num_liars, number = len(cohort.byzantine), len(cohort.byzantine) + len(cohort.honest)
        own, honest = self._crew.matrix[:num_liars], self._crew.matrix[num_liars:number]
        clients = np.concatenate([cohort.byzantine, cohort.honest])
        turn = Turn(cohort.round, view, clients, state.attack_memory)
        forged = self._adversary.forge(own, honest, self.config.rule, turn)
        first = int(forged.silent.sum())  # silent ones are left out at the front, so nothing is copied behind it
        self._crew.matrix[first:num_liars] = forged.sent
        speaking = np.concatenate([~forged.silent.cpu().numpy(), np.ones(len(cohort.honest), dtype=np.bool_)])
        buffers = self._crew.buffer_matrix[:number][torch.from_numpy(speaking)]
        received = Received(self._crew.matrix[first:number], clients[speaking], num_liars - first, buffers)
        return received, forged.memory

    def _aggregated(self, received: Received, view: ServerView) -> Aggregation | str:
        """Return what the rule makes of the rows, or why it can make nothing of them."""
        if len(received.clients) == 0:
            return "no client sent an update"
        if (diverged := divergence(view)) is not None:
            return diverged
        try:
            return self.config.rule(received.updates, replace(view, clients=received.clients.tolist()))
        except (CohortTooSmallError, NoUsableRowError) as error:
            return str(error)

    def _stepped(self, state: State, lr: float, received: Received, outcome: Aggregation | str) -> State:
        """Return the state after x ← x − η ĝ; only the count of rounds changes if there is no ĝ."""
        if isinstance(outcome, str):
            return replace(state, round=state.round + 1)
        velocity, direction = None, outcome.update
        if self.config.server.momentum:
            velocity = (
                outcome.update
                if state.velocity is None
                else self.config.server.momentum * state.velocity + outcome.update
            )
            direction = velocity
        buffers = _common(received.buffers, state.buffers)
        model = torch.sub(state.model, direction, alpha=lr)
        return State(state.round + 1, model, buffers, velocity, outcome.memory, state.attack_memory)

    def _measured(
        self, round_number: int, received: Received, outcome: Aggregation | str, timer: Timer
    ) -> dict[str, float | None]:
        """Return how far the honest rows spread, in the rounds in which that is measured."""
        if not self.config.measures(round_number):
            return {}
        with timer.part("measuring"):
            return honest_figures(received.honest, None if isinstance(outcome, str) else outcome.certificate)

    def _looked_at(self, state: State) -> dict[str, Any]:
        """Return losses and accuracies, in the rounds in which the model is looked at."""
        if state.round % self.config.evaluation.every and state.round != self.config.rounds:
            return {}
        found: dict[str, Any] = {}
        for name, examiner in (("train", self.setting.train), ("test", self.setting.test)):
            score = examiner.score(state.model, state.buffers)
            if score is not None:
                found |= {f"{name}_loss": score.loss, f"{name}_accuracy": score.accuracy}
        return found


def _common(rows: Float[Tensor, "n m"], before: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """Return the median of the clients' buffers: means stay within theirs, variances positive, whoever lies."""
    if len(before) == 0:
        return before
    try:
        return Median()(rows).update
    except NoUsableRowError:
        return before


def _who(cohort: Cohort, received: Received) -> dict[str, Any]:
    """Return who was there, for the record."""
    silent = cohort.byzantine[~np.isin(cohort.byzantine, received.clients)]
    model = (received.updates.shape[1] + received.buffers.shape[1]) * received.updates.element_size()
    return {
        "cohort": cohort.sampled.tolist(),
        "byzantine": cohort.adversarial.tolist(),
        "erased": [*cohort.erased.tolist(), *silent.tolist()],
        "received": received.clients.tolist(),
        "bytes_down": len(cohort.sampled) * model,
        "bytes_up": len(received.clients) * model,
    }


def _what(received: Received, outcome: Aggregation | str) -> dict[str, Any]:
    """Return what the rule decided, for the record, and how far that is from the truth."""
    facts = decided(outcome, received.clients.tolist())
    if isinstance(outcome, str) or not len(received.honest):
        return facts
    return {**facts, "error": float(torch.linalg.vector_norm(outcome.update - received.honest.mean(0)))}
