"""What an aggregator returns: the update and the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from steadfed.aggregators._rage.anchor import Anchor, Guard
from steadfed.aggregators._rage.certificate import Certificate
from steadfed.aggregators._rage.weighing import Weighing
from steadfed.aggregators._view import Memory


class Stop(Enum):
    """Why an aggregator stopped; the value is a sentence for people."""

    COMBINED = "every usable update that the rule saw entered the result"
    COORDINATES = "every coordinate was decided by itself; a client may have a share in some of them only"
    SELECTED = "the most central of the updates that the rule saw was selected"
    SUBSET = "a part of the updates that the rule saw was averaged"
    NOT_SAID = "the rule is of the user's own and does not say whose updates its result rests on"
    OWN_WEIGHTS = "the rule is of the user's own and gave the updates these weights"
    NOBODY_TRUSTED = "no client is trusted, so the update is the server's own"
    CONVERGED = "the iteration converged"
    NOT_CONVERGED = "the iteration reached its limit before it converged"
    NOTHING_TO_FILTER = "no Byzantine update is assumed among the usable ones, so they were averaged"
    ROWS_AGREE = "the kept updates agree up to rounding"
    SPREAD_IS_SMALL = "the spread of the kept updates is below the threshold"
    WITHIN_REACH = "the mean of the kept updates is as near to that of the safest ones as their spread can explain"
    CUT_TO_REACH = "the mean was brought as near to that of the safest updates as their spread can explain"
    SMALLEST_SPREAD = "of the weighted means on the way, that of the updates with the smallest spread was taken"
    SADDLE_UNDECIDED = "the saddle point lies on the threshold to the solver's precision, so filtering stopped there"
    SPREAD_STAYS_LARGE = (
        "assumption violated: the spread exceeds the threshold although all removable weight was removed"
    )
    MORE_THAN_ASSUMED = (
        "assumption in doubt: it looks as if more updates were Byzantine than assumed, so the safest mean was taken"
    )
    TOO_MANY_UNUSABLE = "assumption violated: more updates are unusable than clients are assumed to be Byzantine"

    def __str__(self) -> str:
        """Return the sentence."""
        return str(self.value)

    @property
    def assumption_violated(self) -> bool:
        """Whether the data contradict what was assumed of the clients, or speak against it."""
        return self in {Stop.SPREAD_STAYS_LARGE, Stop.MORE_THAN_ASSUMED, Stop.TOO_MANY_UNUSABLE}


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """What it takes to make the same sketch of the same rows again."""

    num_buckets: int
    """m, how many numbers stood for a row."""
    secret: int
    """What signs and buckets were drawn from, unknown to the clients when they sent their rows."""
    fits: bool = True
    """Whether it shows the rows as they are; if not, the rule computed with the rows themselves after all."""

    def evidence(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON, which has no integers of this size."""
        return {"num_buckets": self.num_buckets, "secret": f"{self.secret:x}", "fits": self.fits}


@dataclass(frozen=True, kw_only=True, eq=False)
class Aggregation:
    """An update and the evidence for it. Row i of the input is client i throughout.

    `update` has the dtype and device of the input and shares no memory with it; the evidence lies on the CPU.
    """

    update: Float[Tensor, " d"]
    """What the server subtracts, times the learning rate, from the model."""
    weights: Float[Tensor, " K"]
    """Each client's share in the update; sums to 1, unless nobody is trusted, when all are 0.

    For rules that are linear in the rows, update = weights @ rows."""
    kept: Bool[Tensor, " K"]
    """Whether the client has any share."""
    usable: Bool[Tensor, " K"]
    """Whether the row was finite with a finite squared norm; the others were removed before anything else."""
    scores: Float[Tensor, " K"]
    """The rule's own measure of suspicion, larger for stranger rows; infinite for unusable ones."""
    stop: Stop
    """Why the rule stopped."""
    num_byzantine: int
    """How many of the K rows were assumed Byzantine."""
    sigma0: float | None = None
    """The spread of honest rows (a standard deviation), given or estimated; None if the rule has no use for it."""
    spread: float | None = None
    """λ_max of the covariance of the kept rows at the stop; None if the rule does not look at it."""
    spread_before: float | None = None
    """λ_max of the covariance of all usable rows, before any lost weight; None if the rule does not look at it."""
    threshold: float | None = None
    """How large `spread` may be for the rule to stop; None if the rule has no such limit."""
    certificate: Certificate | None = None
    """What is proved about this update; None for rules that are not filters."""
    num_steps: int = 0
    """Filter steps or iterations."""
    num_eigensolves: int = 0
    """Eigenproblems solved."""
    anchor: Anchor | None = None
    """The safest state on the filter's path, and how far from it the update is; None for rules that have none."""
    guard: Guard | None = None
    """Whether the cohort looks as if it held more Byzantine clients than assumed; None if nothing was looked for."""
    sketch: Sketch | None = None
    """The sketch that the rule saw the rows through, or tried to; None if it made none."""
    weighing: Weighing | None = None
    """What the rows weigh and what of it may be Byzantine; None if they all count alike."""
    memory: Memory = field(default_factory=dict)
    """What the rule asks to be given back in the next round's view; empty for rules that remember nothing."""
    attributed: bool = True
    """Whether the rule says whose updates its result rests on. If not, as with a plain function of the user's own,
    equal weights stand in for what is not known, scores say nothing, and nobody was judged."""

    @property
    def assumption_violated(self) -> bool:
        """Whether the data contradict what was assumed of the clients."""
        return self.stop.assumption_violated

    @property
    def removed(self) -> list[int]:
        """The clients without any share in the update, in order."""
        return [int(i) for i in (~self.kept).nonzero().flatten()]

    @property
    def distrusted(self) -> list[int]:
        """The clients with less than half of the largest share, in order; the removed ones are among them."""
        return [int(i) for i in (self.weights < 0.5 * self.weights.max()).nonzero().flatten()]

    def evidence(self) -> dict[str, Any]:
        """Return everything but the update as plain values, ready for JSON; None for what is not known."""
        scores = [score if score < float("inf") else None for score in self.scores.tolist()]
        return {
            "weights": self.weights.tolist() if self.attributed else None,
            "kept": self.kept.tolist() if self.attributed else None,
            "usable": self.usable.tolist(),
            "scores": scores if self.attributed else None,
            "stop": self.stop.name.lower(),
            "reason": str(self.stop),
            "assumption_violated": self.assumption_violated,
            "num_byzantine": self.num_byzantine,
            "sigma0": self.sigma0,
            "spread": self.spread,
            "spread_before": self.spread_before,
            "threshold": self.threshold,
            "num_steps": self.num_steps,
            "num_eigensolves": self.num_eigensolves,
            "anchor": None if self.anchor is None else self.anchor.evidence(),
            "guard": None if self.guard is None else self.guard.evidence(),
            "sketch": None if self.sketch is None else self.sketch.evidence(),
            "certificate": None if self.certificate is None else self.certificate.evidence(),
            **({} if self.weighing is None else self.weighing.evidence()),
        }
