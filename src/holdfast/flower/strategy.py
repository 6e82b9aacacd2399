"""Flower strategies around any rule of holdfast: no reply ends the run, poisons the model or changes its shape."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from logging import INFO
from typing import Any, Literal, final

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log
from torch import Tensor

from holdfast.aggregators import Aggregation, Aggregator, Need, Rage, ServerView
from holdfast.errors import ParameterError, ReplyError
from holdfast.flower.door import Door, secret, written
from holdfast.flower.gate import Gate
from holdfast.flower.journal import ServerState
from holdfast.flower.layout import BUFFERS, ModelLayout
from holdfast.flower.metrics import scalars_of
from holdfast.flower.playing import Settings, play
from holdfast.flower.receiving import Unreadable
from holdfast.flower.reports import MetricsFn, common_record, figures, say, with_counts
from holdfast.flower.rounds import Received, Start, Tampering, TrainingRound, aggregated, erased
from holdfast.flower.sampling import Member, Muster, Roll, Roster, cohort_of, examiners_of
from holdfast.flower.stepping import stepped
from holdfast.flower.terms import known, terms_of
from holdfast.server.record import Client, RoundRecord, finite
from holdfast.simulation import RunConfig
from holdfast.simulation.cohorts import Cohorts, UniformCohorts
from holdfast.simulation.recording import Timer, decided
from holdfast.simulation.schedules import ConstantSchedule, Schedule


@dataclass(kw_only=True, eq=False)
class HoldfastStrategy(Strategy, ABC):
    """What `RobustStrategy` and `RageStrategy` share; FedAvg's keywords mean what they mean there.

    Each round: exactly K nodes, drawn by name from a seeded stream, get the model; what comes back is read into one
    K × d matrix of updates (x − x_r)/η; the rule makes one update ĝ of it, every client with the same say; x ← x − η ĝ.
    Buffers (running means and variances, counters) go another way: the median over the replies. A reply that is no
    model like the one sent counts as Byzantine and is recorded with the reason; one that does not come is an erasure.
    If those that are left are too few for what is assumed, the model stays as it is and the record says why.
    """

    fraction_train: float = 1.0
    """Share of the nodes online that train; `min_train_nodes` if those are more. 0 for no training."""
    fraction_evaluate: float = 1.0
    """Share of the nodes online that evaluate; 0 for none."""
    min_train_nodes: int = 2
    min_evaluate_nodes: int = 2
    min_available_nodes: int = 2
    """How many nodes must be online for a round to begin."""
    num_train_nodes: int | None = None
    """K, exactly so many nodes train, in place of a share; fewer only if there are no more."""
    weighted_by_key: str = "num-examples"
    """Handed to the two functions below; nobody's word is weighted by it."""
    arrayrecord_key: str = "arrays"
    configrecord_key: str = "config"
    train_metrics_aggr_fn: MetricsFn | None = None
    """Makes one MetricRecord of the clients' (arrays left out); the median over the clients if left out."""
    evaluate_metrics_aggr_fn: MetricsFn | None = None
    lr: float | None = None
    """η, sent to the clients; None if they choose it themselves (then an update is x − x_r, and the step is 1)."""
    local_steps: int = 1
    """H, sent to the clients."""
    batch_size: int | Literal["full"] = 32
    """b, sent to the clients."""
    schedule: Schedule = field(default_factory=ConstantSchedule)
    """How η changes over the rounds."""
    server_momentum: float = 0.0
    """β of the server: v ← β v + ĝ and x ← x − η v."""
    seed: int = 0
    """The root of everything random."""
    cohorts: Cohorts = field(default_factory=UniformCohorts)
    """How a cohort is chosen among the nodes, sorted by name."""
    nodes: Roll = None
    """Names of nodes by node id, or a JSON file with them; only these are asked. All, by id, if left out."""
    run_folder: str | os.PathLike[str] | None = None
    """Where the run is written down, and continued from if it was interrupted; nowhere if left out."""
    twin: RunConfig | None = None
    """A simulation of the same federation, if the operator knows the data and the model: for `holdfast certify`."""
    convert_dtypes: bool = False
    """Whether floats of another precision are converted; otherwise they are no model."""
    buffers: Sequence[str] = BUFFERS
    """Patterns for names of arrays that are no parameters; whatever holds no floats is none anyway."""
    wait_for_nodes: float = 600.0
    """Longest wait for nodes to come online, in seconds."""
    trusted_update_fn: Callable[[int, ArrayRecord], ArrayRecord] | None = None
    """Trains the model on data the server trusts, for rules that need such an update."""
    trusted_loss_fn: Callable[[ArrayRecord], float] | None = None
    """The loss on data the server trusts, for rules that need it."""
    tampering: Tampering | None = None
    """For drills only: an adversary that sees every update."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        self.terms = terms_of(self)
        self.records: list[RoundRecord] = []
        """The rounds so far, those before an interruption included."""
        self.ttl: float | None = None
        """How long messages stay valid, in seconds; Flower's own default if None."""
        self._roster = Roster.of(self.nodes)
        self._muster = Muster(self._roster, patience=self.wait_for_nodes)
        self._layout: ModelLayout | None = None
        self._state: ServerState | None = None
        self._round: TrainingRound | None = None
        self._examiners = Door([], [], self._roster)
        self._timer = Timer()

    @abstractmethod
    def the_rule(self) -> Aggregator:
        """Return the rule that aggregates."""

    @property
    def layout(self) -> ModelLayout:
        """How the model lies in a row; known from the first round on."""
        return known(self._layout)

    @property
    def state(self) -> ServerState:
        """The state after the last round."""
        return known(self._state)

    def adopt(self, arrays: ArrayRecord, state: ServerState | None = None) -> ServerState:
        """Take the arrays as the model to go on from; the first ones say what a model looks like."""
        if self._layout is None:
            self._layout = ModelLayout.of(arrays, self.buffers)
        model, buffers = self._layout.parameters_of(arrays), self._layout.buffers_of(arrays)
        before = state or self._state or ServerState(0, model, buffers)
        self._state = replace(before, model=model, buffers=buffers)
        return self._state

    def members(self, grid: Grid) -> list[Member]:
        """Return the nodes online, after waiting for as many as a round needs."""
        wanted = self.num_train_nodes or self.min_train_nodes
        return self._muster.online(grid, least=self.min_available_nodes, wanted=wanted)

    def cohort_size(self, online: int) -> int:
        """Return K for so many nodes online."""
        return self.num_train_nodes or max(int(online * self.fraction_train), self.min_train_nodes)

    def num_clients(self, online: int) -> int:
        """Return R: how many nodes have names, or else are online."""
        return online if self._roster.names is None else len(self._roster.names)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose K nodes and write to each: the model, H, η, b."""
        self._timer, self._round, number = Timer(), None, server_round - 1
        state = self.adopt(arrays)
        if self.fraction_train == 0.0:
            return []
        asked: list[Member] = []
        with self._timer.part("sampling"):
            members = self.members(grid)
            if len(members) >= self.min_available_nodes:
                size = self.cohort_size(len(members))
                asked = cohort_of(members, self.cohorts, round=number, size=size, seed=self.seed)
        log(INFO, "configure_train: asking %s of %s nodes", len(asked), len(members))
        settings = self.terms.config(number, config)
        messages = self._messages(asked, arrays, settings, MessageType.TRAIN)
        self._round = TrainingRound(
            Start(number, self.terms.lr_of(number), state.model),
            Door(asked, messages, self._roster),
            Gate(self.layout, arrays_key=self.arrayrecord_key, convert_dtypes=self.convert_dtypes),
            keep_metrics=self.train_metrics_aggr_fn is not None,
        )
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message | Unreadable]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Make one step of the replies, which are emptied as they are read; None in place of a model that stays."""
        training, self._round = self._round, None
        if training is None:
            return None, None
        with self._timer.part("waiting"):
            training.take(replies)
        with self._timer.part("aggregation"):
            received = training.received()
            outcome, following = self._outcome(training.start, received, len(training.door.asked))
        self._state = replace(following, round=server_round)
        record = self._record(training, received.clients, outcome)
        metrics = common_record(
            training.reports, training.metric_records, self.train_metrics_aggr_fn, self.weighted_by_key
        )
        self.records.append(record.model_copy(update={"metrics": finite(figures(metrics, "train/"))}))
        say(record)
        arrays = None if record.skipped else self.layout.to_arrays(self.state.model, self.state.buffers)
        return arrays, with_counts(metrics, record)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose nodes and write to each: the model."""
        self._examiners = Door([], [], self._roster)
        if self.fraction_evaluate == 0.0:
            return []
        members = self._roster.members(grid.get_node_ids())
        size = max(int(len(members) * self.fraction_evaluate), self.min_evaluate_nodes)
        asked = examiners_of(members, round=server_round - 1, size=size, seed=self.seed)
        settings = ConfigRecord({**config, "server-round": server_round})
        messages = self._messages(asked, arrays, settings, MessageType.EVALUATE)
        self._examiners = Door(asked, messages, self._roster)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message | Unreadable]) -> MetricRecord | None:
        """Return the median of what the nodes report; it decides nothing."""
        contents: list[RecordDict] = []
        for reply in replies:
            place = self._examiners.place(reply)
            if place is None:
                continue
            try:
                contents.append(RecordDict(dict(self._examiners.content(place, reply).metric_records)))
            except ReplyError as error:
                log(INFO, "\t> no evaluation from %r: %s", self._examiners.asked[place].name, written(str(error)))
        if not contents:
            return None
        reports = [scalars_of(content) for content in contents]
        return common_record(reports, contents, self.evaluate_metrics_aggr_fn, self.weighted_by_key)

    def summary(self) -> None:
        """Log what the strategy is."""
        how = "no learning rate is sent" if self.lr is None else f"η = {self.lr:g}"
        log(INFO, "\t├──> Rule: %r", self.the_rule())
        log(INFO, "\t├──> Clients: H = %s, %s, batch size %s", self.local_steps, how, self.batch_size)
        log(INFO, "\t└──> Run folder: %s", self.run_folder or "none, so the run cannot be continued")

    def start(  # noqa: PLR0917  Flower's signature
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Play the rounds; or those that are left, if the run folder holds a run that was interrupted.

        Replies are read one at a time as they come, so that the matrix is all that is held of them. The arguments are
        those of Flower's `Strategy.start`; a reply that takes longer than `timeout` seconds is an erasure.

        Raises:
            ParameterError: a number is out of its range, or the arrays are no model that can be trained.
            RunError: the folder holds a run of another configuration, or another process works in it.
        """
        settings = Settings(timeout, train_config or ConfigRecord(), evaluate_config or ConfigRecord(), evaluate_fn)
        return play(self, grid, initial_arrays, num_rounds, settings)

    def prepare(self, rounds: int, timeout: float | None) -> None:
        """Begin anew: learn how many rounds there will be, and how long a reply may take."""
        self.terms, self.ttl = self.terms.lasting(rounds), timeout
        self._layout, self._state = None, None
        self.records.clear()

    def amend(self, changes: Mapping[str, Any], metrics: Mapping[str, float]) -> RoundRecord:
        """Complete the record of the last round by what was found out after it, and return it."""
        last = self.records[-1]
        seconds = {**last.seconds, **self._timer.rounded()}
        self.records[-1] = last.model_copy(
            update=finite({**changes, "metrics": {**last.metrics, **metrics}, "seconds": seconds})
        )
        return self.records[-1]

    @property
    def timer(self) -> Timer:
        """Counts the seconds of the round in progress."""
        return self._timer

    def _messages(self, asked: list[Member], arrays: ArrayRecord, config: ConfigRecord, kind: str) -> list[Message]:
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return [Message(record, member.node_id, kind, ttl=self.ttl, group_id=secret()) for member in asked]

    def _outcome(self, start: Start, received: Received, asked: int) -> tuple[Aggregation | str, ServerState]:
        """Return what the rule made of the rows, and the state after it: the same as before if it made nothing."""
        rule = self.the_rule()
        view = self._view(start, max(asked, 1))
        outcome = aggregated(received, rule, view, self.tampering)
        if isinstance(outcome, str):
            return outcome, self.state
        following = stepped(self.state, start, received, outcome, self.server_momentum, self.layout)
        return (following, self.state) if isinstance(following, str) else (outcome, following)

    def _view(self, start: Start, asked: int) -> ServerView:
        """Return what the server tells its rule besides the rows."""
        needs, state = self.the_rule().all_needs(), self.state
        trusted = None
        if Need.TRUSTED_ROW in needs and self.trusted_update_fn is not None:
            arrays = self.trusted_update_fn(start.round + 1, self.layout.to_arrays(start.model, state.buffers))
            trusted = (start.model - self.layout.parameters_of(arrays)) / start.lr

        def loss(model: Tensor) -> float:
            return float(known(self.trusted_loss_fn)(self.layout.to_arrays(model, state.buffers)))

        return ServerView(
            round=start.round,
            cohort_size=asked,
            model=start.model,
            trusted_row=trusted,
            trusted_loss=loss if Need.TRUSTED_LOSS in needs else None,
            memory=state.rule_memory,
        )

    def _record(self, training: TrainingRound, clients: tuple[Client, ...], outcome: Aggregation | str) -> RoundRecord:
        start, door = training.start, training.door
        return RoundRecord(
            round=start.round,
            step=(start.round + 1) * self.local_steps,
            lr=start.lr,
            cohort=tuple(member.name for member in door.asked),
            erased=erased(door, clients),
            received=clients,
            drops=training.drops,
            bytes_down=len(door.asked) * self.layout.nbytes,
            bytes_up=len(clients) * self.layout.nbytes,
            **decided(outcome, clients),
            seconds=self._timer.rounded(),
        )


@final
@dataclass(kw_only=True, eq=False)
class RobustStrategy(HoldfastStrategy):
    """A Flower strategy around any rule of holdfast.

    >>> from holdfast.aggregators import Krum
    >>> RobustStrategy(Krum(num_byzantine=2), num_train_nodes=10).the_rule()
    Krum(num_byzantine=2)
    """

    rule: Aggregator = field(kw_only=False)
    """How replies are aggregated."""

    def the_rule(self) -> Aggregator:
        """Return the rule."""
        return self.rule


@final
@dataclass(kw_only=True, eq=False)
class RageStrategy(HoldfastStrategy):
    """A Flower strategy around RAGE; give one of `num_malicious_nodes` and `byzantine_fraction`.

    >>> RageStrategy(num_malicious_nodes=2).the_rule()
    Rage(num_byzantine=2)
    """

    num_malicious_nodes: int | None = None
    """How many of the nodes asked in a round may lie."""
    byzantine_fraction: float | None = None
    """Which share of the nodes asked in a round may lie."""

    def the_rule(self) -> Aggregator:
        """Return the filter."""
        try:
            return Rage(num_byzantine=self.num_malicious_nodes, byzantine_fraction=self.byzantine_fraction)
        except ParameterError as error:
            given = f"num_malicious_nodes={self.num_malicious_nodes!r}, byzantine_fraction={self.byzantine_fraction!r}"
            raise ParameterError(f"{given}: {error}") from None
