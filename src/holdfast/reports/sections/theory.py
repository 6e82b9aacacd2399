"""What the theorems say, before a run and after it: constants, conditions, guarantees, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from holdfast.reports.panels import Column, Lines, Panel, Series, Style, Table, Text, Tone, Unit, facts_table
from holdfast.reports.sections.learning import curve
from holdfast.reports.thinning import REPORT, Limits
from holdfast.wording import NOTHING, plural

if TYPE_CHECKING:
    from holdfast.certification import Certification, Plan
    from holdfast.certification.constants import Constant
    from holdfast.certification.path import ModelPath
    from holdfast.certification.verdicts import Verdict

MARKS = {"held": "✓", "did not hold": "✗", "says nothing": "○", "not measured": "?", "does not apply": NOTHING}
"""The sign before every outcome."""
_MODELS_SHOWN = 6
_CURVE_POINTS = 200
_DEEPEST = 1e-3
"""The error of a round without Byzantine rows is rounding: beside the largest it is not shown."""


def plan_panels(plan: Plan, title: str) -> Iterator[Panel]:
    """Yield what the theorems promise of a run before it runs, and what that means."""
    yield constants_table(plan.constants, f"problem: {title}")
    outside = tuple(f"✗ outside the theorems: {each.name}: {each.because}" for each in plan.outside)
    if outside:
        yield Text(key="outside", title="", paragraphs=outside, tone=Tone.WARNING)
    yield Text(key="slack", title="", paragraphs=(f"{plan.slack}.",))
    for place, each in enumerate(plan.guarantees, 1):
        yield facts_table(f"guarantee-{place}", f"{each.source}: {each.theorem}", each.rows())
    yield facts_table("planner", "planner", [(asked.question, asked.text) for asked in plan.answers])
    yield Text(key="in-practice", title="In practice", paragraphs=(*_caveats(plan), *plan.reading))


def certification_panels(found: Certification) -> Iterator[Panel]:
    """Yield what was measured along a run, how it is judged, and the sum of it."""
    whole = found.played == found.rounds
    state = "complete" if whole else f"{found.played:,} of {plural(found.rounds, 'round')} played"
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


def bound_panel(found: Certification, limits: Limits = REPORT) -> Lines | Text:
    """Return the theorems' curves over the measured one, with their floors; or say why there is none."""
    rounds, values = found.curve
    convex, title = found.is_convex, "What the theorems bound"
    measured = curve("measured", rounds, np.where(values > 0.0, values, np.nan), limits, colour=0)
    series: list[Series | None] = [measured]
    where = np.linspace(0 if convex else 1, max(found.played, 1), _CURVE_POINTS)
    for colour, each in enumerate(found.applicable, start=1):
        bound, floor = each.bound(where), np.full(2, each.floor)
        drawn = np.where(np.isfinite(bound) & (bound > 0.0), bound, np.nan)
        series.append(curve(f"{each.source}: {each.reading}", where, drawn, limits, colour=colour, style=Style.DASHED))
        series.append(curve(f"{each.source}: floor", where[[0, -1]], floor, limits, colour=colour, style=Style.DOTTED))
    shown = tuple(each for each in series if each is not None)
    if not shown:
        why = "The run kept no models (evaluation.measured_rounds), so there is nothing to compare with a bound."
        return Text(key="bound", title=title, paragraphs=(why,))
    reasons = [each.because for each in found.verdicts if each.subject == "guarantee"]
    missing = f"No bound is drawn, because no theorem applies: {reasons[-1] if reasons else 'see below'}."
    proved = "" if found.everywhere else "The bounds use constants measured along the run, which proves nothing."
    return Lines(
        key="bound",
        title=title,
        caption=f"{proved if found.applicable else missing} Logarithmic scale.".strip(),
        series=shown,
        x_title="rounds",
        y_title="‖x − x*‖², squared distance to the optimum" if convex else "mean of ‖∇F‖² so far",
        log_y=True,
    )


def filter_panel(found: Certification, limits: Limits = REPORT) -> Lines:
    """Return the filter's true error, its certificate, and the certificate at the true spread, round by round."""
    rounds = np.array([each.round for each in found.facts], dtype=np.float64)
    named = {"certificate": "certificate, σ₀ as the rule found it", "honest_bound": "certificate at the true σ₀"}
    columns = {
        text: np.array([getattr(each, name) or np.nan for each in found.facts], dtype=np.float64)
        for name, text in {**named, "error": "true error"}.items()
    }
    broken = [not each.promise_kept for each in found.facts]
    columns["too many Byzantine rows"] = np.where(broken, columns["true error"], np.nan)
    largest = max((values[np.isfinite(values)].max(initial=0.0) for values in columns.values()), default=0.0)
    series = [
        curve(
            name,
            rounds,
            np.where(values > _DEEPEST * largest, values, np.nan),
            limits,
            colour=colour,
            style=Style.POINTS if name in {named["honest_bound"], "too many Byzantine rows"} else Style.LINE,
        )
        for colour, (name, values) in enumerate(columns.items())
    ]
    return Lines(
        key="filter",
        title="The filter's error against its certificate",
        caption="" if found.facts else "No round was played.",
        series=tuple(each for each in series if each is not None),
        x_title="round",
        y_title="‖ĝ − mean of the honest rows‖",
        log_y=True,
    )


def constants_table(constants: Sequence[Constant], title: str) -> Table:
    """Return the numbers of a problem with where they come from."""
    return Table(
        key="constants",
        title=title,
        columns=(Column(title="constant"), Column(title="value", unit=Unit.NUMBER), Column(title="where from")),
        rows=tuple((each.symbol, f"{each.value:.6g}", each.origin) for each in constants),
    )


def models_table(models: ModelPath) -> Table:
    """Return some of the models, evenly spread, the first and the last among them."""
    places = models.places
    last, steps = len(places) - 1, min(_MODELS_SHOWN, len(places)) - 1
    chosen = sorted({round(last * step / steps) if steps else 0 for step in range(steps + 1)})
    known = any(place.distance is not None for place in places)
    titles = ("rounds", "F(x)", "‖∇F(x)‖²", *(["‖x − x*‖²"] if known else []), "σ²", "κ²", "L")
    return Table(
        key="models",
        title=f"measured at {plural(len(places), 'model')}{_sample(models)}",
        columns=tuple(Column(title=title, unit=Unit.NUMBER) for title in titles),
        rows=tuple(
            (
                place.round,
                place.value,
                place.gradient,
                *([place.distance] if known else []),
                place.gradient_variance,
                place.dissimilarity,
                place.smoothness,
            )
            for place in (places[each] for each in chosen)
        ),
    )


def verdict_table(verdicts: Sequence[Verdict], *, key: str = "verdicts", title: str = "verdicts") -> Table:
    """Return the assumptions, the filter and the theorems, judged."""
    return Table(
        key=key,
        title=title,
        columns=(
            Column(title="kind", minor=True),
            Column(title="what"),
            Column(title="outcome"),
            Column(title="because"),
        ),
        rows=tuple(
            (str(each.subject), each.name, f"{MARKS[each.outcome]} {each.outcome}", each.because) for each in verdicts
        ),
        flagged=tuple(place for place, each in enumerate(verdicts) if each.contradiction),
    )


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
        why = "they promise nothing of this run" if "says nothing" in judged else "nothing was measured after the start"
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
        names = ", ".join(each.name for each in plan.outside)
        yield f"No theorem covers this run ({names}); the numbers are those of Algorithm 1 with RAGE."
    if not plan.everywhere:
        measured = ", ".join(each.symbol for each in plan.constants if not each.everywhere)
        yield (
            f"{measured} were measured, and bound nothing elsewhere: they may grow during the run. The guarantees are "
            f"as good as they are; `holdfast certify` measures again along the run."
        )
