"""Before a run: what the theorems promise of it, under which conditions, and what that means in practice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

from holdfast.certification.answers import PlannerAnswer, answers
from holdfast.certification.constants import (
    Constant,
    KnownConstants,
    constants_at_start,
    objective_of,
    proved_constants,
)
from holdfast.certification.interpretation import interpret
from holdfast.certification.protocol import Outside, outside, protocol_of, with_slack
from holdfast.data import Dataset
from holdfast.errors import ParameterError
from holdfast.linalg.threads import one_torch_thread
from holdfast.server.record import finite_or_none
from holdfast.simulation import RunConfig
from holdfast.simulation.setting import Setting
from holdfast.theory import Guarantee, Problem, Protocol, guarantees
from holdfast.theory.ranges import positive, probability

FAILURE = 0.01
"""How likely a run may be to leave its guarantee, unless said otherwise."""


@final
@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What the user asks for besides the configuration."""

    problem: Mapping[str, float] = field(default_factory=dict)
    """Constants that are given rather than measured, by the fields of `Problem`."""
    protocol: Mapping[str, Any] = field(default_factory=dict)
    """Numbers that differ from the configuration, by the fields of `Protocol`."""
    slack: float | None = None
    """ε′; None to have it chosen."""
    failure: float = FAILURE
    """How likely the run may be to leave its guarantee."""
    target: float | None = None
    """How close the run is to come, for the planner; None for twice the floor."""

    def __post_init__(self) -> None:
        """Refuse what no plan can be made for."""
        probability("failure", self.failure)
        if self.target is not None:
            positive("target", self.target)


NO_REQUEST = PlanRequest()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What is promised of a run before it runs."""

    constants: tuple[Constant, ...]
    """The problem, each number with where it comes from."""
    problem: Problem
    protocol: Protocol
    slack: str
    """How many rows are set aside and why, as a sentence."""
    guarantees: tuple[Guarantee, ...]
    """The paper's, then holdfast's own."""
    outside: tuple[Outside, ...] = ()
    """What the run does that no theorem covers; if there is anything, nothing is promised."""
    answers: tuple[PlannerAnswer, ...] = ()
    reading: tuple[str, ...] = ()
    """What it means in practice, in plain sentences."""

    @property
    def everywhere(self) -> bool:
        """Whether all constants hold for all x, so that the guarantees are proved and not merely plausible."""
        return all(constant.everywhere for constant in self.constants)

    @property
    def applies(self) -> bool:
        """Whether some theorem promises anything of the run."""
        return not self.outside and not all(guarantee.is_vacuous for guarantee in self.guarantees)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; numbers that are not finite are None."""
        table = {
            "applies": self.applies,
            "constants": {
                each.name: {"value": each.value, "origin": each.origin, "everywhere": each.everywhere}
                for each in self.constants
            },
            "protocol": self.protocol.model_dump(),
            "slack": self.slack,
            "outside": {each.name: each.because for each in self.outside},
            "guarantees": [guarantee_table(each, self.protocol.rounds) for each in self.guarantees],
            "answers": {each.question: _answer(each) for each in self.answers},
            "reading": list(self.reading),
        }
        shown: dict[str, Any] = finite_or_none(table)
        return shown


def plan(config: RunConfig, request: PlanRequest = NO_REQUEST, *, dataset: Dataset | None = None) -> Plan:
    """Return what is promised of a run, from its configuration.

    The constants are exact or proved bounds for the quadratic problem, logistic and softmax regression with l2 > 0; for
    other models they are measured at the start of the run, which bounds nothing later, and are labelled so.

    Raises:
        HoldfastError: the configuration cannot run, or the request contradicts it.
    """
    with one_torch_thread():
        setting = Setting.of(config, dataset if dataset is not None else config.data.load())
        objective = objective_of(setting)
        known = proved_constants(setting, objective) or constants_at_start(setting, objective)
    return make_plan(known, protocol_of(setting), request, beyond=outside(setting))


def plan_numbers(request: PlanRequest) -> Plan:
    """Return what is promised of a run that is given by numbers alone.

    Raises:
        ParameterError: some are missing or out of range; the message names them.
    """
    missing = [*missing_fields(Problem, request.problem), *missing_fields(Protocol, request.protocol)]
    if missing:
        raise ParameterError(f"a plan without a configuration needs {', '.join(missing)}")
    return make_plan(KnownConstants(constants=()), Protocol(**request.protocol), replace(request, protocol={}))


def missing_fields(cls: type[Problem | Protocol], given: Mapping[str, Any]) -> list[str]:
    """Return the numbers without which no theorem says anything."""
    return [name for name, field in cls.model_fields.items() if field.is_required() and name not in given]


def make_plan(
    known: KnownConstants,
    protocol: Protocol,
    request: PlanRequest,
    *,
    beyond: tuple[Outside, ...] = (),
    ask_planner: bool = True,
) -> Plan:
    """Return the plan for a problem and a protocol, changed as requested; and the planner's answers, if it is asked."""
    known = known.changed(dict(request.problem))
    problem = known.problem()
    chosen, why = with_slack(protocol.changed(**request.protocol), slack=request.slack, failure=request.failure)
    promised = guarantees(problem, chosen)
    return Plan(
        constants=known.constants,
        problem=problem,
        protocol=chosen,
        slack=why,
        guarantees=promised,
        outside=beyond,
        answers=answers(problem, chosen, failure=request.failure, target=request.target) if ask_planner else (),
        reading=interpret(problem, chosen, promised, failure=request.failure),
    )


def guarantee_table(guarantee: Guarantee, rounds: int) -> dict[str, Any]:
    """Return a guarantee as plain values."""
    numbers = ("name", "requirement", "value", "limit", "passed", "margin")
    return {
        "source": guarantee.source,
        "theorem": guarantee.theorem,
        "quantity": guarantee.quantity,
        "reading": guarantee.reading,
        "holds": guarantee.holds,
        "vacuous": guarantee.is_vacuous,
        "conditions": [{name: getattr(each, name) for name in numbers} for each in guarantee.conditions],
        "lr_limit": guarantee.lr_limit,
        "sigma0": guarantee.sigma0,
        "filter_error": guarantee.filter_error,
        "bound": float(guarantee.bound(rounds)),
        "floor": guarantee.floor,
        "floors": dict(guarantee.floors),
        "failure": guarantee.failure,
        "failures": dict(guarantee.failures),
    }


def _answer(asked: PlannerAnswer) -> dict[str, Any]:
    if asked.answer is None:
        return {"value": None, "why_not": asked.why_not}
    answer = asked.answer
    return {
        "value": answer.value,
        "source": answer.source,
        "because": answer.because,
        "details": dict(answer.details),
    }
