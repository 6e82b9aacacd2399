"""What the theorems say, before a run and after it: constants, conditions, guarantees, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from steadfed._core.wording import NOTHING, plural
from steadfed.reports._sections.learning import curve, positive_only
from steadfed.reports._thinning import REPORT, PanelLimits
from steadfed.reports.panels import (
    Column,
    Lines,
    Panel,
    Series,
    Style,
    Table,
    Text,
    Tone,
    Unit,
    Value,
    facts_table,
    tabulate,
)

if TYPE_CHECKING:
    from steadfed.certification import Certification, Plan
    from steadfed.certification._constants import Constant
    from steadfed.certification._path import MeasuredModel, ModelPath
    from steadfed.certification._verdicts import Verdict

MARKS = {"held": "✓", "did not hold": "✗", "says nothing": "○", "not measured": "?", "does not apply": NOTHING}
"""The sign before every outcome."""
_MODELS_SHOWN = 6
_CURVE_POINTS = 200
_DEEPEST = 1e-3
"""The error of a round without Byzantine updates is rounding: beside the largest it is not shown."""


def plan_panels(plan: Plan, title: str) -> Iterator[Panel]:
    """Yield what the theorems guarantee of a run before it runs, and what that means."""
    yield constants_table(plan.constants, f"problem: {title}")
    outside = tuple(f"✗ outside the theorems: {name}: {because}" for name, because in plan.outside.items())
    if outside:
        yield Text(key="outside", title="", paragraphs=outside, tone=Tone.WARNING)
    yield Text(key="slack", title="", paragraphs=(f"{plan.slack}.",))
    for place, each in enumerate(plan.guarantees, 1):
        yield facts_table(f"guarantee-{place}", f"{each.source}: {each.theorem}", each.rows())
    planned = [
        (question, f"none: {found}" if isinstance(found, str) else f"{found.value:,} ({found.source}; {found.because})")
        for question, found in plan.answers.items()
    ]
    yield facts_table("planner", "planner", planned)
    yield Text(key="in-practice", title="In practice", paragraphs=(*_caveats(plan), *plan.reading))


def certification_panels(found: Certification) -> Iterator[Panel]:
    """Yield what was measured along a run, how it is judged, and the sum of it."""
    whole = found.played == found.rounds
    state = "complete" if whole else f"{found.played:,} of {plural(found.rounds, 'round')} run"
    heading = f"{found.path}: {state}"
    yield (
        Text(key="run", title=heading, paragraphs=())
        if found.plan is None
        else constants_table(found.plan.constants, heading)
    )
    models = found.models
    if models is not None and models.places:
        yield models_table(models)
    if models is not None and models.diverged is not None:
        told = f"the model after {plural(models.diverged, 'round')} is not finite; nothing later was looked at"
        yield Text(key="diverged", title="", paragraphs=(told,), tone=Tone.WARNING)
    yield verdict_table(found.verdicts)
    for place, note in enumerate(found.notes, 1):
        yield Text(key=f"note-{place}", title="", paragraphs=(f"note: {note}",))
    yield Text(key="summary", title=summary(found), paragraphs=())


def bound_panel(found: Certification, limits: PanelLimits = REPORT) -> Lines | Text:
    """Return the theorems' curves over the measured one, with their floors; or say why there is none."""
    rounds, values = found.curve
    convex, title = found.is_convex, "What the theorems bound"
    series = [*curve("measured", positive_only(values), limits, colour=0, x=rounds)]
    where = np.linspace(0 if convex else 1, max(found.played, 1), _CURVE_POINTS)
    for colour, each in enumerate(found.applicable, start=1):
        bound = positive_only(np.where(np.isfinite(each.bound(where)), each.bound(where), np.nan))
        name, style, ends = f"{each.source}: {each.reading}", Style.DASHED, where[[0, -1]]
        series += curve(name, bound, limits, colour=colour, style=style, x=where)
        floor = np.full(2, each.floor)
        series += curve(f"{each.source}: floor", floor, limits, colour=colour, style=Style.DOTTED, x=ends)
    if not series:
        why = "The run kept no models (evaluation.measured_rounds), so there is nothing to compare with a bound."
        return Text(key="bound", title=title, paragraphs=(why,))
    reasons = [each.because for each in found.verdicts if each.subject == "guarantee"]
    missing = f"No bound is drawn, because no theorem applies: {reasons[-1] if reasons else 'see below'}."
    proved = "" if found.everywhere else "The bounds use constants measured along the run, which proves nothing."
    return Lines(
        key="bound",
        title=title,
        caption=f"{proved if found.applicable else missing} Logarithmic scale.".strip(),
        series=tuple(series),
        x_title="rounds",
        y_title="‖x − x*‖², squared distance to the optimum" if convex else "mean of ‖∇F‖² so far",
        log_y=True,
    )


def theorem_panel(found: Certification) -> Text:
    """Return steadfed's own theorem of a run as a formula, and what its letters are."""
    distance = (
        "x_k is the model after k rounds, x* the optimum, η the step size, H the local steps, μ the strong convexity; "
        "s bounds the error of one round: the clients' drift, their noise, the filter. "
        "Proof: docs/theory/convergence.md, Theorem 1; for gaps that differ, Theorem 1′."
    )
    gradient = (
        "x_k is the model after k of N rounds, F the objective, η the step size, H the local steps; s bounds the error "
        "of one round: the clients' drift, their noise, the filter; c is near 1 for small steps. "
        "Proof: docs/theory/convergence.md, Theorem 2; for gaps that differ, Theorem 2′."
    )
    return Text(
        key="theorem",
        title="What steadfed's theorem says",
        paragraphs=(distance if found.is_convex else gradient,),
        formula="distance" if found.is_convex else "gradient",
    )


def filter_panel(found: Certification, limits: PanelLimits = REPORT) -> Lines:
    """Return the filter's true error, its certificate, and the certificate at the true spread, round by round."""
    rounds = np.array([each.round for each in found.facts], dtype=np.float64)
    named = {"certificate": "certificate, σ₀ as the rule found it", "honest_bound": "certificate at the true σ₀"}
    columns = {
        text: np.array([getattr(each, name) or np.nan for each in found.facts], dtype=np.float64)
        for name, text in {**named, "error": "true error"}.items()
    }
    broken = [not each.assumption_held for each in found.facts]
    columns["too many Byzantine updates"] = np.where(broken, columns["true error"], np.nan)
    largest = max((values[np.isfinite(values)].max(initial=0.0) for values in columns.values()), default=0.0)
    dotted = {named["honest_bound"], "too many Byzantine updates"}
    series: list[Series] = []
    for colour, (name, values) in enumerate(columns.items()):
        seen = np.where(values > _DEEPEST * largest, values, np.nan)
        style = Style.POINTS if name in dotted else Style.LINE
        series += curve(name, seen, limits, colour=colour, style=style, x=rounds)
    return Lines(
        key="filter",
        title="The filter's error against its certificate",
        caption="" if found.facts else "No round was run.",
        series=tuple(series),
        y_title="‖ĝ − mean of the honest updates‖",
        log_y=True,
    )


def constants_table(constants: Sequence[Constant], title: str) -> Table:
    """Return the numbers of a problem with where they come from."""
    columns: dict[Column, Callable[[Constant], Value]] = {
        Column("constant"): lambda each: each.symbol,
        Column("value", Unit.NUMBER): lambda each: f"{each.value:.6g}",
        Column("where from"): lambda each: each.origin,
    }
    return tabulate(constants, columns, key="constants", title=title)


def models_table(models: ModelPath) -> Table:
    """Return some of the models, evenly spread, the first and the last among them."""
    from steadfed.certification._path import evenly_spread

    places = models.places
    columns: dict[str, Callable[[MeasuredModel], Value]] = {
        "rounds": lambda place: place.round,
        "F(x)": lambda place: place.value,
        "‖∇F(x)‖²": lambda place: place.gradient,
        "‖x − x*‖²": lambda place: place.distance,
        "σ²": lambda place: place.gradient_variance,
        "κ²": lambda place: place.dissimilarity,
        "L": lambda place: place.smoothness,
    }
    if all(place.distance is None for place in places):
        del columns["‖x − x*‖²"]
    return tabulate(
        evenly_spread(places, _MODELS_SHOWN),
        {Column(title, unit=Unit.NUMBER): value for title, value in columns.items()},
        key="models",
        title=f"measured at {plural(len(places), 'model')}{_sample(models)}",
    )


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Return the assumptions, the filter and the theorems, judged."""
    columns: dict[Column, Callable[[Verdict], Value]] = {
        Column("kind", minor=True): lambda each: str(each.subject),
        Column("what"): lambda each: each.name,
        Column("outcome"): lambda each: f"{MARKS[each.outcome]} {each.outcome}",
        Column("because"): lambda each: each.because,
    }
    return tabulate(verdicts, columns, key="verdicts", title="verdicts", flag=lambda each: each.contradiction)


def summary(found: Certification) -> str:
    """Return what a certification comes to, in a sentence."""
    if found.contradicted:
        return "A bound was exceeded although all its conditions held; see the lines in bold."
    if found.models is None:
        return "Nothing was measured, so nothing that is proved is contradicted."
    if not found.applicable:
        return "No theorem speaks of this run, for the reasons above; nothing that is proved was contradicted."
    judged = {str(each.outcome) for each in found.verdicts if each.subject == "guarantee"}
    if not judged & {"held", "did not hold"}:
        vacuous = "says nothing" in judged
        why = "they guarantee nothing of this run" if vacuous else "nothing was measured after the start"
        return f"The theorems were not put to the test, as {why}."
    if not found.everywhere:
        return "Nothing contradicts what is proved, as far as constants measured along the run can tell."
    return "Nothing contradicts what is proved."


def _sample(models: ModelPath) -> str:
    """Return of which clients and points the numbers are, if not of all."""
    trajectory = models.trajectory
    if trajectory is None:
        return ""
    first = trajectory.statistics[0]
    sampled = "" if first.gradient_variance.exact else f"; σ², κ²: {first.gradient_variance.note}"
    largest = max(each.gradient_error for each in trajectory.statistics)
    return sampled + (f"; F, ∇F: from a sample of points, ∇F ± {largest:.2g} (standard error)" if largest else "")


def _caveats(plan: Plan) -> Iterator[str]:
    """Yield what must be said before anything else."""
    if plan.outside:
        yield f"No theorem covers this run ({', '.join(plan.outside)}); the numbers are those of Algorithm 1 with RAGE."
    if not plan.everywhere:
        measured = ", ".join(each.symbol for each in plan.constants if not each.everywhere)
        yield (
            f"{measured} were measured, and bound nothing elsewhere: they may grow during the run. The guarantees are "
            f"as good as they are; `steadfed certify` measures again along the run."
        )
