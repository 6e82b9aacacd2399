"""The answer first: did it learn, who attacked, who was removed, and how many of those were honest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from steadfed._core.wording import number, percent, plural
from steadfed.metrics import ATTACK_SUCCESS, column_of
from steadfed.reports._sections.certificate import real_errors
from steadfed.reports._sections.metrics import hidden_by_accuracy, metric_headlines
from steadfed.reports._sections.phrases import run_names, sent_words, setting_words, short_words
from steadfed.reports._sections.seeds import RunGroup, seed_groups
from steadfed.reports._settings import attack_start, problems_of
from steadfed.reports.panels import Column, Headline, Panel, Section, Table, Text, Tone, Unit, Value
from steadfed.server._history import RunHistory, RunState, Tally
from steadfed.server._history.silence import listed

_FORGOT = 0.05
"""An accuracy this much below its best was lost again."""
_LEARNED = 0.1
"""What an accuracy must have gained since the first evaluation to speak of learning."""
_MANY = 0.1
"""A share of honest updates removed from which a warning is due."""
_MOST_PROBLEMS = 8
_MOST_LINES = 8
"""Runs of a table with many that are shown at first."""
_MOST_NAMED = 5
"""Clients that a sentence names."""


def verdict(histories: Sequence[RunHistory]) -> Section:
    """Return the answers: of one run in words, of several in a table."""
    panels: list[Panel] = [*_problems(histories)]
    panels += [side_by_side(histories)] if len(histories) > 1 else [_words(histories[0], "verdict-1", "In words")]
    return Section(key="verdict", title="In short", panels=tuple(panels))


def run_by_run(histories: Sequence[RunHistory]) -> Section:
    """Return the answers of several runs in words."""
    named = enumerate(zip(histories, run_names(histories), strict=True), 1)
    panels = [_words(history, f"verdict-{place}", run) for place, (history, run) in named]
    folded = [replace(panel, fold=f"{plural(len(panels) - 1, 'other run')}, in words") for panel in panels[1:]]
    return Section(key="run-by-run", title="Run by run", panels=(*panels[:1], *folded))


def _words(history: RunHistory, key: str, title: str) -> Text:
    tally = history.tally
    return Text(key=key, title=title, paragraphs=tuple(sentences(history, tally)), tone=_tone(history, tally))


def headlines(histories: Sequence[RunHistory]) -> tuple[Headline, ...]:
    """Return the numbers to see first."""
    if len(histories) == 1:
        return tuple(_of_one(histories[0]))
    return tuple(
        _result(group.histories[0], group.name) if len(group.histories) == 1 else _group_result(group)
        for group in seed_groups(histories)
    )


def sentences(history: RunHistory, tally: Tally) -> Iterator[str]:
    """Yield what there is to say of a run, in the order in which people ask."""
    yield _progress(history)
    if sent := sent_words(history):
        yield f"Of the updates only some is sent: {sent}."
    if not history.rounds_played:
        return
    yield from (f"It is no success: {reason}." for reason in history.outcome.reasons)
    yield _learning(history)
    if (hidden := hidden_by_accuracy(history)) is not None:
        yield hidden
    yield _attackers(history)
    yield from _success(history)
    yield from _removals(history, tally)
    if tally.skipped:
        yield f"{plural(tally.skipped, 'round')} left the model as it was: {history.rounds.skips_text}."
    if raised := raised_bounds(history):
        yield (
            f"In {plural(raised, 'round')} the updates looked as if more of them were Byzantine than assumed; the rule "
            "took as many more for Byzantine there, and so does what it proves."
        )
    if contradicted := tally.assumption_violated - raised:
        yield (
            f"In {plural(contradicted, 'round')} the updates contradicted the assumptions of the rule: "
            "what it proves does not count there."
        )
    if tally.absent:
        yield f"Clients were absent {plural(tally.absent, 'time')}: asked, they sent nothing."
    faulty = tally.malformed + tally.unusable
    if faulty:
        some = plural(faulty, "reply", "replies")
        yield f"{some} {'was' if faulty == 1 else 'were'} malformed or held unusable numbers."


def _progress(history: RunHistory) -> str:
    planned = "an unknown number of" if history.rounds_planned is None else f"{history.rounds_planned:,}"
    kind = "deployment" if history.deployed else "simulation"
    if history.state is RunState.COMPLETE:
        return f"A {kind} of {plural(history.rounds_played, 'round')}, complete."
    if not history.rounds_played:
        return f"A {kind} of {planned} rounds: none of them can be shown yet ({history.state})."
    return f"A {kind}: {history.rounds_played:,} of {planned} rounds, {history.state}."


def _learning(history: RunHistory) -> str:
    tested = history.rounds.last_and_best("test_accuracy") is not None
    which, name = ("test", "test_accuracy") if tested else ("training", "train_accuracy")
    found = history.rounds.last_and_best(name)
    if found is None:
        return _by_loss(history)
    last, best, when = found
    first = float(history[name][np.isfinite(history[name])][0])
    what, fact = f"{which} accuracy", f"{percent(best)} in round {when} and is {percent(last)} {_so_far(history)}"
    if best - last > _FORGOT:
        learned = best - first > _LEARNED
        return f"It learned and lost it again: {what} was {fact}." if learned else f"It got worse: {what} was {fact}."
    went = f"{what} went from {percent(first)} after the first evaluation to {percent(last)}"
    return f"It learned: {went}." if last - first > _LEARNED else f"It changed little: {went}."


def _so_far(history: RunHistory) -> str:
    return "so far" if history.rounds_played < (history.rounds_planned or 0) else "in the end"


def _by_loss(history: RunHistory) -> str:
    for name, words in (("test_loss", "test loss"), ("train_loss", "training loss")):
        column = history[name]
        known = column[np.isfinite(column)]
        if len(known):
            way = "fell" if known[-1] < known[0] else "did not fall"
            broken = "" if np.isfinite(column[_last_look(history)]) else "; later it was not finite"
            return f"The {words} {way}: from {number(known[0])} to {number(known[-1])}{broken}."
    return "Whether it learned is not known: no evaluation gave a finite number."


def _last_look(history: RunHistory) -> int:
    """Return the last round after which the model is looked at: a loss that is unknown there was not finite."""
    evaluation, played = history.raw.get("evaluation"), history.rounds_played
    every = evaluation.get("every", 1) if isinstance(evaluation, Mapping) else 1
    if not isinstance(every, int) or every < 1 or played == history.rounds_planned:
        return played - 1
    return max(played - played % every, 1) - 1


def _attackers(history: RunHistory) -> str:
    if history.deployed:
        return "Who was Byzantine is not known: this was a deployment, and only the rule's suspicion can be shown."
    if not history.byzantine:
        return "Nobody attacked."
    seen = len({*history.entries.client.tolist()})
    start = attack_start(history)
    changing = any(0 < line.byzantine < line.asked for line in history.clients)
    number, some = len(history.byzantine), " in some rounds" if changing else ""
    who = f"{number} of the {seen} clients that took part were Byzantine{some}"
    if start is None:
        return f"{who}, but did nothing that differs from honest clients so far ({setting_words(history, 'attack')})."
    when = "" if not start else f" from round {start} on"
    return f"{who}; they attacked{when} with {setting_words(history, 'attack')}."


def _success(history: RunHistory) -> Iterator[str]:
    """Say how far an adversary with a goal of its own came."""
    column = column_of(ATTACK_SUCCESS)
    found = history.rounds.last_and_best(column) if column in history.columns else None
    if found is None:
        return
    last, most, when = found
    told = f"Of the points that the adversary wants misjudged {percent(last)} go to its target {_so_far(history)}"
    yield f"{told} (most, {percent(most)}, in round {when})." if most > last else f"{told}."


def _removals(history: RunHistory, tally: Tally) -> Iterator[str]:
    rule = setting_words(history, "rule")
    if unsaid := history.rounds.unattributed:
        where = "" if unsaid == history.rounds_played else f" in {plural(unsaid, 'round')}"
        yield f"The rule {rule} does not say whose updates its result rests on{where}, so whom it removed is not known."
    if not tally.judged:
        yield from [] if unsaid else ["No update was judged."]
        yield from _suspects(history) if history.deployed else ()
        return
    if tally.byzantine is None:
        share = tally.removed_rate or 0.0
        yield f"The rule {rule} removed {tally.removed:,} of {tally.judged:,} updates ({percent(share)})."
        yield from _suspects(history)
        return
    if tally.recall is not None:
        caught = f"{tally.byzantine_removed:,} of {tally.byzantine:,} Byzantine updates"
        made_up = tally.byzantine_weight
        weight = "" if made_up is None else f"; Byzantine clients made up {percent(made_up)} of the weight"
        yield f"The rule {rule} removed {caught} ({percent(tally.recall)}){weight}."
    elif history.byzantine:
        yield "No Byzantine update arrived."
    yield _false_positives(tally)


def _suspects(history: RunHistory) -> Iterator[str]:
    """Yield what there is to say of whom, the worst first."""
    conducts = history.conduct
    for conduct in conducts[:_MOST_NAMED]:
        yield f"{conduct.name[:1].upper()}{conduct.name[1:]}: {conduct.words(history.score_meaning)}."
    if conducts:
        more = len(conducts) - _MOST_NAMED
        others = f"Something can be said of {plural(more, 'other')}, too: " if more > 0 else ""
        yield f"{others}“steadfed audit” says what happened to whom, round by round."


def _false_positives(tally: Tally) -> str:
    """Say what the rule took from honest clients: whole updates, or weight."""
    reduced = percent((tally.honest_reduced or 0) / (tally.honest or 1))
    less = f"{reduced} of them counted less than half of an equal share"
    if tally.honest_removed_rate:
        share, counted = percent(tally.honest_removed_rate), f"{tally.honest_removed:,} of {tally.honest:,}"
        more = f"; {less}" if tally.honest_reduced else ""
        return f"False positives: {share} of the honest updates were removed ({counted}){more}."
    if tally.honest_reduced:
        return f"No honest update was removed, but {less}."
    return f"No false positives: all {tally.honest:,} honest updates were kept."


def raised_bounds(history: RunHistory) -> int:
    """Return in how many rounds a guard found more Byzantine updates than assumed, and how many they are."""
    return int(((history["guard.alarmed"] > 0) & np.isfinite(history["guard.needed"])).sum())


def _tone(history: RunHistory, tally: Tally) -> Tone:
    found = history.rounds.last_and_best("test_accuracy")
    lost = found is not None and found[1] - found[0] > _FORGOT
    if not history.outcome.success or hidden_by_accuracy(history) is not None:
        return Tone.WARNING
    if history.state is RunState.DAMAGED or lost or tally.assumption_violated > raised_bounds(history) or tally.skipped:
        return Tone.WARNING
    if found is None or history.state is not RunState.COMPLETE:
        return Tone.PLAIN
    return Tone.PLAIN if (tally.honest_removed_rate or 0.0) > _MANY else Tone.GOOD


def _of_one(history: RunHistory) -> Iterator[Headline]:
    tally, outcome = history.tally, history.outcome
    if not outcome.success:
        missing = listed(list(outcome.culprits), most=_MOST_NAMED)
        why = "every round was skipped" if outcome.skipped == outcome.rounds else "too many were silent"
        note = f"{why}; missing: {missing}" if outcome.culprits else why
        yield Headline(title="Outcome", value="no success", note=note, tone=Tone.WARNING)
    yield _result(history, f"Test accuracy {_so_far(history)}")
    yield from metric_headlines(history)
    yield Headline(
        title="Rounds",
        value=f"{history.rounds_played:,}",
        note=f"of {history.rounds_planned:,}, {history.state}" if history.rounds_planned else str(history.state),
        tone=Tone.WARNING if history.state is RunState.DAMAGED else Tone.PLAIN,
    )
    if tally.byzantine is None and (share := tally.removed_rate) is not None:
        note = f"{tally.removed:,} of {tally.judged:,}; who was Byzantine is not known"
        yield Headline(title="Updates removed", value=percent(share), note=note)
    if (share := tally.byzantine_kept_rate) is not None:
        note = f"{tally.byzantine_kept:,} of {tally.byzantine:,}"
        tone = Tone.WARNING if share > 0.5 and attack_start(history) is not None else Tone.PLAIN
        yield Headline(title="Byzantine updates kept", value=percent(share), note=note, tone=tone)
    if (share := tally.honest_removed_rate) is not None:
        note = f"{tally.honest_removed:,} of {tally.honest:,}"
        tone = Tone.WARNING if share > _MANY else Tone.GOOD if not share else Tone.PLAIN
        yield Headline(title="Honest updates removed", value=percent(share), note=note, tone=tone)
    yield from _worst(history)


def _worst(history: RunHistory) -> Iterator[Headline]:
    """Yield the round whose update was farthest from the honest mean."""
    error = real_errors(history)
    known = np.flatnonzero(np.isfinite(error))
    if len(known):
        worst = int(known[np.argmax(error[known])])
        note = f"its update was {number(error[worst])} away from the honest mean"
        yield Headline(title="Worst round", value=f"{worst}", note=note)


def _result(history: RunHistory, title: str) -> Headline:
    found = history.rounds.last_and_best("test_accuracy")
    if found is not None:
        last, best, when = found
        lost = best - last > _FORGOT
        note = f"best {percent(best)} in round {when}"
        fine = Tone.GOOD if hidden_by_accuracy(history) is None else Tone.PLAIN
        return Headline(title=title, value=percent(last), note=note, tone=Tone.WARNING if lost else fine)
    loss = _last_loss(history)
    if loss is not None:
        return Headline(title=title.replace("Test accuracy", "Loss"), value=number(loss), note="loss")
    return Headline(
        title=title, value="–", note="no finite result", tone=Tone.WARNING if history.rounds_played else Tone.PLAIN
    )


def _group_result(group: RunGroup) -> Headline:
    """Return what runs reached that differ in their seeds alone."""
    found = [history.rounds.last_and_best("test_accuracy") for history in group.histories]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return _result(group.histories[0], group.name)
    last = [each[0] for each in known]
    lost = any(best - end > _FORGOT for end, best, _ in known)
    note = f"from {percent(min(last))} to {percent(max(last))}"
    tone = Tone.WARNING if lost else Tone.GOOD
    return Headline(title=group.name, value=percent(sum(last) / len(last)), note=note, tone=tone)


def _last_loss(history: RunHistory) -> float | None:
    """Return the loss on test points, or else training points, when it was last known."""
    found = history.rounds.last_and_best("test_loss") or history.rounds.last_and_best("train_loss")
    return None if found is None else found[0]


def _problems(histories: Sequence[RunHistory]) -> Iterator[Panel]:
    said = [problem for history in histories for problem in problems_of(history)]
    if said:
        more = [f"… and {len(said) - _MOST_PROBLEMS} more."] if len(said) > _MOST_PROBLEMS else []
        paragraphs = (*said[:_MOST_PROBLEMS], *more)
        yield Text(key="problems", title="What cannot be read", paragraphs=paragraphs, tone=Tone.WARNING)


def side_by_side(histories: Sequence[RunHistory]) -> Table:
    """Return a line for every run."""
    rules, attacks = (short_words(histories, key) for key in ("rule", "attack"))
    return Table(
        key="runs",
        title="The runs side by side",
        columns=(
            Column(title="run"),
            Column(title="rule"),
            Column(title="attack", hint="unknown in a deployment"),
            Column(title="state", minor=True),
            Column(title="rounds", unit=Unit.NUMBER, hint="that were run"),
            Column(title="planned", unit=Unit.NUMBER, hint="rounds of the configuration", minor=True),
            Column(title="loss", unit=Unit.NUMBER, hint="on test points, or training points, when last evaluated"),
            Column(title="test accuracy", unit=Unit.PERCENT, hint="when last evaluated"),
            Column(title="best", unit=Unit.PERCENT, hint="test accuracy of any round", minor=True),
            Column(title="Byzantine kept", unit=Unit.PERCENT, hint="share of the Byzantine updates that got weight"),
            Column(title="honest removed", unit=Unit.PERCENT, hint="share of the honest updates that got none"),
        ),
        rows=tuple(map(_line, histories, run_names(histories), rules, attacks)),
        shown=_MOST_LINES if len(histories) > 2 * _MOST_LINES else 0,
    )


def _line(history: RunHistory, name: str, rule: str, attack: str) -> tuple[Value, ...]:
    tally, accuracy = history.tally, history.rounds.last_and_best("test_accuracy")
    return (
        name,
        rule,
        None if history.deployed else attack,
        str(history.state),
        history.rounds_played,
        history.rounds_planned,
        _last_loss(history),
        None if accuracy is None else accuracy[0],
        None if accuracy is None else accuracy[1],
        tally.byzantine_kept_rate,
        tally.honest_removed_rate,
    )
