"""After a run: were the assumptions met, was the filter as good as its certificate, did the theorems hold."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from steadfed._core.arrays import Vector
from steadfed._core.own_code import loaded
from steadfed._core.ranges import check_positive
from steadfed._linalg.threads import one_torch_thread
from steadfed.aggregators import Rage
from steadfed.certification import _assumptions as assumptions, _filter_error as filter_error
from steadfed.certification._constants import (
    SYMBOLS,
    KnownConstants,
    MeasurementBudget,
    constants_at_start,
    local_constants,
    objective_of,
    proved_constants,
)
from steadfed.certification._guarantees import judge_guarantee, measured_curve, obstacles
from steadfed.certification._path import ModelPath, measure_path
from steadfed.certification._plan import NO_REQUEST, Plan, PlanRequest, make_plan, missing_fields
from steadfed.certification._protocol import (
    outside,
    outside_by_choice,
    outside_by_deployment,
    protocol_from,
    protocol_of,
)
from steadfed.certification._rounds import RoundFacts, facts_of
from steadfed.certification._verdicts import Outcome, Verdict, on_guarantee
from steadfed.data import Dataset
from steadfed.errors import ParameterError, RunError
from steadfed.models import RemoteModel
from steadfed.partitions import RemotePartition
from steadfed.runs import Run, config_of, is_deployment
from steadfed.server._folder import RunFolder
from steadfed.server._history import Rounds
from steadfed.server._record import RoundRecord, finite_or_none
from steadfed.simulation import RunConfig
from steadfed.simulation._setting import Setting
from steadfed.theory import Guarantee, Problem
from steadfed.theory.estimate import Objective

CURVATURES = 3
"""At how many models the curvature is measured, where it is not known."""
TWIN = "a deployment: data and model are those of its twin, taken at its word; who was Byzantine is not recorded"
RECORDS_ALONE = "judged by the records alone: F, L, μ, σ² and κ² are properties of points that only the clients have"

AS_ASKED = "judged by the records alone, as asked: F, L, μ, σ² and κ² are not known without the data and the model"

WITHOUT_CODE = "judged by the records alone, as the code of the run's rule or attack cannot be had"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Certification:
    """A run, judged; and measured, if its data are here."""

    path: Path
    """The folder of the run."""
    history: Rounds
    """The rounds that are written down, counted."""
    rounds: int
    """How many there are to be."""
    plan: Plan | None
    """What the theorems guarantee with the constants that are exact, measured along the run or given; None without."""
    models: ModelPath | None
    """The models on the way; None if the points are with the clients, so that nothing can be measured."""
    facts: tuple[RoundFacts, ...]
    """Every round that is written down."""
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()
    """What is worth telling about how the run was found."""

    @property
    def played(self) -> int:
        """How many rounds are written down."""
        return len(self.history)

    @property
    def skipped(self) -> int:
        """How many of them changed nothing."""
        return self.history.tally.skipped

    @property
    def contradicted(self) -> bool:
        """Whether something was measured that was proved not to be, although all conditions held."""
        return any(verdict.contradiction for verdict in self.verdicts)

    @property
    def applicable(self) -> tuple[Guarantee, ...]:
        """The guarantees that speak of the run as it went."""
        plan = self.plan
        if plan is None:
            return ()
        return tuple(each for each in plan.guarantees if not obstacles(plan, self.history.tally, self.facts, each))

    @property
    def is_convex(self) -> bool:
        """Whether the distance to the minimum is bounded, not the mean of gradients."""
        return self.plan is not None and self.plan.problem.strong_convexity > 0.0

    @property
    def everywhere(self) -> bool:
        """Whether all constants hold for all x, so that the guarantees are proved and not merely plausible."""
        return self.plan is not None and self.plan.everywhere

    @property
    def curve(self) -> tuple[Vector, Vector]:
        """Rounds and what the theorems bound, measured there.

        Raises:
            RunError: nothing was measured.
        """
        if self.plan is None or self.models is None:
            raise RunError(f"nothing was measured: the points of {str(self.path)!r} were not there, or not loaded")
        return measured_curve(self.plan, self.models)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; numbers that are not finite are None."""
        table = {
            "path": str(self.path),
            "played": self.played,
            "rounds": self.rounds,
            "skipped": self.skipped,
            "contradicted": self.contradicted,
            "verdicts": [dict(vars(verdict)) for verdict in self.verdicts],
            **self._measurements(),
            "filter": [facts.as_dict() for facts in self.facts],
            "plan": None if self.plan is None else self.plan.as_dict(),
            "notes": list(self.notes),
        }
        shown: dict[str, Any] = finite_or_none(table)
        return shown

    def _measurements(self) -> dict[str, Any]:
        if self.plan is None or self.models is None:
            return {}
        rounds, values = self.curve
        return {
            "curve": {
                "quantity": self.plan.guarantees[0].quantity,
                "rounds": rounds.tolist(),
                "measured": values.tolist(),
                "bounds": {f"{each.source}, {each.reading}": each.bound(rounds).tolist() for each in self.applicable},
            },
            "models": [dict(vars(place)) for place in self.models.places],
            "diverged": self.models.diverged,
        }


def certify(
    path: str | os.PathLike[str],
    *,
    request: PlanRequest = NO_REQUEST,
    clients: int | None = None,
    points: int | None = None,
    curvatures: int = CURVATURES,
    sigma0: float | None = None,
    dataset: Dataset | None = None,
) -> Certification:
    """Judge assumptions, filter and theorems of a run: along its kept models, or by its records alone.

    Where the data are here, the constants are the exact ones if they are known; else the largest along the run, which
    are no bounds over all x. Runs that were interrupted are judged as far as they went.

    Of a deployment nobody knows who was Byzantine, so there a bound that is exceeded contradicts nothing. One without a
    twin has its points with its clients and is judged by its records: cohorts, replies, skipped rounds, certificates.
    With constants in `request.problem` the theorems' conditions are checked and their bounds stated, but not compared.

    Args:
        path: the folder of the run; nothing in it is changed.
        request: ε′ and the allowed failure probability; for a deployment without a twin, the constants by the fields of
            `Problem` and numbers of the protocol that differ, such as num_byzantine or num_points.
        clients: how many clients to look at for σ² and κ²; all, where that is affordable, if left out.
        points: how many points of a client, for σ²; likewise.
        curvatures: at how many models to measure L where it is not known.
        sigma0: the σ₀ to ask certificates about; what the rule was given or found, if left out.
        dataset: the data, if they are not to be loaded from the configuration.

    A run whose rule or attack is of the user's own is judged by its records, too, where that code is not there.

    Raises:
        ParameterError: a number is out of its range, or some constants are given and others missing.
        CorruptRunError: the folder holds no run that can be read.
        RunError: the data are not those of the run, there is nothing to measure constants at, or constants are given
            for a run of which the number of clients is not known.
        MissingDataError: the data are nowhere.
    """
    if sigma0 is not None:
        check_positive("sigma0", sigma0)  # before anything is measured
    folder = RunFolder.open(path)
    config = config_of(folder)
    if not config.data.here and dataset is None:
        return certify_records(path, request=request, sigma0=sigma0)
    if (missing := _missing_code(config)) is not None:
        found = certify_records(path, request=request, sigma0=sigma0)
        return replace(found, notes=tuple(f"{WITHOUT_CODE}: {missing}" if n == AS_ASKED else n for n in found.notes))
    run = Run.open(path, dataset=dataset)
    budget = _budget(run.federation.setting, clients, points)
    basis = _measure(run, request, budget, curvatures, seen=not is_deployment(folder))
    return _certification(folder, config, basis, sigma0)


def _missing_code(config: RunConfig) -> str | None:
    """Return why the rule or the attack of a run cannot be had here; None if both can, as they are steadfed's."""
    try:
        loaded(config)
    except ParameterError as error:
        return str(error)
    return None


def certify_records(
    path: str | os.PathLike[str], *, request: PlanRequest = NO_REQUEST, sigma0: float | None = None
) -> Certification:
    """Judge a run by its records alone: no data are loaded, no model is built, no code of its author is executed.

    Args:
        path: the folder of the run; nothing in it is changed.
        request: as for `certify` of a deployment without a twin.
        sigma0: the σ₀ to ask certificates about; what the rule was given or found, if left out.

    Raises:
        ParameterError: a number is out of its range, or some constants are given and others missing.
        CorruptRunError: the folder holds no run that can be read.
        RunError: constants are given for a run of which the number of clients is not known.
    """
    folder = RunFolder.open(path)
    config = config_of(folder)
    return _certification(folder, config, _read_records(folder, config, request), sigma0)


def _certification(folder: RunFolder, config: RunConfig, basis: _Basis, sigma0: float | None) -> Certification:
    """Return what a basis and the records of a run say together."""
    asked = None if sigma0 is None else check_positive("sigma0", sigma0)
    records = list(folder.records())
    facts = facts_of(records, kappa=config.rule.kappa if isinstance(config.rule, Rage) else None, sigma0=asked)
    history = Rounds.of(records, deployed=is_deployment(folder))
    return Certification(
        path=folder.path,
        history=history,
        rounds=config.rounds,
        plan=basis.plan,
        models=basis.models,
        facts=facts,
        verdicts=tuple(_judge(basis, records, history, facts, sigma0=asked)),
        notes=basis.notes,
    )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Basis:
    """What a run is judged by, besides its records."""

    plan: Plan | None
    models: ModelPath | None
    outside: Mapping[str, str]
    given: Mapping[str, float]
    notes: tuple[str, ...]


def _measure(run: Run, request: PlanRequest, budget: MeasurementBudget, curvatures: int, *, seen: bool) -> _Basis:
    """Return the constants and models of a run whose data are here."""
    setting = run.federation.setting
    with one_torch_thread():
        objective = objective_of(setting)
        known = proved_constants(setting, objective)
        models = measure_path(run.folder, objective, known, budget, curvatures)
        known = known or _constants_along(setting, objective, models, run.folder.path)
    beyond = outside(setting) | outside_by_deployment(run.folder)
    plan = make_plan(known, protocol_of(setting), request, beyond=beyond, ask_planner=False)
    notes = (*run.notes, *(() if seen else (TWIN,)))
    return _Basis(plan=plan, models=models, outside=beyond, given={}, notes=notes)


def _read_records(folder: RunFolder, config: RunConfig, request: PlanRequest) -> _Basis:
    """Return what was given of a run whose points are with its clients, or are not to be loaded."""
    beyond = outside_by_choice(config) | outside_by_deployment(folder)
    note = AS_ASKED if config.data.here else RECORDS_ALONE
    if not request.problem:
        return _Basis(plan=None, models=None, outside=beyond, given={}, notes=(note,))
    plan = _plan_from_constants(config, request, beyond)
    number, clients = plan.protocol.num_byzantine, plan.protocol.num_clients
    reckoning = f"the theorems reckon with {number} Byzantine clients of {clients}, and with plain SGD by the others"
    return _Basis(plan=plan, models=None, outside=beyond, given=request.problem, notes=(note, reckoning))


def _plan_from_constants(config: RunConfig, request: PlanRequest, beyond: Mapping[str, str]) -> Plan:
    given = dict(request.problem)
    missing = [SYMBOLS[name] for name in missing_fields(Problem, given)]
    missing += [] if {"distance", "gap"} & given.keys() else [f"{SYMBOLS['distance']} or {SYMBOLS['gap']}"]
    if missing:
        raise ParameterError(f"with some constants given, all are needed: {', '.join(missing)} missing")
    if not isinstance(config.partition, RemotePartition):
        raise RunError(
            f"constants are given for a deployment with a remote partition, this run has {config.partition!r}"
        )
    dim = int(given["dim"]) if "dim" in given else None
    if isinstance(config.model, RemoteModel):  # d of the rounds, whatever d the paper's formulas are asked about
        dim = config.model.dim
        given = {"dim": dim, **given}
    points = request.protocol.get("num_points")
    protocol = protocol_from(config, num_clients=config.partition.num_clients, num_points=points, dim=dim)
    known = KnownConstants(constants=())
    return make_plan(known, protocol, replace(request, problem=given), beyond=beyond, ask_planner=False)


def _judge(
    basis: _Basis,
    records: Sequence[RoundRecord],
    rounds: Rounds,
    facts: tuple[RoundFacts, ...],
    *,
    sigma0: float | None,
) -> Iterator[Verdict]:
    """Yield all judgements of a run, the assumptions first."""
    plan, models, seen = basis.plan, basis.models, not rounds.deployed
    aggregated = [each for each in facts if not each.skipped]
    yield assumptions.judge_algorithm(basis.outside, rounds)
    if plan is None or models is None:
        yield from assumptions.judge_absent_constants(basis.given)
    else:
        yield from assumptions.judge_constants(plan, models)
        if seen:
            yield assumptions.judge_cohorts(plan, facts)
        yield from assumptions.judge_spreads(plan, aggregated)
    if seen:
        yield from filter_error.judge_errors(aggregated)
    else:
        yield assumptions.judge_unseen_cohorts(records, sigma0)
        yield assumptions.judge_arrivals(rounds)
        yield filter_error.judge_certificates(aggregated)
    if plan is None:
        because = "they need L, σ², κ² and where the run starts; give these numbers if you know them"
        yield on_guarantee("theorems", Outcome.UNKNOWN, because)
        return
    for guarantee in plan.guarantees:
        yield judge_guarantee(plan, models, rounds.tally, facts, guarantee, seen=seen)


def _budget(setting: Setting, clients: int | None, points: int | None) -> MeasurementBudget:
    usual = MeasurementBudget.usual(setting)
    return replace(
        usual,
        clients=usual.clients if clients is None else min(clients, setting.num_clients),
        points=usual.points if points is None else points,
    )


def _constants_along(setting: Setting, objective: Objective, models: ModelPath, path: Path) -> KnownConstants:
    """Return the largest constants along the run; those at its start if it kept no models."""
    if models.trajectory is not None:
        return local_constants(setting, objective, models.trajectory)
    if models.diverged is not None:
        raise RunError(
            f"F or its gradient is not finite at the first model that {str(path)!r} kept; there is nothing to judge"
        )
    return constants_at_start(setting, objective)
