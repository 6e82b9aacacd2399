"""How far adversaries with a goal of their own came in a comparison, beside what the models learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steadfed.metrics import ATTACK_SUCCESS
from steadfed.reports.panels import Column, Section, Unit, Value, tabulate
from steadfed.sweeps._ranking import mean_of
from steadfed.sweeps.runs._ranking import Case, in_words
from steadfed.sweeps.runs._results import Result

_LAST = "mean of the last five evaluations"


def backdoors(cases: Sequence[Case], keys: frozenset[str], subject: str) -> Section | None:
    """Return the attack success rates by rule, attack and setting, the worst first; None if no attack has a goal."""
    chosen = [case for case in cases if _rates(case.trials)]
    if not chosen:
        return None
    columns: dict[Column, Callable[[Case], Value]] = {
        Column("rule"): lambda case: case.rule,
        Column("attack"): lambda case: case.attack,
        Column("setting"): lambda case: in_words(case.setting, keys),
        Column("success rate", Unit.PERCENT, _LAST): lambda case: mean_of(_rates(case.trials)),
        Column("at the end", Unit.PERCENT, "after the last round"): lambda case: mean_of(_ends(case.trials)),
        Column("accuracy", Unit.PERCENT, _LAST): lambda case: mean_of(_accuracies(case.trials)),
        Column("seeds", Unit.NUMBER): lambda case: len(_rates(case.trials)),
    }
    table = tabulate(
        sorted(chosen, key=lambda case: -(mean_of(_rates(case.trials)) or 0.0)),
        columns,
        key="backdoors",
        title="Attack success rate",
        caption="Which share of the points of an adversary's goal, such as those of other classes with a trigger on "
        "them, is taken for its target; means over seeds. Lower is better, and says nothing without the accuracy.",
        flag=lambda case: case.rule == subject,
        shown=30,
    )
    return Section(key="backdoors", title="Backdoors", panels=(table,))


def _rates(trials: Sequence[Result]) -> list[float]:
    found = [trial.figures.of(ATTACK_SUCCESS) for trial in trials if trial.figures is not None]
    return [rate for rate in found if rate is not None]


def _ends(trials: Sequence[Result]) -> list[float]:
    curves = [trial.figures.curve_of(ATTACK_SUCCESS)[1] for trial in trials if trial.figures is not None]
    return [curve[-1] for curve in curves if curve and curve[-1] is not None]


def _accuracies(trials: Sequence[Result]) -> list[float]:
    found = [trial.figures.accuracy for trial in trials if trial.figures is not None]
    return [accuracy for accuracy in found if accuracy is not None]
