"""One round as it is written down: who took part, what the rule decided, what came of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ValidationError

from steadfed._core.values import ValueObject
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


Figure = Annotated[float | None, BeforeValidator(finite_or_none)]
"""A measured number; None if there is none or it is not finite."""


class DroppedReply(ValueObject):
    """A reply of a client that was not used as it came, or that did not come."""

    client: Client
    fault: str
    """What was wrong with it, as a word: see `steadfed.flower._faults.Fault`."""
    detail: str = ""
    """The same as a sentence."""

    @property
    def why(self) -> str:
        """Both together."""
        return f"{self.fault}: {self.detail}" if self.detail else self.fault


class RoundCoordinates(ValueObject):
    """Which coordinates a round was about, if not all: `coordinates_of(seed, number, d)` draws them again."""

    number: int
    """k, how many of the d coordinates every client sent."""
    seed: int
    """What they were drawn from; nobody knew it before the round."""


class RoundRecord(ValueObject):
    """Everything worth knowing about one round, in the order of the path of data. One line of `rounds.jsonl`."""

    round: int
    """The number of the round, from 0."""
    step: int
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
    weights: tuple[float, ...] = ()
    scores: Annotated[tuple[float | None, ...], BeforeValidator(finite_or_none)] = ()
    """The rule's measure of suspicion; None for unusable rows."""
    unusable: tuple[Client, ...] = ()
    """Those whose rows held NaN, Inf or numbers whose squares overflow."""
    kept: tuple[Client, ...] = ()
    """Those with any weight."""
    coordinates: RoundCoordinates | None = None
    """Which coordinates of their updates the clients sent; None for all."""
    drops: tuple[DroppedReply, ...] = ()
    """Why those that are absent or unusable are, and replies nobody asked for; only a deployment knows."""
    stop: str | None = None
    """Why the rule stopped, as a word."""
    reason: str | None = None
    """Why the rule stopped, as a sentence; or why the round changed nothing."""
    skipped: bool = False
    """Whether the model was left as it was; `reason` says why."""
    assumption_violated: bool = False
    """Whether the data contradict what was assumed of the clients."""
    num_byzantine: int | None = None
    """How many of the rows were assumed Byzantine."""
    sigma0: Figure = None
    """The spread of honest rows, given or estimated."""
    spread: Figure = None
    """λ_max of the covariance of the kept rows at the stop."""
    spread_before: Figure = None
    """λ_max of the covariance of all usable rows, before the rule took weight from any."""
    threshold: Figure = None
    """How large `spread` may be for the rule to stop."""
    anchor: Annotated[Mapping[str, Any] | None, BeforeValidator(finite_or_none)] = None
    """The safest state on the filter's path: its spread λ_a, how far from it the update and the plain mean are."""
    guard: Annotated[Mapping[str, Any] | None, BeforeValidator(finite_or_none)] = None
    """Whether a sampled cohort looked as if it held more Byzantine clients than assumed, and which f the rows need."""
    sketch: Annotated[Mapping[str, Any] | None, BeforeValidator(finite_or_none)] = None
    """The sketch that the rule saw the rows through: how wide it was, and the secret it was drawn from."""
    certificate: Annotated[Mapping[str, Any] | None, BeforeValidator(finite_or_none)] = None
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
    bytes_down: int | None = None
    """What the server sent to the cohort: the model, once to every client; None in records of old versions."""
    bytes_up: int | None = None
    """What arrived: one model, or k coordinates of it and its buffers, from every client whose update arrived; as
    numbers without the wrapping."""
    metrics: Annotated[Mapping[str, float | None], BeforeValidator(finite_or_none)] = {}
    """What clients report of themselves (the median over them), and what the server's own evaluation says besides."""
    seconds: Mapping[str, float] = {}
    """How long each part of the round took: the only thing two runs of one configuration may differ in."""

    @property
    def removed(self) -> tuple[Client, ...]:
        """Those whose updates arrived and got no weight; nobody in a round that was skipped."""
        kept = set(self.kept)
        return () if self.skipped else tuple(client for client in self.received if client not in kept)

    def by_client(self, values: Sequence[Value]) -> dict[Client, Value]:
        """Return `weights` or `scores` by client; nothing if there is not one for every row."""
        return dict(zip(self.received, values, strict=True)) if len(values) == len(self.received) else {}

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
