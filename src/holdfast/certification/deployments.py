"""A run judged by its records alone: what can be said of a deployment whose points are with its clients."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from holdfast.aggregators import Rage
from holdfast.aggregators.rage.constants import KAPPA
from holdfast.certification.constants import SYMBOLS, Known
from holdfast.certification.planning import NO_WISHES, Plan, Wishes, planned
from holdfast.certification.protocol import Outside, outside_by_choice, outside_by_deployment, protocol_from
from holdfast.certification.rounds import RoundFacts, facts_of
from holdfast.certification.unseen import arrivals, certified, cohorts
from holdfast.certification.verdicts import Outcome, Subject, Verdict, algorithm, obstacles
from holdfast.errors import ParameterError, RunError
from holdfast.models import RemoteModel
from holdfast.partitions import RemotePartition
from holdfast.runs import config_of
from holdfast.server.folder import RunFolder
from holdfast.server.history import tally_of
from holdfast.server.record import finite
from holdfast.simulation import RunConfig
from holdfast.theory.ranges import positive

AWAY = "the points are with the clients, so it cannot be measured here"
NEEDED = ("smoothness", "gradient_variance", "dissimilarity")
"""The constants without which no theorem says anything; and distance or gap, where the run starts."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RecordsCertification:
    """A run, judged by its records and certificates; nothing was measured."""

    path: Path
    """The folder of the run."""
    played: int
    """How many rounds are written down."""
    rounds: int
    """How many there are to be."""
    plan: Plan | None
    """What the theorems promise with the constants that were given; None if none were."""
    facts: tuple[RoundFacts, ...]
    """Every round in which rows were aggregated."""
    skipped: int
    """How many rounds changed nothing."""
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()

    @property
    def contradicted(self) -> bool:
        """Whether something was measured that was proved not to be; nothing is measured, so it never is."""
        return any(verdict.contradiction for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; numbers that are not finite are None."""
        table = {
            "path": str(self.path),
            "played": self.played,
            "rounds": self.rounds,
            "skipped": self.skipped,
            "contradicted": self.contradicted,
            "verdicts": [dict(vars(verdict)) for verdict in self.verdicts],
            "filter": [facts.as_dict() for facts in self.facts],
            "plan": None if self.plan is None else self.plan.as_dict(),
            "notes": list(self.notes),
        }
        shown: dict[str, Any] = finite(table)
        return shown


def certify_records(
    path: str | os.PathLike[str], *, wishes: Wishes = NO_WISHES, sigma0: float | None = None
) -> RecordsCertification:
    """Judge a run by its records: cohorts, replies, skipped rounds, certificates; and the theorems, if told constants.

    L, μ, σ², κ² and F are properties of the clients' points, which are not here. With constants in `wishes.problem` the
    theorems' conditions are checked and their bounds stated, but no bound is compared with the run.

    Args:
        path: the folder of the run; nothing in it is changed.
        wishes: the constants by the fields of `Problem`, if known; numbers of the protocol that differ, such as
            num_byzantine or num_points; ε′ and the allowed failure probability.
        sigma0: the σ₀ to ask certificates about; what the rule was told or found, if left out.

    Raises:
        ParameterError: a number is out of its range, or some constants are given and others missing.
        CorruptRunError: the folder holds no run that can be read.
        RunError: constants are given for a run of which the number of clients is not known.
    """
    asked = None if sigma0 is None else positive("sigma0", sigma0)
    folder = RunFolder.open(path)
    config, records = config_of(folder), list(folder.records())
    rule = config.rule
    facts = facts_of(records, kappa=rule.kappa if isinstance(rule, Rage) else KAPPA, sigma0=asked)
    skipped = tally_of(records).skipped
    beyond = (*outside_by_choice(config), *outside_by_deployment(folder))
    plan = _planned(config, wishes, beyond)
    return RecordsCertification(
        path=Path(path),
        played=len(records),
        rounds=config.rounds,
        plan=plan,
        facts=facts,
        skipped=skipped,
        verdicts=(
            algorithm(beyond, skipped),
            *_constants(wishes.problem),
            cohorts(records, asked),
            arrivals(records),
            certified(facts),
            *_promises(plan, facts, skipped),
        ),
        notes=_notes(plan),
    )


def _planned(config: RunConfig, wishes: Wishes, beyond: tuple[Outside, ...]) -> Plan | None:
    """Return the plan from constants that were given; None if none were."""
    given = dict(wishes.problem)
    if not given:
        return None
    missing = [SYMBOLS[name] for name in NEEDED if name not in given]
    missing += [] if {"distance", "gap"} & given.keys() else [f"{SYMBOLS['distance']} or {SYMBOLS['gap']}"]
    if missing:
        raise ParameterError(f"with some constants given, all are needed: {', '.join(missing)} missing")
    if not isinstance(config.partition, RemotePartition):
        raise RunError(
            f"constants are given for a deployment with a remote partition, this run has {config.partition!r}"
        )
    if isinstance(config.model, RemoteModel):
        given = {"dim": config.model.dim, **given}
    points = wishes.protocol.get("num_points")
    protocol = protocol_from(config, num_clients=config.partition.num_clients, num_points=points)
    return planned(Known(constants=()).changed(given), protocol, wishes, beyond=beyond, answered=False)


def _constants(given: Mapping[str, float]) -> Iterator[Verdict]:
    for name in ("gradient_variance", "dissimilarity", "smoothness", "strong_convexity"):
        told = f"{given[name]:.4g} was given; " if name in given else ""
        yield Verdict(subject=Subject.ASSUMPTION, name=SYMBOLS[name], outcome=Outcome.UNKNOWN, because=f"{told}{AWAY}")


def _promises(plan: Plan | None, facts: tuple[RoundFacts, ...], skipped: int) -> Iterator[Verdict]:
    """Say of every theorem whether it speaks of the run, and what it promises; nothing is compared."""
    if plan is None:
        because = "they need L, σ², κ² and where the run starts; give these numbers if you know them"
        yield Verdict(subject=Subject.GUARANTEE, name="theorems", outcome=Outcome.UNKNOWN, because=because)
        return
    rounds = plan.protocol.rounds
    for guarantee in plan.guarantees:
        why_not = "; ".join(obstacles(plan, facts, guarantee, skipped=skipped))
        promise = (
            f"{guarantee.quantity} is at most {float(guarantee.bound(rounds)):.4g} after {rounds:,} rounds, in the end "
            f"{guarantee.floor:.4g}, if no cohort has more Byzantine rows than assumed; {AWAY}"
        )
        yield Verdict(
            subject=Subject.GUARANTEE,
            name=f"{guarantee.source}, {guarantee.reading}",
            outcome=Outcome.INAPPLICABLE if why_not else Outcome.UNKNOWN,
            because=why_not or promise,
        )


def _notes(plan: Plan | None) -> tuple[str, ...]:
    alone = "judged by the records alone: F, L, μ, σ² and κ² are properties of points that only the clients have"
    if plan is None:
        return (alone,)
    number, clients = plan.protocol.num_byzantine, plan.protocol.num_clients
    return (
        alone,
        f"the theorems reckon with {number} Byzantine clients of {clients}, and with plain SGD by the others",
    )
