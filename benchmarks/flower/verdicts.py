"""What became of the model after one round with one bad client: one word per round, from literal definitions.

Distances are Euclidean, from the mean of the honest clients' models, in units of σ, the root mean square distance of an
honest client from that mean. The first definition that holds is the verdict:

| verdict | what it means |
|---|---|
| run ends | reading the replies or `aggregate_train` raises; Flower's loop catches nothing, so the run is over |
| model stays | no model is returned: the round is lost, the old model is kept |
| other shape | names or shapes of the arrays are not those of the model that was sent |
| other dtype | a dtype is not that of the model that was sent |
| not finite | the model has NaN or Inf |
| poisoned | the model is more than 10 σ from the honest mean |
| moved | it is more than twice as far as this strategy's model ever is when all are honest |
| metrics spoiled | the model is fine; the metrics that are returned have NaN or Inf |
| fine | none of these |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Model: TypeAlias = Mapping[str, npt.NDArray[Any]]

POISONED_BEYOND = 10.0
"""σ from the honest mean: no honest client comes near this."""
MOVED_BEYOND = 2.0
"""Times the distance that is usual for a strategy when all are honest."""


class Verdict(StrEnum):
    """What became of the model, the worst first."""

    ENDS = "run ends"
    SHAPE = "other shape"
    DTYPE = "other dtype"
    NOT_FINITE = "not finite"
    POISONED = "poisoned"
    MOVED = "moved"
    STAYS = "model stays"
    METRICS = "metrics spoiled"
    FINE = "fine"


HARMLESS = (Verdict.FINE, Verdict.METRICS)
"""The model is one that could have come of honest replies."""


@dataclass(frozen=True)
class Outcome:
    """What a strategy made of the replies of a round."""

    model: Model | None = None
    """The arrays by name; None if it returned none, or raised."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """The type of what was raised, and where if not in `aggregate_train`."""


@dataclass(frozen=True)
class Reference:
    """What an honest round looks like."""

    sent: Model
    """The model that was sent out."""
    mean: npt.NDArray[np.float64]
    """The mean of the honest clients' models, in one row."""
    sigma: float
    """Root mean square distance of an honest client from it."""
    usual: float = math.inf
    """The largest distance of this strategy's model from it when all are honest, in σ."""

    @classmethod
    def of(cls, sent: Model, honest: Sequence[Model], usual: float = math.inf) -> Reference:
        """Return the reference for these honest models."""
        rows = np.stack([flat(model) for model in honest])
        mean = rows.mean(axis=0)
        return cls(sent, mean, float(np.sqrt(np.mean(np.sum((rows - mean) ** 2, axis=1)))), usual)

    def distance(self, model: Model) -> float:
        """Return how far a model of the right shape is from the honest mean, in σ."""
        with np.errstate(all="ignore"):
            return float(np.linalg.norm(flat(model) - self.mean)) / self.sigma


@dataclass(frozen=True)
class Judgement:
    """A verdict with what belongs to it."""

    verdict: Verdict
    distance: float | None = None
    """σ from the honest mean, where it has a meaning."""
    detail: str = ""


def flat(model: Model) -> npt.NDArray[np.float64]:
    """Return the numbers of a model as one row."""
    return np.concatenate([np.asarray(values, np.float64).reshape(-1) for values in model.values()])


def judged(outcome: Outcome, reference: Reference) -> Judgement:
    """Return the first verdict whose definition holds."""
    if outcome.error is not None:
        return Judgement(Verdict.ENDS, detail=outcome.error)
    if outcome.model is None:
        return Judgement(Verdict.STAYS)
    model, sent = outcome.model, reference.sent
    if {name: values.shape for name, values in model.items()} != {name: values.shape for name, values in sent.items()}:
        return Judgement(Verdict.SHAPE)
    strange = sorted({str(values.dtype) for name, values in model.items() if values.dtype != sent[name].dtype})
    if strange:
        return Judgement(Verdict.DTYPE, detail=", ".join(strange))
    ordered = {name: model[name] for name in sent}
    if not all(np.isfinite(values).all() for values in ordered.values()):
        return Judgement(Verdict.NOT_FINITE)
    return _by_distance(reference.distance(ordered), reference.usual, outcome.metrics)


def _by_distance(distance: float, usual: float, metrics: Mapping[str, Any]) -> Judgement:
    if distance > POISONED_BEYOND:
        return Judgement(Verdict.POISONED, distance)
    if distance > MOVED_BEYOND * usual:
        return Judgement(Verdict.MOVED, distance)
    if not all(math.isfinite(number) for number in _numbers(metrics)):
        return Judgement(Verdict.METRICS, distance)
    return Judgement(Verdict.FINE, distance)


def _numbers(metrics: Mapping[str, Any]) -> Iterable[float]:
    for value in metrics.values():
        yield from value if isinstance(value, list) else [value]


def cell(judgements: Sequence[Judgement]) -> str:
    """Return one cell of a table: the verdicts over all positions of the bad client, the worst first.

    >>> cell([Judgement(Verdict.FINE, 0.1)] * 10)
    'fine'
    >>> cell([Judgement(Verdict.ENDS, detail="TypeError")] * 9 + [Judgement(Verdict.DTYPE, detail="complex64")])
    'run ends 9 of 10 (TypeError), other dtype 1 of 10 (complex64)'
    >>> cell([Judgement(Verdict.POISONED, 108.4), Judgement(Verdict.POISONED, 2.1e29)])
    'poisoned (108 to 2e+29 σ)'
    """
    parts = []
    for verdict, count in sorted(Counter(each.verdict for each in judgements).items(), key=_rank):
        share = "" if count == len(judgements) else f" {count} of {len(judgements)}"
        parts.append(f"{verdict}{share}{_remark([each for each in judgements if each.verdict is verdict])}")
    return ", ".join(parts)


def _rank(counted: tuple[Verdict, int]) -> int:
    return list(Verdict).index(counted[0])


def _remark(judgements: Sequence[Judgement]) -> str:
    details = sorted({each.detail for each in judgements if each.detail})
    if details:
        return f" ({'; '.join(details)})"
    if judgements[0].verdict not in {Verdict.POISONED, Verdict.MOVED}:
        return ""
    distances = [each.distance for each in judgements if each.distance is not None]
    low, high = _rounded(min(distances)), _rounded(max(distances))
    return f" ({low} σ)" if low == high else f" ({low} to {high} σ)"


def _rounded(distance: float) -> str:
    if distance >= 1e4:
        return f"{distance:.0e}"
    return f"{distance:.0f}" if distance >= 10 else f"{distance:.1f}"
