"""After a run: were the assumptions met, was the filter as good as its certificate, did the theorems hold."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, final

from holdfast.aggregators import Rage
from holdfast.aggregators.rage.constants import KAPPA
from holdfast.certification.constants import Effort, Known, Vector, at_start, exactly, locally, objective_of
from holdfast.certification.path import Path, looked_along
from holdfast.certification.planning import NO_WISHES, Plan, Wishes, planned
from holdfast.certification.protocol import outside, outside_by_deployment, protocol_of
from holdfast.certification.rounds import RoundFacts, facts_of
from holdfast.certification.unseen import as_the_server_saw
from holdfast.certification.verdicts import Verdict, measured_curve, obstacles, verdicts
from holdfast.data import Dataset
from holdfast.errors import RunError
from holdfast.linalg.threads import one_torch_thread
from holdfast.runs import Run, is_deployment
from holdfast.server.history import tally_of
from holdfast.server.record import finite
from holdfast.simulation.setting import Setting
from holdfast.theory import Guarantee
from holdfast.theory.estimate import Objective
from holdfast.theory.ranges import positive

CURVATURES = 3
"""At how many models the curvature is measured, where it is not known."""
TWIN = "a deployment: data and model are those of its twin, taken at its word; who was Byzantine is not recorded"
"""What to know of a deployment that is measured."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Certification:
    """A run, measured and judged."""

    path: FilePath
    """The folder of the run."""
    played: int
    """How many rounds are written down."""
    rounds: int
    """How many there are to be."""
    plan: Plan
    """What the theorems promise with the constants that are exact, or that were measured along the run."""
    looked: Path
    """The models on the way."""
    facts: tuple[RoundFacts, ...]
    """Every round in which rows were aggregated."""
    skipped: int
    """How many rounds changed nothing."""
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()
    """What is worth telling about how the run was found."""

    @property
    def contradicted(self) -> bool:
        """Whether something was measured that was proved not to be, although all conditions held."""
        return any(verdict.contradiction for verdict in self.verdicts)

    @property
    def curve(self) -> tuple[Vector, Vector]:
        """Rounds and what the theorems bound, measured there."""
        return measured_curve(self.plan, self.looked)

    @property
    def applicable(self) -> tuple[Guarantee, ...]:
        """The guarantees that speak of the run as it was played."""
        return tuple(
            each for each in self.plan.guarantees if not obstacles(self.plan, self.facts, each, skipped=self.skipped)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; numbers that are not finite are None."""
        rounds, values = self.curve
        table = {
            "path": str(self.path),
            "played": self.played,
            "rounds": self.rounds,
            "skipped": self.skipped,
            "contradicted": self.contradicted,
            "verdicts": [dict(vars(verdict)) for verdict in self.verdicts],
            "curve": {
                "quantity": self.plan.guarantees[0].quantity,
                "rounds": rounds.tolist(),
                "measured": values.tolist(),
                "bounds": {f"{each.source}, {each.reading}": each.bound(rounds).tolist() for each in self.applicable},
            },
            "models": [place.as_dict() for place in self.looked.places],
            "diverged": self.looked.diverged,
            "filter": [facts.as_dict() for facts in self.facts],
            "plan": self.plan.as_dict(),
            "notes": list(self.notes),
        }
        shown: dict[str, Any] = finite(table)
        return shown


def certify(
    path: str | os.PathLike[str],
    *,
    wishes: Wishes = NO_WISHES,
    clients: int | None = None,
    points: int | None = None,
    curvatures: int = CURVATURES,
    sigma0: float | None = None,
    dataset: Dataset | None = None,
) -> Certification:
    """Measure a run along its kept models, and judge assumptions, filter and theorems.

    The constants are the exact ones where they are known; else the largest along the run, which are no bounds over all
    x. Runs that were interrupted are judged as far as they were played. Of a deployment nobody knows who was Byzantine,
    so there a bound that is exceeded contradicts nothing; without a twin it has no data: see `certify_records`.

    Args:
        path: the folder of the run; nothing in it is changed.
        wishes: ε′ and the allowed failure probability.
        clients: how many clients to look at for σ² and κ²; all, where that is affordable, if left out.
        points: how many points of a client, for σ²; likewise.
        curvatures: at how many models to measure L where it is not known.
        sigma0: the σ₀ to ask certificates about; what the rule was told or found, if left out.
        dataset: the data, if they are not to be loaded from the configuration.

    Raises:
        ParameterError: a number is out of its range.
        CorruptRunError: the folder holds no run that can be read.
        RunError: the data are not those of the run, or there is nothing to measure constants at.
        MissingDataError: the data are nowhere, or with the clients of a deployment.
    """
    asked = None if sigma0 is None else positive("sigma0", sigma0)
    run = Run.opened(path, dataset=dataset)
    setting = run.federation.setting
    with one_torch_thread():
        objective = objective_of(setting)
        known = exactly(setting, objective)
        looked = looked_along(run.folder, objective, known, _effort(setting, clients, points), curvatures)
        constants = known or _along(setting, objective, looked, FilePath(path))
    beyond = (*outside(setting), *outside_by_deployment(run.folder))
    plan = planned(constants, protocol_of(setting), wishes, beyond=beyond, answered=False)
    records = list(run.folder.records())
    rule = run.config.rule
    facts = facts_of(records, kappa=rule.kappa if isinstance(rule, Rage) else KAPPA, sigma0=asked)
    skipped = tally_of(records).skipped
    judged = verdicts(plan, looked, facts, skipped=skipped)
    deployed = is_deployment(run.folder)
    return Certification(
        path=FilePath(path),
        played=len(records),
        rounds=run.config.rounds,
        plan=plan,
        looked=looked,
        facts=facts,
        skipped=skipped,
        verdicts=as_the_server_saw(judged, records, facts) if deployed else judged,
        notes=(*run.notes, *((TWIN,) if deployed else ())),
    )


def _effort(setting: Setting, clients: int | None, points: int | None) -> Effort:
    usual = Effort.usual(setting)
    return replace(
        usual,
        clients=usual.clients if clients is None else min(clients, setting.num_clients),
        points=usual.points if points is None else points,
    )


def _along(setting: Setting, objective: Objective, looked: Path, path: FilePath) -> Known:
    """Return the largest constants along the run; those at its start if it kept no models."""
    if looked.trajectory is not None:
        return locally(setting, objective, looked.trajectory)
    if looked.diverged is not None:
        raise RunError(
            f"F or its gradient is not finite at the first model that {str(path)!r} kept; there is nothing to judge"
        )
    return at_start(setting, objective)
