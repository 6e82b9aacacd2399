"""What was proved of each update, against how far it really was from the mean of the honest ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from steadfed._core.wording import percent, plural
from steadfed.reports._sections.learning import attack_marks, curve, positive_only
from steadfed.reports._sections.phrases import per_run, setting_words
from steadfed.reports._sections.seeds import Points, group_curve, seed_groups, seeds_note
from steadfed.reports._thinning import REPORT, Numbers, PanelLimits, Places
from steadfed.reports.panels import Lines, Panel, Section, Style, Text
from steadfed.server._history import RunHistory

_ANYWAY = "certificate.unconditional_bound"
_LETTERS = (
    "g_S is the mean of the honest updates S, σ₀ their spread: the largest standard deviation in any direction. λ is "
    "the largest variance of the kept updates, as measured; n updates could be used, f of them are assumed to be "
    "Byzantine, D is the weight that was removed, and U bounds, step by step, how much of it was honest. Where a "
    "displacement was cut, the smaller of this and of a bound by way of the safest updates is taken; with a sketch U "
    "is D, and λ is bounded by a second key. Proofs: docs/theory/filter.md, sections 5.3, 7 and 8."
)
_ROUNDING = 1e-5
"""Errors below this part of the updates' size are rounding, of rounds without Byzantine updates."""


def certificate(histories: Sequence[RunHistory], limits: PanelLimits = REPORT) -> Section:
    """Return for every run with certificates what they prove; and the true errors of all runs in one plot."""
    alone = len(histories) == 1
    panels = per_run(histories, lambda history: _bounds(history, limits, alone=alone))
    if any(np.isfinite(positive_only(history["certificate.error_bound"])).any() for history in histories):
        panels.append(
            Text(key="certificate-formula", title="What the bound is", paragraphs=(_LETTERS,), formula="certificate")
        )
    if not alone and (errors := _errors(histories, limits)).series:
        panels.append(errors)
    if not panels:
        rules = ", ".join(dict.fromkeys(setting_words(history, "rule") for history in histories))
        why = f"There are no certificates: the rule is {rules}, and only RAGE proves something of its updates."
        played = any(history.rounds_played for history in histories)
        said = why if played else "No round has been run yet."
        panels = [Text(key="no-certificate", title="Nothing is certified", paragraphs=(said,))]
    return Section(
        key="certificate",
        title="How wrong were the updates, and what was proved?",
        intro="The distance between the update that the server applied and the mean of the honest clients' updates.",
        panels=tuple(panels),
    )


def broken_rounds(history: RunHistory) -> Places:
    """Return the rounds with more Byzantine updates than the rule assumed, as far as the records know."""
    broken = history["byzantine"] > history["num_byzantine"]  # not where one of them is unknown
    if history.rounds.site_shares:
        broken = history["byzantine_share"] > history["byzantine_weight"] * (1.0 + 1e-9)
    return np.flatnonzero(broken)


def real_errors(history: RunHistory) -> Numbers:
    """Return every round's distance between its update and the honest mean, NaN if it is unknown or mere rounding."""
    error, size = history["error"], history["update_norm"]
    scatter = np.sqrt(np.nan_to_num(history["honest_scatter"]))
    return np.where(error > _ROUNDING * np.fmax(np.nan_to_num(size), scatter), error, np.nan)


def _bounds(history: RunHistory, limits: PanelLimits, *, alone: bool) -> Iterator[Panel]:
    proved, error = positive_only(history["certificate.error_bound"]), real_errors(history)
    anyway, at_truth = (positive_only(history[name]) for name in (_ANYWAY, "honest_error_bound"))
    certified = bool(np.isfinite(proved).any())
    if not certified and not (alone and np.isfinite(error).any()):
        return
    measured, broken, points = np.flatnonzero(np.isfinite(at_truth)), broken_rounds(history), Style.POINTS
    yield Lines(
        key="certificate",
        title="Certificate against the true error" if certified else "Error of the updates",
        caption=_caption(history, certified=certified),
        series=(
            *curve("bound, with the spread the rule found", proved, limits, colour=0),
            *curve("bound, whatever the spread is", anyway, limits, colour=2, style=Style.DASHED),
            *curve("bound, with the true spread", at_truth[measured], limits, colour=4, style=points, x=measured),
            *curve("true error", error, limits, colour=7),
            *curve("more Byzantine updates than assumed", error[broken], limits, colour=1, style=points, x=broken),
        ),
        y_title="distance to the honest mean",
        log_y=True,
        marks=attack_marks([history]),
    )


def _caption(history: RunHistory, *, certified: bool) -> str:
    if not certified:
        return "Only a simulation knows this. The rule proves nothing of its updates. Logarithmic scale."
    if history.deployed:
        return (
            "The bound is proved if the honest updates spread no more than the rule found; the true error is not known "
            f"in a deployment. {_anyway_text(history)}{_sketch_text(history)}Logarithmic scale."
        )
    proved = _excess_text(history, "honest_error_bound", broken_rounds(history))
    return (
        "With the true spread of the honest updates (known in some rounds of a simulation) the bound is proved"
        f"{proved}; with the spread that the rule found by itself it may fail"
        f"{_excess_text(history, 'certificate.error_bound')}. {_unbounded_text(history)}{_anyway_text(history)}"
        f"{_sketch_text(history)}Mere rounding is not drawn. Logarithmic scale."
    )


def _excess_text(history: RunHistory, name: str, besides: Places | None = None) -> str:
    """Say how often the error was above a bound by more than rounding, besides rounds that the bound is not about."""
    bound = history[name]
    known = np.isfinite(bound) & np.isfinite(history["error"])
    if besides is not None:
        known[besides] = False
    if not known.any():
        return ""
    above = int((real_errors(history)[known] > bound[known]).sum())
    return f" (the error was above it in {above} of {plural(int(known.sum()), 'round')})"


def _anyway_text(history: RunHistory) -> str:
    """Say what the bound that assumes nothing of the spread is, and how often the error was above it."""
    if not np.isfinite(history[_ANYWAY]).any():
        return ""
    above = _excess_text(history, _ANYWAY, broken_rounds(history))
    return (
        f"Whatever the honest spread is, the dashed bound holds if no more clients are Byzantine than assumed{above}. "
    )


def _sketch_text(history: RunHistory) -> str:
    """Say in how many rounds the updates were seen through a sketch, and what that does to the bound."""
    failure = history["certificate.failure_probability"]
    checked, estimated = failure[(failure > 0.0) & (failure < 1.0)], int((failure == 1.0).sum())
    said = ""
    if len(checked):
        rounds, share = plural(len(checked), "round"), percent(float(checked.max()))
        said += f"In {rounds} the updates were seen through a sketch: there a bound may fail with probability {share}. "
    if estimated:
        said += f"In {plural(estimated, 'round')} the bound is an estimate from a sketch. "
    return said


def _unbounded_text(history: RunHistory) -> str:
    """Say in how many rounds there is no bound, and why."""
    missing = np.isnan(history["certificate.error_bound"])
    void = (history["skipped"] > 0) | (history["assumption_violated"] > 0)
    contradicted, without = int((missing & ~void).sum()), int((missing & void).sum())
    said = ""
    if contradicted:
        said += f"In {plural(contradicted, 'round')} that spread contradicts the updates, so nothing follows from it. "
    if without:
        said += f"There is no bound in {plural(without, 'round')} that changed nothing or violated the assumption. "
    return said


def _errors(histories: Sequence[RunHistory], limits: PanelLimits) -> Lines:
    """Return the true errors of all runs."""
    curves = (
        group_curve(group.name, group, _error_points, limits, colour=place)
        for place, group in enumerate(seed_groups(histories))
    )
    return Lines(
        key="errors",
        title="True error of the updates",
        caption="Only simulations know it; lower is better, as long as models are alike: an error is one at its run's "
        "own model, and where that has collapsed, updates and their errors are small. Mere rounding is not drawn. "
        "Logarithmic scale.",
        series=tuple(chain.from_iterable(curves)),
        y_title="distance to the honest mean",
        log_y=True,
        marks=attack_marks(histories),
        note=seeds_note(histories),
    )


def _error_points(history: RunHistory) -> Points:
    rounds = np.arange(history.rounds_played, dtype=np.int64)
    return rounds, rounds, real_errors(history)
