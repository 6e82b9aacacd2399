"""One round as it is written down: who took part, what the rule decided, what came of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from steadfed._core.values import LARGEST_WHOLE, ValueObject
from steadfed.errors import CorruptRunError

Client = int | str
Value = TypeVar("Value")


def finite_or_none(value: Any) -> Any:
    """Return the value with None for every number in it that is not finite: JSON has no word for those.

    >>> finite_or_none({"loss": float("nan"), "bounds": [1.0, float("inf")]})
    {'loss': None, 'bounds': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {key: finite_or_none(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [each if type(each) is float and math.isfinite(each) else finite_or_none(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""A SHA-256 in hexadecimal."""
Figure = Annotated[float | None, BeforeValidator(finite_or_none)]
"""A measured number; None if there is none or it is not finite."""

Count = Annotated[int, Field(gt=-LARGEST_WHOLE, lt=LARGEST_WHOLE)]
"""A whole number; JSON has larger ones, which no figure and no formula takes."""
MaybeCount = Annotated[int | None, Field(gt=-LARGEST_WHOLE, lt=LARGEST_WHOLE)]
_NUMBERS = frozenset(
    {
        *("num_rows", "num_byzantine", "sigma0", "smallest_sigma0", "largest_sigma0", "spread", "weight_removed"),
        *("error_bound", "unconditional_bound", "worst_case", "failure_probability", "displacement", "attributable"),
        *("share", "needed", "row_rounding", "update_rounding", "probe_scatter", "weight", "byzantine_weight"),
    }
)
"""What readers of evidence count on to be numbers, or None."""
_TEXTS = frozenset({"mode", "reason"})
_DEEPEST = 8


def plain_evidence(table: Any) -> Any:
    """Return evidence whose numbers are numbers and whose words are text, as far as anything reads them.

    Raises:
        ValueError: something in it is what no rule writes.
    """
    if isinstance(table, Mapping):
        _check_evidence(table, _DEEPEST)
    return table


def _check_evidence(value: Any, depth: int) -> None:
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    if not depth:
        raise ValueError("evidence has no tables so deep")
    for each in inside:
        _check_evidence(each, depth - 1)
    if isinstance(value, int) and abs(value) >= LARGEST_WHOLE:
        raise ValueError("evidence has no numbers so large")
    for key, each in value.items() if isinstance(value, Mapping) else ():
        if key in _NUMBERS and not isinstance(each, int | float | None):
            raise ValueError(f"{key} of evidence is a number")
        if key in _TEXTS and not isinstance(each, str | None):
            raise ValueError(f"{key} of evidence is text")


Evidence = Annotated[Mapping[str, Any] | None, BeforeValidator(finite_or_none), AfterValidator(plain_evidence)]
"""What a rule puts down about its decision."""


class DroppedReply(ValueObject):
    """A reply of a client that was not used as it came, or that did not come."""

    client: Client
    fault: str
    """What was wrong with it, as a word: see `steadfed.states.Fault`."""
    detail: str = ""
    """The same as a sentence."""

    @property
    def why(self) -> str:
        """Both together."""
        return f"{self.fault}: {self.detail}" if self.detail else self.fault


class Deviation(ValueObject):
    """In which layers of the model an update that was removed deviates from the one that was made."""

    client: Client
    layers: Mapping[str, float]
    """The layers with the largest shares of ‖g − ĝ‖², the largest first; those left out have what is missing to 1."""


class RoundCoordinates(ValueObject):
    """Which coordinates a round was about, if not all: `coordinates_of(seed, number, d)` draws them again."""

    number: Count
    """k, how many of the d coordinates every client sent."""
    seed: int
    """What they were drawn from; nobody knew it before the round."""


class ClientScores(ValueObject):
    """How good the model is for each of some clients that are honest."""

    metric: str
    """By which metric."""
    higher_is_better: bool = True
    own_points: bool = True
    """Whether on test points of its own; else on all of them, weighted by the classes among its training points."""
    clients: tuple[Client, ...] = ()
    """Who is scored, at most as many as the configuration says."""
    scores: Annotated[tuple[float | None, ...], BeforeValidator(finite_or_none)] = ()
    """The score of each; None if it has no test point, or it is not defined on those that it has."""

    @model_validator(mode="after")
    def _one_for_each(self) -> Self:
        if len(self.clients) != len(self.scores):
            raise ValueError(f"{len(self.scores)} scores belong to {len(self.clients)} clients")
        return self

    @property
    def by_client(self) -> dict[Client, float]:
        """The scores that there are."""
        pairs = zip(self.clients, self.scores, strict=True)
        return {client: score for client, score in pairs if score is not None}

    @property
    def worst_first(self) -> list[tuple[Client, float]]:
        """The clients that have a score, the worst served first."""
        return sorted(self.by_client.items(), key=lambda pair: pair[1], reverse=not self.higher_is_better)

    def figures(self) -> dict[str, float]:
        """Return the mean over clients, that over the worst tenth of them (⌈n/10⌉), and the worst client's.

        >>> ClientScores(metric="accuracy", clients=(1, 2, 3), scores=(0.9, None, 0.5)).figures()
        {'mean': 0.7, 'worst_tenth': 0.5, 'worst': 0.5}
        """
        ranked = [score for _, score in self.worst_first]
        if not ranked:
            return {}
        lowest = ranked[: -(-len(ranked) // 10)]
        return {
            "mean": math.fsum(ranked) / len(ranked),
            "worst_tenth": math.fsum(lowest) / len(lowest),
            "worst": ranked[0],
        }


class RoundRecord(ValueObject):
    """Everything worth knowing about one round, in the order of the path of data. One line of `rounds.jsonl`."""

    previous: Digest | None = None
    """The SHA-256 of the line before, without its end; of the bytes of config.toml in the first line. Set when the line
    is written; None in runs of old versions."""
    round: Count
    """The number of the round, from 0."""
    step: Count
    """t after the round: local steps taken since the start. What it has grown by since the last round is the round's
    own number of steps."""
    lr: float
    """η of this round."""
    cohort: tuple[Client, ...]
    """The clients that were sampled."""
    byzantine: tuple[Client, ...] = ()
    """Those of them that were Byzantine; only a simulation knows."""
    absent: tuple[Client, ...] = ()
    """Those of them that sent nothing."""
    received: tuple[Client, ...] = ()
    """Those whose updates arrived, in the order of the rows; `weights` and `scores` are in this order."""
    site_shares: tuple[float, ...] = ()
    """What each of them holds of the weight of all, as the operator weighs sites; empty if all count alike."""
    byzantine_weight: Figure = None
    """Which share of that may be Byzantine."""
    weights: tuple[float, ...] = ()
    scores: Annotated[tuple[float | None, ...], BeforeValidator(finite_or_none)] = ()
    """The rule's measure of suspicion; None for unusable rows."""
    reply_digests: tuple[Digest | None, ...] = ()
    """What each of them sent, by place in `received`: the SHA-256 of the arrays as they came (`reply_digest` of
    `steadfed.flower.client`); None for a reply that was no model. Only a deployment writes them."""
    unusable: tuple[Client, ...] = ()
    """Those whose rows held NaN, Inf or numbers whose squares overflow."""
    kept: tuple[Client, ...] = ()
    """Those with any weight; of a rule that gives none, those whose rows it saw."""
    attributed: bool = True
    """Whether the rule said whose updates its result rests on. If not, the round has no weights and no scores, and
    judges nobody."""
    coordinates: RoundCoordinates | None = None
    """Which coordinates of their updates the clients sent; None for all."""
    drops: tuple[DroppedReply, ...] = ()
    """Why those that are absent or unusable are, and replies nobody asked for; only a deployment knows."""
    deviations: tuple[Deviation, ...] = ()
    """In which layers the updates deviate that were removed; a simulation and old versions do not say."""
    stop: str | None = None
    """Why the rule stopped, as a word."""
    reason: str | None = None
    """Why the rule stopped, as a sentence; or why the round changed nothing."""
    skipped: bool = False
    """Whether the model was left as it was; `reason` says why."""
    assumption_violated: bool = False
    """Whether the data contradict what was assumed of the clients."""
    model_before: Digest | None = None
    """The model that went out, as `arrays_digest` names it. Only a deployment writes it: that of a simulation follows
    from its configuration."""
    model_after: Digest | None = None
    """What it became; the same in a round that was skipped."""
    state_after: Digest | None = None
    """The state that is written after the line, momentum and memory of the rule included, as `Checkpoint.digest` names
    it. Only a run that is signed writes it, as the signature is of the line."""
    num_byzantine: MaybeCount = None
    """How many of the rows were assumed Byzantine."""
    sigma0: Figure = None
    """The spread of honest rows, given or estimated."""
    spread: Figure = None
    """λ_max of the covariance of the kept rows at the stop."""
    spread_before: Figure = None
    """λ_max of the covariance of all usable rows, before the rule took weight from any."""
    threshold: Figure = None
    """How large `spread` may be for the rule to stop."""
    anchor: Evidence = None
    """The safest state on the filter's path: its spread λ_a, how far from it the update and the plain mean are."""
    guard: Evidence = None
    """Whether a sampled cohort looked as if it held more Byzantine clients than assumed, and which f the rows need."""
    sketch: Annotated[Mapping[str, Any] | None, BeforeValidator(finite_or_none)] = None
    """The sketch that the rule saw the rows through: how wide it was, and the secret it was drawn from."""
    certificate: Evidence = None
    """What is proved about the update."""
    update_norm: Figure = None
    """‖ĝ‖, the length of the aggregated update."""
    error: Figure = None
    """‖ĝ − mean of the honest rows‖; only a simulation knows."""
    honest_spread: Figure = None
    """λ_max of the covariance of the honest rows, σ₀² at its smallest; None in rounds that are not measured."""
    honest_scatter: Figure = None
    """The trace of that covariance: the mean squared distance of the honest rows to their mean."""
    honest_error_bound: Figure = None
    """What the certificate proves of `error` if σ₀² is `honest_spread`; None without one, or if it proves nothing."""
    train_loss: Figure = None
    """The objective on training points after the round, l2 included; None in rounds without evaluation."""
    train_accuracy: Figure = None
    test_loss: Figure = None
    test_accuracy: Figure = None
    test_metrics: Annotated[Mapping[str, float | None], BeforeValidator(finite_or_none)] = {}
    """The metrics that were asked for, on the test points after the round, by name; None where one is not defined."""
    client_scores: ClientScores | None = None
    """How good the model is for single clients; None unless it was asked for."""
    bytes_down: MaybeCount = None
    """What the server sent to the cohort: the model, once to every client; None in records of old versions."""
    bytes_up: MaybeCount = None
    """What arrived: one model, or k coordinates of it and its buffers, from every client whose update arrived; as
    numbers without the wrapping."""
    metrics: Annotated[Mapping[str, float | None], BeforeValidator(finite_or_none)] = {}
    """What clients report of themselves (the median over them), and what the server's own evaluation says besides."""
    finished: Annotated[str, Field(pattern=r"^[0-9T:.+Z-]{1,40}$")] | None = None
    """When the round was written down, in UTC as ISO 8601 says it; only in a deployment."""
    seconds: Mapping[str, float] = {}
    """How long each part of the round took: with `previous`, which is a hash of it, the only thing two runs of one
    configuration may differ in."""

    @property
    def judges(self) -> bool:
        """Whether the round tells whose updates were used: it was not skipped, and the rule gave weights."""
        return self.attributed and not self.skipped

    @property
    def removed(self) -> tuple[Client, ...]:
        """Those whose updates arrived and got no weight; nobody in a round that judges nobody."""
        kept = set(self.kept)
        return () if not self.judges else tuple(client for client in self.received if client not in kept)

    def by_client(self, values: Sequence[Value]) -> dict[Client, Value]:
        """Return `weights` or `scores` by client; nothing if there is not one for every row."""
        return dict(zip(self.received, values, strict=True)) if len(values) == len(self.received) else {}

    def parts_of_own_shares(self) -> dict[Client, float]:
        """Return every client's weight in units of the share it began with: an equal one, or what its site weighs."""
        own, rows = self.by_client(self.site_shares), len(self.received)
        weights = self.by_client(self.weights)
        if not own:
            return {client: weight * rows for client, weight in weights.items()}
        return {client: weight / own[client] for client, weight in weights.items() if own[client] > 0.0}

    def to_line(self) -> str:
        """Return the record as one line of JSON, without what is at its default."""
        return json.dumps(self.model_dump(exclude_defaults=True), allow_nan=False, separators=(",", ":")) + "\n"

    @classmethod
    def from_line(cls, line: str) -> RoundRecord:
        """Return the record that a line holds; `CorruptRunError` if it holds none."""
        try:
            return cls.model_validate_json(line)
        except ValidationError as error:
            shown = line if len(line) <= 60 else f"{line[:60]}…"
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise CorruptRunError(
                f"not a record of a round: {shown!r} ({where + ': ' if where else ''}{first['msg']})"
            ) from None
