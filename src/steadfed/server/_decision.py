"""What the server makes of the rows of a round: one update with its evidence, or a reason to change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from steadfed._core.wording import plural
from steadfed._linalg.columns import DenseColumns
from steadfed._linalg.gram import are_usable, squared_norms
from steadfed.aggregators import Aggregation, Aggregator, ServerView
from steadfed.errors import InputError
from steadfed.server._record import Client, RoundRecord


@final
@dataclass(frozen=True)
class Skipped:
    """A round that leaves the model as it is."""

    reason: str
    """Why, as a sentence."""
    unusable: tuple[Client, ...] = ()
    """Whose updates hold NaN, Inf or numbers whose squares overflow."""
    assumed: int | None = None
    """How many of the updates were assumed Byzantine; None if there was no update."""
    contradicted: bool = False
    """Whether the rule itself found that the updates contradict the assumption."""

    @property
    def assumption_violated(self) -> bool:
        """Whether the updates contradict what was assumed of the clients: more than that are unusable, for example."""
        return self.contradicted or len(self.unusable) > (self.assumed or 0) > 0


def decide(
    rows: Float[Tensor, "n d"], clients: Sequence[Client], rule: Aggregator, view: ServerView
) -> Aggregation | Skipped:
    """Return what the rule makes of the rows, or why the model is to stay as it is.

    It stays if nobody sent a row, if training on the server's own data has diverged, if the rule cannot aggregate these
    rows, or if what it makes of them cannot be relied on: see `distrust`. The rows are read in place.
    """
    if not clients:
        return Skipped("no client sent an update")
    assumed = rule.assumed_of(len(clients), view.cohort_size)
    if (diverged := divergence(view)) is not None:
        return Skipped(diverged, assumed=assumed)
    try:
        outcome = rule(rows, replace(view, clients=clients))
    except InputError as error:
        return Skipped(str(error), assumed=assumed)
    reason = distrust(outcome, rule, assumed)
    if reason is None:
        return outcome
    return Skipped(reason, assumed=assumed, contradicted=outcome.assumption_violated)


def distrust(outcome: Aggregation, rule: Aggregator, assumed: int) -> str | None:
    """Return why an aggregation cannot be relied on, as a sentence; None if it can.

    Every unusable update counts as one of the Byzantine ones. More of them than are assumed refute the assumption, on
    which every guarantee of the rule rests; where none is assumed, nothing is guaranteed. What is left must be
    enough for what is left of the assumption.
    """
    number = len(outcome.usable)
    usable = int(outcome.usable.sum())
    unusable = number - usable
    if (weighing := outcome.weighing) is not None:
        return weighing.excess_words(outcome.usable.numpy()) or _not_finite(outcome)
    if unusable > assumed > 0:
        limit = plural(assumed, "client")
        return f"{unusable} of {number} updates are unusable, more than the {limit} assumed to be Byzantine"
    needed = rule.smallest_cohort(max(0, assumed - unusable))
    if usable < needed:
        return f"{usable} of {number} updates are usable, and {rule!r} needs at least {needed}"
    return _not_finite(outcome)


def _not_finite(outcome: Aggregation) -> str | None:
    return None if bool(torch.isfinite(outcome.update).all()) else "the update is not finite"


def divergence(view: ServerView) -> str | None:
    """Return which of the server's own vectors is not finite any more, as a sentence; None if all are."""
    for what, vector in (("the model", view.model), ("the server's own update", view.trusted_row)):
        if vector is not None and not bool(torch.isfinite(vector).all()):
            return f"{what} is not finite: training has diverged"
    return None


def unusable_clients(rows: Float[Tensor, "n d"], clients: Sequence[Client]) -> tuple[Client, ...]:
    """Return whose updates hold NaN, Inf or numbers whose squares overflow, whatever rule was to aggregate them."""
    if not clients:
        return ()
    usable = are_usable(squared_norms(DenseColumns(rows)))
    return tuple(compress(clients, (~usable).tolist()))


def decision_fields(outcome: Aggregation | Skipped, clients: Sequence[Client]) -> dict[str, Any]:
    """Return what was decided about the rows of these clients, by the names of a `RoundRecord`.

    Of the evidence it is all that a record has a field for; who was kept and whose row was unusable is said by name.
    """
    if isinstance(outcome, Skipped):
        return {
            "skipped": True,
            "reason": outcome.reason,
            "unusable": outcome.unusable,
            "num_byzantine": outcome.assumed,
            "assumption_violated": outcome.assumption_violated,
        }
    unknown = set() if outcome.attributed else {"weights", "scores"}
    known = RoundRecord.model_fields.keys() - unknown
    return {
        **{name: value for name, value in outcome.evidence().items() if name in known},
        "attributed": outcome.attributed,
        "unusable": tuple(compress(clients, (~outcome.usable).tolist())),
        "kept": tuple(compress(clients, outcome.kept.tolist())),
        "update_norm": float(torch.linalg.vector_norm(outcome.update)),
    }
