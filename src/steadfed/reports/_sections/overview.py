"""A run at one glance: how far it is, what it was given, what came of it, where its time went."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from steadfed._core.wording import duration, harmless, number, percent, plural
from steadfed.reports._sections.metrics import hidden_by_accuracy, last_values, title_of, value_text
from steadfed.reports._sections.phrases import sent_words, setting_words, steps_words
from steadfed.reports._sections.served import figures_text
from steadfed.reports.panels import Table, facts_table
from steadfed.server._history import RunHistory, RunState

_LONGEST = 40
"""Letters of a name that comes from a client."""


def overview(history: RunHistory) -> Table:
    """Return what came of a run, as a table of facts."""
    facts = [*_state(history), *_setting(history)]
    if history.rounds_played:
        facts += [*_results(history), *_verdicts(history), *_time(history.summary["seconds"])]
    return facts_table("overview", str(history.path), facts)


def _state(history: RunHistory) -> Iterator[tuple[str, str]]:
    played, planned = history.rounds_played, history.rounds_planned or 0
    rounds = f"{played:,} of {plural(planned, 'round')}"
    if history.state is RunState.COMPLETE:
        yield "state", f"complete, {plural(played, 'round')}"
    elif history.state is RunState.RUNNING:
        yield "state", f"{history.state}, {rounds} so far"
    else:
        began = f"{history.state} after {rounds}" if played else str(history.state)
        command = f"steadfed resume {shlex.quote(str(history.path))}"
        how = "start its server app again with this folder" if history.deployed else f"continue with: {command}"
        yield "state", f"{began}; {how}"
    if reasons := history.outcome.reasons:
        so_far = "" if history.state is RunState.COMPLETE else " so far"
        yield "outcome", f"no success{so_far}: {'; '.join(reasons)}"


def _setting(history: RunHistory) -> Iterator[tuple[str, str]]:
    raw = history.raw
    yield "data", setting_words(history, "data")
    yield "clients", setting_words(history, "partition")
    yield "model", setting_words(history, "model")
    told = f"K = {raw.get('cohort_size')}, H = {steps_words(history)}"
    yield "rounds", f"{told}, batch {raw.get('batch_size')}, lr {raw.get('lr')}, seed {raw.get('seed')}"
    if sent := sent_words(history):
        yield "sent", f"only {sent}"
    yield "rule", setting_words(history, "rule")
    if (rounds := history.rounds).site_shares and rounds.byzantine_weight is not None:
        from steadfed.server._promise import Promise

        yield "weights", Promise(rounds.site_shares, rounds.byzantine_weight).sentence
    if not history.deployed:
        yield "adversary", f"{setting_words(history, 'attack')} by {setting_words(history, 'byzantine')}"


def _results(history: RunHistory) -> Iterator[tuple[str, str]]:
    summary: Mapping[str, Any] = history.summary
    last, best = summary["last"], summary["best"]
    metrics = sorted(history.rounds.metrics.items())
    if metrics:
        yield "metrics", ", ".join(f"{harmless(name, limit=_LONGEST)} {number(value)}" for name, value in metrics)
    if history.deployed and not last:
        return
    yield "training", f"loss {number(last.get('train_loss'))}, accuracy {percent(last.get('train_accuracy'))}"
    if last.get("test_loss") is not None:
        known = best["test_accuracy"] is not None
        peak = f" (best {percent(best['test_accuracy'])} in round {best['round']})" if known else ""
        yield "test", f"loss {number(last['test_loss'])}, accuracy {percent(last.get('test_accuracy'))}{peak}"
    if asked := last_values(history):
        yield "metrics on test", ", ".join(f"{title_of(name)} {value_text(name, asked[name])}" for name in asked)
    if (hidden := hidden_by_accuracy(history)) is not None:
        yield "look", hidden
    if history.rounds.client_scores is not None:
        yield "single clients", figures_text(history.rounds.client_scores)


def _verdicts(history: RunHistory) -> Iterator[tuple[str, str]]:
    tally, rounds = history.tally, history.rounds
    if rounds.unattributed:
        yield "judged", "nobody: the rule does not say whose updates its result rests on"
    if tally.byzantine:
        kept = percent(tally.byzantine_kept_rate)
        weight = f"they made up {percent(tally.byzantine_weight)} of the updates' weight"
        yield "Byzantine", f"{tally.byzantine_kept:,} of {tally.byzantine:,} updates kept ({kept}); {weight}"
    if tally.judged and history.deployed:
        yield "updates", f"{tally.removed:,} of {tally.judged:,} removed ({percent(tally.removed_rate)})"
    elif tally.honest:
        lost = percent(tally.honest_removed_rate)
        yield "honest", f"{tally.honest_removed:,} of {tally.honest:,} updates removed ({lost})"
    if tally.skipped:
        yield "skipped", f"{plural(tally.skipped, 'round')}: {rounds.skips_text}"
    if tally.assumption_violated:
        yield "assumption violated", f"in {plural(tally.assumption_violated, 'round')}"
    if rounds.faults:
        yield "faults", f"{faults_text(rounds.fault_counts)}; see `steadfed audit`"
    if tally.absent:
        yield "absent", plural(tally.absent, "time")


def _time(seconds: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    total = sum(seconds.values())
    parts = sorted(seconds.items(), key=lambda part: -part[1])
    listed = ", ".join(f"{name.replace('_', ' ')} {percent(part / (total or 1.0))}" for name, part in parts)
    yield "time", f"{duration(total)}: {listed}"


def faults_text(faults: Mapping[str, int]) -> str:
    """Return faults with how often they occurred, the most frequent first.

    >>> faults_text({"shape": 1, "silent": 3})
    'silent 3×, shape'
    """
    ordered = sorted(faults.items(), key=lambda item: (-item[1], item[0]))
    times = ((harmless(fault, limit=_LONGEST), f" {count}×" if count > 1 else "") for fault, count in ordered)
    return ", ".join(f"{fault}{often}" for fault, often in times)
