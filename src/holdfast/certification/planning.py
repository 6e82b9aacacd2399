"""Before a run: what the theorems promise of it, under which conditions, and what that means in practice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from holdfast.certification.constants import Constant, Known, at_start, exactly, objective_of
from holdfast.certification.protocol import Outside, outside, protocol_of, with_slack
from holdfast.certification.questions import Asked, answers
from holdfast.certification.reading import reading
from holdfast.data import Dataset
from holdfast.errors import ParameterError
from holdfast.linalg.threads import one_torch_thread
from holdfast.server.record import finite
from holdfast.simulation import RunConfig
from holdfast.simulation.setting import Setting
from holdfast.theory import Guarantee, Problem, Protocol, guarantees
from holdfast.theory.ranges import positive, probability

FAILURE = 0.01
"""How likely a run may be to leave its guarantee, unless said otherwise."""


@final
@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the user asks for besides the configuration."""

    problem: Mapping[str, float]
    """Constants that are given rather than measured, by the fields of `Problem`."""
    protocol: Mapping[str, Any]
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


NO_WISHES = Wishes(problem={}, protocol={})


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
    answers: tuple[Asked, ...] = ()
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
        shown: dict[str, Any] = finite(table)
        return shown


def plan(config: RunConfig, wishes: Wishes = NO_WISHES, *, dataset: Dataset | None = None) -> Plan:
    """Return what is promised of a run, from its configuration.

    The constants are exact or proved bounds for the quadratic problem, logistic and softmax regression with l2 > 0; for
    other models they are measured at the start of the run, which bounds nothing later, and are labelled so.

    Raises:
        HoldfastError: the configuration cannot run, or the wishes contradict it.
    """
    with one_torch_thread():
        setting = Setting.of(config, dataset if dataset is not None else config.data.load())
        objective = objective_of(setting)
        known = exactly(setting, objective) or at_start(setting, objective)
    return planned(known, protocol_of(setting), wishes, beyond=outside(setting))


def plan_numbers(wishes: Wishes) -> Plan:
    """Return what is promised of a run that is given by numbers alone.

    Raises:
        ParameterError: some are missing or out of range; the message names them.
    """
    missing = [*_missing(Problem, wishes.problem), *_missing(Protocol, wishes.protocol)]
    if missing:
        raise ParameterError(f"a plan without a configuration needs {', '.join(missing)}")
    known = Known(constants=()).changed(dict(wishes.problem))
    return planned(known, Protocol(**wishes.protocol), Wishes(**{**vars(wishes), "protocol": {}, "problem": {}}))


def _missing(cls: type[Problem | Protocol], given: Mapping[str, Any]) -> list[str]:
    return [name for name, field in cls.model_fields.items() if field.is_required() and name not in given]


def planned(
    known: Known, protocol: Protocol, wishes: Wishes, *, beyond: tuple[Outside, ...] = (), answered: bool = True
) -> Plan:
    """Return the plan for a problem and a protocol, changed as wished; the planner is asked only if `answered`."""
    known = known.changed(dict(wishes.problem))
    problem = known.problem()
    chosen, why = with_slack(protocol.changed(**wishes.protocol), slack=wishes.slack, failure=wishes.failure)
    promised = guarantees(problem, chosen)
    return Plan(
        constants=known.constants,
        problem=problem,
        protocol=chosen,
        slack=why,
        guarantees=promised,
        outside=beyond,
        answers=answers(problem, chosen, failure=wishes.failure, target=wishes.target) if answered else (),
        reading=reading(problem, chosen, promised, failure=wishes.failure),
    )


def guarantee_table(guarantee: Guarantee, rounds: int) -> dict[str, Any]:
    """Return a guarantee as plain values."""
    conditions = [
        {
            "name": each.name,
            "requirement": each.requirement,
            "value": each.value,
            "limit": each.limit,
            "passed": each.passed,
            "margin": each.margin,
        }
        for each in guarantee.conditions
    ]
    return {
        "source": guarantee.source,
        "theorem": guarantee.theorem,
        "quantity": guarantee.quantity,
        "reading": guarantee.reading,
        "holds": guarantee.holds,
        "vacuous": guarantee.is_vacuous,
        "conditions": conditions,
        "lr_limit": guarantee.lr_limit,
        "sigma0": guarantee.sigma0,
        "filter_error": guarantee.filter_error,
        "bound": float(guarantee.bound(rounds)),
        "floor": guarantee.floor,
        "floors": dict(guarantee.floors),
        "failure": guarantee.failure,
        "failures": dict(guarantee.failures),
    }


def _answer(asked: Asked) -> dict[str, Any]:
    if asked.answer is None:
        return {"value": None, "why_not": asked.why_not}
    answer = asked.answer
    return {
        "value": answer.value,
        "source": answer.source,
        "because": answer.because,
        "details": dict(answer.details),
    }
