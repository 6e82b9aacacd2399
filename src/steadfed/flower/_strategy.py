"""Flower strategies around any rule of steadfed: no reply ends the run, poisons the model or changes its shape."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from logging import INFO
from typing import Any, Literal

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from steadfed._core.ranges import check_whole
from steadfed._core.signatures import SigningKey
from steadfed.aggregators import Aggregation, Aggregator, ServerView
from steadfed.flower._client_config import ClientConfig
from steadfed.flower._coordinates import AskedFor
from steadfed.flower._link import nodes_online
from steadfed.flower._logs import RoundLog, log_settings
from steadfed.flower._loop import Evaluated, Loop
from steadfed.flower._messages import Letter, Mail, Writer
from steadfed.flower._metrics import scalars_of
from steadfed.flower._nodes import Member, NodeDirectory, NodeNames, NodeWaiter, cohort_of, evaluators_of
from steadfed.flower._records import RecordNumbers, layout_of, record_of
from steadfed.flower._replies.lookout import Lookout
from steadfed.flower._replies.matcher import ReplyMatcher
from steadfed.flower._replies.matrix import ReplyMatrix
from steadfed.flower._replies.stream import Unreadable
from steadfed.flower._replies.validator import ReplyValidator
from steadfed.flower._reports import MetricsFn, common_record, figures, with_counts, with_evaluation
from steadfed.flower._run_folder import open_run_folder, resume_run, run_exists
from steadfed.flower._settings import Tampering, check_seconds, check_settings, require_known, sites_of_roster
from steadfed.flower._trusted import Trusted
from steadfed.runs._writer import RunWriter
from steadfed.server._coordinates import Places
from steadfed.server._decision import Skipped
from steadfed.server._record import RoundRecord, finite_or_none
from steadfed.server._round import MessageBytes, Server, round_record
from steadfed.server._site_weights import SiteWeights
from steadfed.server._state import ServerState
from steadfed.server._timer import Timer
from steadfed.simulation import RunConfig
from steadfed.simulation._cohorts import Cohorts, UniformCohorts
from steadfed.simulation._compression import Compression, NoCompression, check_memories
from steadfed.simulation._config import ServerOptions
from steadfed.simulation._schedules import ConstantSchedule, Schedule
from steadfed.simulation._step_schedules import StepSchedule
from steadfed.states._layers import deviations, shares_of_removed
from steadfed.states._layout import BUFFERS, ModelLayout

_OF_RUN = ("lr", "local_steps", "batch_size", "schedule", "compression", "seed", "cohorts", "max_share")


@dataclass(kw_only=True, eq=False)
class ResilientStrategy(Strategy, ABC):
    """What `RobustStrategy` and `RageStrategy` share; FedAvg's keywords mean what they mean there.

    Each round: exactly K nodes, drawn by name from a seeded stream, get the model; what comes back is read into one
    K × d matrix of updates (x − x_r)/η; the rule makes one update ĝ of it, every client with the same say; x ← x − η ĝ.
    Buffers (running means and variances, counters) go another way: the median over the replies. A reply that is no
    model like the one sent counts as Byzantine and is recorded with the reason; one that does not come is an erasure.
    If those that are left are too few for what is assumed, the model stays as it is and the record says why.
    With `compression` the matrix is K × k: clients are told a seed and send the k coordinates that it draws.
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
    local_steps: int | Sequence[int] | Mapping[str, object] | StepSchedule = 1
    """H, sent to the clients; or a list or a schedule, as in `RunConfig`: then each round's own number is sent."""
    batch_size: int | Literal["full"] = 32
    """b, sent to the clients."""
    schedule: Schedule = field(default_factory=ConstantSchedule)
    """How η changes over the rounds."""
    compression: Compression = field(default_factory=NoCompression)
    """What of its update a client is asked for."""
    coordinates_seed: int | None = None
    """Draws coordinates as a simulation does; left out, nobody knows them before their round, as the theorem asks."""
    server_momentum: float = 0.0
    """β of the server: v ← β v + ĝ and x ← x − η v."""
    seed: int = 0
    """The root of everything random."""
    cohorts: Cohorts = field(default_factory=UniformCohorts)
    """How a cohort is chosen among the nodes, sorted by name."""
    nodes: NodeNames = None
    """Names of nodes by node id, or a JSON file with them; only these are asked. All, by id, if left out."""
    site_weights: SiteWeights | None = None
    """How much each site counts, by its name in `nodes`, for `Mean` and `Rage`: sizes that you trust."""
    max_share: float | None = None
    """Which share of the weight of those asked in a round a site holds at the most."""
    run_folder: str | os.PathLike[str] | None = None
    """Where the run is written down, and continued from if it was interrupted; nowhere if left out."""
    twin: RunConfig | None = None
    """A simulation of the same federation, if the operator knows the data and the model: for `steadfed certify`."""
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
    signing_key: str | os.PathLike[str] | None = None
    """The PEM file of the federation's private key: clients that know its public half take orders of nobody else, and
    lines of the run folder are signed with it."""
    tampering: Tampering | None = None
    """For drills only: an adversary that sees every update."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        check_settings(vars(self), self.the_rule())
        self._directory = NodeDirectory.of(self.nodes)
        self._sites = sites_of_roster(self.site_weights, self.max_share, self._directory.names, self.the_rule())
        self._client_config = ClientConfig.of(
            **{name: getattr(self, name) for name in _OF_RUN},
            rule=self.the_rule(),
            server=ServerOptions(momentum=self.server_momentum),
            site_weights=None if self._sites is None else {str(name): w for name, w in self._sites.weights.items()},
        )
        self.records: list[RoundRecord] = []
        """The rounds so far, those before an interruption included."""
        self._signer = None if self.signing_key is None else SigningKey.read(self.signing_key)
        self._writer = Writer(self._signer, arrays_key=self.arrayrecord_key, config_key=self.configrecord_key)
        self._mail: Mail | None = None
        self._waiter = NodeWaiter(self._directory, patience=self.wait_for_nodes)
        self._layout: ModelLayout | None = None
        self._state: ServerState | None = None
        self._before: ServerState | None = None
        self._round: ReplyMatrix | None = None
        self._evaluators = ReplyMatcher([], [], self._directory)
        self._timer = Timer()
        self._sent, self._log = "", RoundLog(self.the_rule())

    @abstractmethod
    def the_rule(self) -> Aggregator:
        """Return the rule that aggregates."""

    @property
    def layout(self) -> ModelLayout:
        """How the model lies in a row; known from the first round on."""
        return require_known(self._layout)

    @property
    def state(self) -> ServerState:
        """The state after the last round."""
        return require_known(self._state)

    def _adopt(self, arrays: ArrayRecord, round: int) -> ServerState:
        """Take the arrays as the model that a round starts from; the first ones say what a model looks like."""
        if self._layout is None:
            self._layout = layout_of(arrays, self.buffers)
            attack = None if self.tampering is None else self.tampering.attack
            check_memories(self.compression, self._layout.dim, self.the_rule(), attack)
        sent = self._layout.state_of(RecordNumbers(arrays), round)
        if self._state is not None:
            sent = replace(sent, velocity=self._state.velocity, rule_memory=self._state.rule_memory)
        self._state = sent
        return sent

    def _online(self, grid: Grid) -> list[Member]:
        """Return the nodes online, after waiting for as many as a round needs."""
        wanted = self.num_train_nodes or self.min_train_nodes
        return self._waiter.wait_for_nodes(grid, least=self.min_available_nodes, wanted=wanted)

    def _cohort_size(self, online: int) -> int:
        """Return K for so many nodes online."""
        return self.num_train_nodes or max(int(online * self.fraction_train), self.min_train_nodes)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose K nodes and write to each: the model, H, η, b."""
        self._timer, self._round, number = Timer(), None, server_round - 1
        self._before, self._sent = self._adopt(arrays, number), self._writer.digest_of(arrays, number)
        if self.fraction_train == 0.0:
            return []
        asked: list[Member] = []
        with self._timer.part("sampling"):
            members = self._online(grid)
            if len(members) >= self.min_available_nodes:
                size = self._cohort_size(len(members))
                asked = cohort_of(members, self.cohorts, round=number, size=size, seed=self.seed)
        self._sampled = len(asked) < len(members)
        self._log.asking(len(asked), len(members))
        wanted = AskedFor.drawn(self.layout, self.compression, number, self.coordinates_seed)
        told = self._client_config.config(number, config, wanted.config(self.layout.dim))
        self._mail = mail = self._write(asked, arrays, told, MessageType.TRAIN, number)
        self._round = ReplyMatrix(
            self._before.model,
            self._client_config.lr_of(number),
            mail.matcher,
            ReplyValidator(wanted.layout, arrays_key=self.arrayrecord_key, convert_dtypes=self.convert_dtypes),
            keep_metrics=self.train_metrics_aggr_fn is not None,
            wanted=wanted,
        )
        return mail.messages

    def write_again(self) -> list[Message]:
        """Return the messages that were written last, to train or to evaluate, again with new secrets.

        For when they cannot be sent. Replies to those before count no more.
        """
        return require_known(self._mail).write_again()

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message | Unreadable]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Make one step of the replies, which are emptied as they are read; None in place of a model that stays."""
        training = self._round
        if training is None:
            return None, None
        with self._timer.part("waiting"):
            training.take(replies)
        self._mail = self._round = None
        with self._timer.part("aggregation"):
            record = self._conclude(training, self.state)
        metrics = common_record(
            training.reports, training.metric_records, self.train_metrics_aggr_fn, self.weighted_by_key
        )
        new = None if record.skipped else record_of(self.layout.arrays_of(self.state))
        after = self._sent if new is None else self._writer.digest_of(new, record.round)
        self._add(record, metrics=finite_or_none(figures(metrics, "train/")), model_after=after)
        return new, with_counts(metrics, record)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose nodes and write to each: the model."""
        self._evaluators = ReplyMatcher([], [], self._directory)
        if self.fraction_evaluate == 0.0:
            return []
        members = self._directory.members(nodes_online(grid))
        size = max(int(len(members) * self.fraction_evaluate), self.min_evaluate_nodes)
        asked = evaluators_of(members, round=server_round - 1, size=size, seed=self.seed)
        settings = ConfigRecord({**config, "server-round": server_round})
        self._mail = mail = self._write(asked, arrays, settings, MessageType.EVALUATE, server_round - 1)
        self._evaluators = mail.matcher
        return mail.messages

    def skip_round(self, reason: str) -> None:
        """Leave the model as it is, and record that the round could not be played; nobody counts as asked."""
        self._round, state = None, self.state
        self._state = replace(state, round=state.round + 1)
        nobody = {"cohort": (), "received": (), "message_bytes": MessageBytes(self.layout.nbytes, 0)}
        record = self._record(Skipped(reason), state.round, lr=self._client_config.lr_of(state.round), **nobody)
        self._add(record, model_after=self._sent)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message | Unreadable]) -> MetricRecord | None:
        """Return the median of what the nodes report; it decides nothing."""
        contents = self._evaluators.metric_records(replies)
        self._mail = None
        if not contents:
            return None
        reports = [scalars_of(content) for content in contents]
        return common_record(reports, contents, self.evaluate_metrics_aggr_fn, self.weighted_by_key)

    def summary(self) -> None:
        """Log what the strategy is."""
        log_settings(self.the_rule(), self._client_config, self.run_folder, signed=self._signer is not None)

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
        """Run the rounds; or those that are left, if the run folder holds a run that was interrupted.

        Replies are read one at a time as they come, so that the matrix is all that is held of them. The arguments are
        those of Flower's `Strategy.start`; a reply that takes longer than `timeout` seconds is an erasure.

        Raises:
            ParameterError: a number is out of its range, or the arrays are no model that can be trained.
            RunError: the folder holds a run of another configuration, or another process works in it.
        """
        if timeout is not None:
            check_seconds("timeout", timeout)
        self._client_config = self._client_config.with_rounds(check_whole("num_rounds", num_rounds))
        self._writer.ttl, self._layout, self._state = timeout, None, None
        self.records.clear()
        log(INFO, "Starting %s: %s rounds", type(self).__name__, num_rounds)
        self.summary()
        state = self._adopt(initial_arrays, 0)
        writer = self._open_run(grid)
        with nullcontext() if writer is None else writer.folder.locked():
            if writer is not None:
                state, self.records[:] = resume_run(writer, state, self.layout)
            self._state, arrays = state, record_of(self.layout.arrays_of(state))
            if state.round:
                log(INFO, "continuing: %s of %s rounds are done", state.round, num_rounds)
            configs = train_config or ConfigRecord(), evaluate_config or ConfigRecord()
            self._log, lookout = RoundLog(self.the_rule(), self.records), Lookout(self._directory, self.run_folder)
            loop = Loop(self, grid, self.layout, timeout, *configs, evaluate_fn, lookout)
            result = loop.run(arrays, range(state.round + 1, num_rounds + 1), partial(self._close_round, writer))
            if writer is not None:
                model = {name: torch.from_numpy(array.numpy()) for name, array in require_known(result.arrays).items()}
                writer.finish(self.state, model, deployed=True)
        return result

    def _open_run(self, grid: Grid) -> RunWriter | None:
        """Return what writes the run down; None if it is written nowhere."""
        if self.run_folder is None:
            return None
        online = 1 if run_exists(self.run_folder) else len(self._online(grid))
        named = self._directory.names
        num_clients = max(1, online if named is None else len(named))
        size = max(1, min(self._cohort_size(online), num_clients))
        settings = self._client_config
        config = settings.to_run_config(self.layout, num_clients=num_clients, cohort_size=size, twin=self.twin)
        return open_run_folder(
            config,
            self.layout,
            self.run_folder,
            own_steps=not settings.sends_lr,
            seed_of_coordinates=self.coordinates_seed,
            signer=self._signer,
        )

    def _close_round(self, writer: RunWriter | None, server_round: int, found: Evaluated) -> None:
        """Complete the record of a round by what was found out after it, and write it down."""
        if not self.records or self.records[-1].round != server_round - 1:
            return  # nobody was to train
        record = with_evaluation(self.records[-1], found.by_clients, found.by_server, found.seconds)
        self.records[-1] = record.model_copy(update={"finished": datetime.now(UTC).isoformat(timespec="seconds")})
        if writer is not None:
            self.records[-1] = writer.write(require_known(self._before), self.records[-1], self.state)

    def _add(self, record: RoundRecord, **facts: Any) -> None:
        """Note a round, as far as it is known, and log it."""
        self.records.append(record.model_copy(update={"seconds": self._timer.rounded(), **facts}))
        self._log.add(record)

    def _write(self, asked: list[Member], arrays: ArrayRecord, config: ConfigRecord, kind: str, round: int) -> Mail:
        letters = [Letter(member, kind, config) for member in asked]
        return Mail(self._writer, letters, arrays, round, self._directory)

    def _conclude(self, training: ReplyMatrix, state: ServerState) -> RoundRecord:
        """Take the server's step, and return the record of the round."""
        server = Server(self.the_rule(), self.server_momentum, self.layout.variances, self._sites)
        received, asked = training.received(), [member.name for member in training.matcher.asked]
        view = self._view(server, state, training.lr, len(asked), received.places)
        if self.tampering is not None and received.clients:
            self.tampering.tamper(received.updates, list(received.clients), server.rule, view)
        outcome, following = server.conclude(state, received, view, lr=training.lr, asked=asked)
        self._state = self.layout.representable(following)
        return self._record(
            outcome,
            state.round,
            lr=training.lr,
            cohort=asked,
            received=received.clients,
            message_bytes=MessageBytes(self.layout.nbytes, training.reply_bytes),
            coordinates=training.coordinates,
            drops=tuple(training.matcher.drops),
            reply_digests=training.digests,
            deviations=deviations(shares_of_removed(self.layout, received, outcome)),
        )

    def _record(self, outcome: Aggregation | Skipped, round: int, **facts: Any) -> RoundRecord:
        step = self._client_config.steps_until(round + 1)
        return round_record(outcome, round=round, step=step, model_before=self._sent, **facts)

    def _view(self, server: Server, state: ServerState, lr: float, asked: int, places: Places) -> ServerView:
        """Return what the server tells its rule besides the rows."""
        trusted = Trusted(self.layout, state, lr, self.trusted_update_fn, self.trusted_loss_fn)
        row, loss = trusted.row, trusted.loss
        return server.view(state, asked=asked, sampled=self._sampled, trusted_row=row, trusted_loss=loss, places=places)
