"""What the server makes of the rows of a round: one update with its evidence, or a reason to change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.aggregators import Aggregation, Aggregator, ServerView
from holdfast.errors import CohortTooSmallError, NoUsableRowError
from holdfast.server.record import Client, RoundRecord


@final
@dataclass(frozen=True)
class Skipped:
    """A round that leaves the model as it is."""

    reason: str
    """Why, as a sentence."""


def decide(
    rows: Float[Tensor, "n d"], clients: Sequence[Client], rule: Aggregator, view: ServerView
) -> Aggregation | Skipped:
    """Return what the rule makes of the rows, or why it can make nothing of them."""
    if not clients:
        return Skipped("no client sent an update")
    if (diverged := divergence(view)) is not None:
        return Skipped(diverged)
    try:
        return rule(rows, replace(view, clients=clients))
    except (CohortTooSmallError, NoUsableRowError) as error:
        return Skipped(str(error))


def divergence(view: ServerView) -> str | None:
    """Return which of the server's own vectors is not finite any more, as a sentence; None if all are."""
    for what, vector in (("the model", view.model), ("the server's own update", view.trusted_row)):
        if vector is not None and not bool(torch.isfinite(vector).all()):
            return f"{what} is not finite: training has diverged"
    return None


def decision_fields(outcome: Aggregation | Skipped, clients: Sequence[Client]) -> dict[str, Any]:
    """Return what was decided about the rows of these clients, by the names of a `RoundRecord`.

    Of the evidence it is all that a record has a field for; who was kept and whose row was unusable is said by name.
    """
    if isinstance(outcome, Skipped):
        return {"skipped": True, "reason": outcome.reason}
    return {
        **{name: value for name, value in outcome.evidence().items() if name in RoundRecord.model_fields},
        "unusable": tuple(compress(clients, (~outcome.usable).tolist())),
        "kept": tuple(compress(clients, outcome.kept.tolist())),
        "update_norm": float(torch.linalg.vector_norm(outcome.update)),
    }
