"""Where the time went."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steadfed.reports._sections.phrases import floats, run_names
from steadfed.reports._thinning import REPORT, Bins, PanelLimits
from steadfed.reports.panels import Bars, Panel, Section, Text, Unit
from steadfed.server._history import RunHistory


def timing(histories: Sequence[RunHistory], limits: PanelLimits = REPORT) -> Section:
    """Return the seconds of each part of the rounds: of whole runs, and over the rounds of a single one."""
    panel: Panel = Text(key="no-times", title="Nothing was timed", paragraphs=("The records hold no times.",))
    timed = [history for history in histories if history.rounds.names_below("seconds")]
    if timed:
        panel = _totals(histories) if len(timed) > 1 else _over_rounds(timed[0], limits)
    return Section(key="timing", title="Where did the time go?", panels=(panel,))


def _over_rounds(history: RunHistory, limits: PanelLimits) -> Bars:
    bins = Bins.of(history.rounds_played, limits.bars)
    where = np.arange(history.rounds_played) // bins.width
    counts = np.bincount(where, minlength=bins.number)
    parts = {
        name.replace("_", " "): floats(
            np.bincount(where, np.nan_to_num(history[f"seconds.{name}"]), minlength=bins.number) / counts
        )
        for name in history.rounds.names_below("seconds")
    }
    return Bars(
        key="seconds",
        title="Seconds of a round",
        caption="" if bins.width == 1 else f"Each bar is the mean of {bins.width} rounds.",
        categories=bins.labels(),
        parts=parts,
        x_title="round" if bins.width == 1 else "rounds",
        y_title="seconds",
        unit=Unit.SECONDS,
    )


def _totals(histories: Sequence[RunHistory]) -> Bars:
    names = list(dict.fromkeys(name for history in histories for name in history.rounds.names_below("seconds")))
    return Bars(
        key="seconds",
        title="Seconds of each run",
        caption="All rounds together. Runs that ran side by side slowed each other down.",
        categories=tuple(run_names(histories)),
        parts={
            name.replace("_", " "): tuple(history.summary["seconds"].get(name, 0.0) for history in histories)
            for name in names
        },
        x_title="run",
        y_title="seconds",
        unit=Unit.SECONDS,
    )
