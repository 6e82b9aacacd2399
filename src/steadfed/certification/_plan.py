"""Before a run: what the theorems guarantee of it, under which conditions, and what that means in practice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, final

from steadfed._core.ranges import check_positive, check_probability
from steadfed._linalg.threads import one_torch_thread
from steadfed.certification._answers import answers
from steadfed.certification._constants import (
    Constant,
    KnownConstants,
    constants_at_start,
    objective_of,
    proved_constants,
)
from steadfed.certification._interpretation import interpret
from steadfed.certification._protocol import outside, protocol_of, with_slack
from steadfed.data import Dataset
from steadfed.errors import ParameterError
from steadfed.server._promise import check_coverage
from steadfed.server._record import finite_or_none
from steadfed.simulation import RunConfig
from steadfed.simulation._setting import Setting
from steadfed.theory import Guarantee, Problem, Protocol, guarantees
from steadfed.theory.planner import Answer

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
        check_probability("failure", self.failure)
        if self.target is not None:
            check_positive("target", self.target)


NO_REQUEST = PlanRequest()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """What is guaranteed of a run before it runs."""

    constants: tuple[Constant, ...]
    """The problem, each number with where it comes from."""
    problem: Problem
    protocol: Protocol
    slack: str
    """How many updates are set aside and why, as a sentence."""
    guarantees: tuple[Guarantee, ...]
    """The paper's, then steadfed's own."""
    outside: Mapping[str, str] = field(default_factory=dict)
    """What the run does that no theorem covers, and why; if there is anything, nothing is guaranteed."""
    answers: Mapping[str, Answer | str] = field(default_factory=dict)
    """The planner's, by question; in words where there is none."""
    reading: tuple[str, ...] = ()
    """What it means in practice, in plain sentences."""

    @property
    def everywhere(self) -> bool:
        """Whether all constants hold for all x, so that the guarantees are proved and not merely plausible."""
        return all(constant.everywhere for constant in self.constants)

    @property
    def applies(self) -> bool:
        """Whether some theorem guarantees anything of the run."""
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
            "outside": dict(self.outside),
            "guarantees": [guarantee_table(each, self.protocol.rounds) for each in self.guarantees],
            "answers": {question: _answer_table(answer) for question, answer in self.answers.items()},
            "reading": list(self.reading),
        }
        shown: dict[str, Any] = finite_or_none(table)
        return shown


def plan(config: RunConfig, request: PlanRequest = NO_REQUEST, *, dataset: Dataset | None = None) -> Plan:
    """Return what is guaranteed of a run, from its configuration.

    The constants are exact or proved bounds for the quadratic problem, logistic and softmax regression with l2 > 0; for
    other models they are measured at the start of the run, which bounds nothing later, and are labelled so.

    Raises:
        SteadfedError: the configuration cannot run, or the request contradicts it.
    """
    with one_torch_thread():
        setting = Setting.of(config, dataset if dataset is not None else config.data.load())
        objective = objective_of(setting)
        known = proved_constants(setting, objective) or constants_at_start(setting, objective)
    found = make_plan(known, protocol_of(setting), request, beyond=outside(setting))
    return replace(found, reading=(*_covered(setting), *found.reading))


def _covered(setting: Setting) -> Iterator[str]:
    """Say whom the filter's promise of a round covers, where clients are weighed."""
    if (sites := setting.sites) is None:
        return
    config = setting.config
    cohort = config.cohorts.cohort(0, setting.num_clients, config.cohort_size, config.seed).tolist()
    promise = check_coverage(config.rule, sites, cohort)
    if promise is not None:
        which = "all clients" if len(cohort) == setting.num_clients else "the first cohort"
        yield (
            f"Clients are weighed. Of {which}, {promise.sentence}. If the weighted covariance of the others has λ_max "
            f"at most σ₀², an update errs by at most C σ₀ √{promise.byzantine:.3g} from their weighted mean."
        )


def plan_numbers(request: PlanRequest) -> Plan:
    """Return what is guaranteed of a run that is given by numbers alone.

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
    beyond: Mapping[str, str] = MappingProxyType({}),
    ask_planner: bool = True,
) -> Plan:
    """Return the plan for a problem and a protocol, changed as requested; and the planner's answers, if it is asked."""
    known = known.with_given(dict(request.problem))
    problem = known.problem()
    chosen, why = with_slack(protocol.with_changes(**request.protocol), slack=request.slack, failure=request.failure)
    stated = guarantees(problem, chosen)
    return Plan(
        constants=known.constants,
        problem=problem,
        protocol=chosen,
        slack=why,
        guarantees=stated,
        outside=beyond,
        answers=answers(problem, chosen, failure=request.failure, target=request.target) if ask_planner else {},
        reading=interpret(problem, chosen, stated, failure=request.failure),
    )


_GUARANTEE = (
    *("source", "theorem", "quantity", "reading", "holds", "lr_limit"),
    *("sigma0", "filter_error", "floor", "floors", "failure", "failures"),
)
_CONDITION = ("name", "requirement", "value", "limit", "passed", "margin")


def guarantee_table(guarantee: Guarantee, rounds: int) -> dict[str, Any]:
    """Return a guarantee as plain values."""
    return {
        **{name: getattr(guarantee, name) for name in _GUARANTEE},
        "vacuous": guarantee.is_vacuous,
        "conditions": [{name: getattr(each, name) for name in _CONDITION} for each in guarantee.conditions],
        "bound": float(guarantee.bound(rounds)),
    }


def _answer_table(found: Answer | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"value": None, "why_not": found}
    return {name: value for name, value in vars(found).items() if name != "question"}
