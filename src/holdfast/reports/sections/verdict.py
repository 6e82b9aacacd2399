"""The answer first: did it learn, who attacked, who was removed, was any honest client wronged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from holdfast.reports.glances import State
from holdfast.reports.panels import Column, Headline, Panel, Section, Table, Text, Tone, Unit, Value
from holdfast.reports.sections.phrases import number, percent, run_names, setting_words
from holdfast.reports.stories import Story
from holdfast.reports.tallies import Tally, last_and_best, real_errors, tally_of
from holdfast.reports.wording import plural

_FORGOT = 0.05
"""An accuracy this much below its best was lost again."""
_LEARNED = 0.1
"""What an accuracy must have gained since the first evaluation to speak of learning."""
_MANY = 0.1
"""A share of honest updates removed from which a warning is due."""
_MOST_PROBLEMS = 8


def verdict(stories: Sequence[Story]) -> Section:
    """Return the answers: of one run in words, of several in a table."""
    panels: list[Panel] = [*_problems(stories)]
    panels += [_side_by_side(stories)] if len(stories) > 1 else [_words(stories[0], "verdict-1", "In words")]
    return Section(key="verdict", title="In short", panels=tuple(panels))


def run_by_run(stories: Sequence[Story]) -> Section:
    """Return the answers of several runs in words."""
    named = enumerate(zip(stories, run_names(stories), strict=True), 1)
    panels = tuple(_words(story, f"verdict-{place}", run) for place, (story, run) in named)
    return Section(key="run-by-run", title="Run by run", panels=panels)


def _words(story: Story, key: str, title: str) -> Text:
    tally = tally_of(story)
    return Text(key=key, title=title, paragraphs=tuple(sentences(story, tally)), tone=_tone(story, tally))


def headlines(stories: Sequence[Story]) -> tuple[Headline, ...]:
    """Return the numbers to see first."""
    if len(stories) == 1:
        return tuple(_of_one(stories[0]))
    return tuple(_result(story, name) for story, name in zip(stories, run_names(stories), strict=True))


def sentences(story: Story, tally: Tally) -> Iterator[str]:
    """Yield what there is to say of a run, in the order in which people ask."""
    yield _progress(story)
    if not story.rounds_played:
        return
    yield _learning(story)
    yield _attackers(story)
    yield from _removals(story, tally)
    if tally.skipped:
        yield f"{plural(tally.skipped, 'round')} left the model as it was, because updates could not be aggregated."
    if tally.promise_broken:
        yield (
            f"In {plural(tally.promise_broken, 'round')} the updates contradicted what the rule had been told of the "
            "clients: what it proves does not count there."
        )
    if tally.absent:
        yield f"{plural(tally.absent, 'reply', 'replies')} never came."
    if tally.malformed:
        some = plural(tally.malformed, "reply", "replies")
        yield f"{some} {'was' if tally.malformed == 1 else 'were'} malformed or held unusable numbers."


def _progress(story: Story) -> str:
    planned = "an unknown number of" if story.rounds_planned is None else f"{story.rounds_planned:,}"
    kind = "deployment" if story.deployed else "simulation"
    if story.state is State.COMPLETE:
        return f"A {kind} of {plural(story.rounds_played, 'round')}, complete."
    if not story.rounds_played:
        return f"A {kind} of {planned} rounds: none of them can be shown yet ({story.state})."
    return f"A {kind}: {story.rounds_played:,} of {planned} rounds, {story.state}."


def _learning(story: Story) -> str:
    found = last_and_best(story, "test_accuracy") or last_and_best(story, "train_accuracy")
    if found is None:
        return _by_loss(story)
    last, best, when = found
    column = story.column("test_accuracy")
    which = "test" if np.isfinite(column).any() else "training"
    column = column if which == "test" else story.column("train_accuracy")
    first = float(column[np.flatnonzero(np.isfinite(column))[0]])
    what, fact = f"{which} accuracy", f"{percent(best)} in round {when} and is {percent(last)} in the end"
    if best - last > _FORGOT:
        learned = best - first > _LEARNED
        return f"It learned and lost it again: {what} was {fact}." if learned else f"It got worse: {what} was {fact}."
    went = f"{what} went from {percent(first)} after the first evaluation to {percent(last)}"
    return f"It learned: {went}." if last - first > _LEARNED else f"It changed little: {went}."


def _by_loss(story: Story) -> str:
    for name, words in (("test_loss", "test loss"), ("train_loss", "training loss")):
        column = story.column(name)
        known = column[np.isfinite(column)]
        if len(known):
            way = "fell" if known[-1] < known[0] else "did not fall"
            broken = "" if np.isfinite(column[_last_look(story)]) else "; later it was not finite"
            return f"The {words} {way}: from {number(known[0])} to {number(known[-1])}{broken}."
    return "Whether it learned is not known: no evaluation gave a finite number."


def _last_look(story: Story) -> int:
    """Return the last round after which the model is looked at: a loss that is unknown there was not finite."""
    evaluation, played = story.raw.get("evaluation"), story.rounds_played
    every = evaluation.get("every", 1) if isinstance(evaluation, Mapping) else 1
    if not isinstance(every, int) or every < 1 or played == story.rounds_planned:
        return played - 1
    return max(played - played % every, 1) - 1


def _attackers(story: Story) -> str:
    if story.deployed:
        return "Who lied is not known: this was a deployment, and only the rule's suspicion can be shown."
    liars = len(story.byzantine)
    if not liars:
        return "Nobody attacked."
    seen = len({*story.entries.client.tolist()})
    start = story.attack_start
    changing = any(0 < line.byzantine < line.sampled for line in story.client_lines)
    who = f"{liars} of the {seen} clients that took part were Byzantine{' in some rounds' if changing else ''}"
    if start is None:
        return f"{who}, but did nothing that differs from honest clients so far ({setting_words(story, 'attack')})."
    when = "" if not start else f" from round {start} on"
    return f"{who}; they attacked{when} with {setting_words(story, 'attack')}."


def _removals(story: Story, tally: Tally) -> Iterator[str]:
    rule = setting_words(story, "rule")
    if not tally.rows:
        yield "No update was judged."
        return
    if tally.byzantine is None:
        share = percent(tally.removed / tally.rows)
        yield f"The rule {rule} removed {tally.removed:,} of {tally.rows:,} updates ({share})."
        return
    if tally.byzantine:
        caught = f"{tally.byzantine_removed:,} of {tally.byzantine:,} Byzantine updates"
        weight = (
            f"; Byzantine clients made up {percent(tally.byzantine_weight)} of the weight"
            if tally.byzantine_weight is not None
            else ""
        )
        yield f"The rule {rule} removed {caught} ({percent(tally.byzantine_removed / tally.byzantine)}){weight}."
    elif story.byzantine:
        yield "No Byzantine update arrived."
    yield _wronged(tally)


def _wronged(tally: Tally) -> str:
    """Say what the rule took from honest clients: whole updates, or weight."""
    less = f"{percent(tally.honest_reduced / max(1, tally.honest))} of them counted less than half of an equal share"
    if tally.honest_removed:
        share = percent(tally.honest_removed / tally.honest)
        more = f"; {less}" if tally.honest_reduced else ""
        return (
            f"Honest clients were wronged: {share} of their updates were removed ({tally.honest_removed:,} of "
            f"{tally.honest:,}){more}."
        )
    if tally.honest_reduced:
        return f"No honest update was removed, but {less}."
    return f"No honest client was wronged: all {tally.honest:,} honest updates were kept."


def _tone(story: Story, tally: Tally) -> Tone:
    found = last_and_best(story, "test_accuracy")
    lost = found is not None and found[1] - found[0] > _FORGOT
    if story.state is State.DAMAGED or lost or tally.promise_broken or tally.skipped:
        return Tone.WARNING
    if found is None or story.state is not State.COMPLETE:
        return Tone.PLAIN
    wronged = tally.byzantine is not None and tally.honest_removed > _MANY * max(1, tally.honest)
    return Tone.PLAIN if wronged else Tone.GOOD


def _of_one(story: Story) -> Iterator[Headline]:
    tally = tally_of(story)
    yield _result(story, "Test accuracy in the end")
    yield Headline(
        title="Rounds",
        value=f"{story.rounds_played:,}",
        note=f"of {story.rounds_planned:,}, {story.state}" if story.rounds_planned else str(story.state),
        tone=Tone.WARNING if story.state is State.DAMAGED else Tone.PLAIN,
    )
    if tally.byzantine is None and tally.rows:
        yield Headline(
            title="Updates removed",
            value=percent(tally.removed / tally.rows),
            note=f"{tally.removed:,} of {tally.rows:,}; who lied is not known",
        )
    if tally.byzantine:
        share = tally.byzantine_kept / tally.byzantine
        yield Headline(
            title="Byzantine updates kept",
            value=percent(share),
            note=f"{tally.byzantine_kept:,} of {tally.byzantine:,}",
            tone=Tone.WARNING if share > 0.5 and story.attack_start is not None else Tone.PLAIN,
        )
    if tally.byzantine is not None and tally.honest:
        share = tally.honest_removed / tally.honest
        yield Headline(
            title="Honest updates removed",
            value=percent(share),
            note=f"{tally.honest_removed:,} of {tally.honest:,}",
            tone=Tone.WARNING if share > _MANY else Tone.GOOD if not share else Tone.PLAIN,
        )
    yield from _worst(story)


def _worst(story: Story) -> Iterator[Headline]:
    """Yield the round whose update was farthest from the honest mean."""
    error = real_errors(story)
    known = np.flatnonzero(np.isfinite(error))
    if len(known):
        worst = int(known[np.argmax(error[known])])
        note = f"its update was {number(error[worst])} away from the honest mean"
        yield Headline(title="Worst round", value=f"{worst}", note=note)


def _result(story: Story, title: str) -> Headline:
    found = last_and_best(story, "test_accuracy")
    if found is not None:
        last, best, when = found
        lost = best - last > _FORGOT
        note = f"best {percent(best)} in round {when}"
        return Headline(title=title, value=percent(last), note=note, tone=Tone.WARNING if lost else Tone.GOOD)
    loss = story.column("test_loss")
    loss = loss if np.isfinite(loss).any() else story.column("train_loss")
    known = loss[np.isfinite(loss)]
    if len(known):
        return Headline(title=title.replace("Test accuracy", "Loss"), value=number(known[-1]), note="loss")
    return Headline(
        title=title, value="–", note="no finite result", tone=Tone.WARNING if story.rounds_played else Tone.PLAIN
    )


def _problems(stories: Sequence[Story]) -> Iterator[Panel]:
    said = [problem for story in stories for problem in story.problems]
    if said:
        more = [f"… and {len(said) - _MOST_PROBLEMS} more."] if len(said) > _MOST_PROBLEMS else []
        paragraphs = (*said[:_MOST_PROBLEMS], *more)
        yield Text(key="problems", title="What cannot be read", paragraphs=paragraphs, tone=Tone.WARNING)


def _side_by_side(stories: Sequence[Story]) -> Table:
    return Table(
        key="runs",
        title="The runs side by side",
        columns=(
            Column(title="run"),
            Column(title="rule"),
            Column(title="attack", hint="unknown in a deployment"),
            Column(title="state"),
            Column(title="rounds", unit=Unit.NUMBER),
            Column(title="test accuracy", unit=Unit.PERCENT, hint="after the last evaluation"),
            Column(title="best", unit=Unit.PERCENT),
            Column(title="Byzantine kept", unit=Unit.PERCENT, hint="share of the Byzantine updates that got weight"),
            Column(title="honest removed", unit=Unit.PERCENT, hint="share of the honest updates that got none"),
        ),
        rows=tuple(_line(story, name) for story, name in zip(stories, run_names(stories), strict=True)),
    )


def _line(story: Story, name: str) -> tuple[Value, ...]:
    tally, found = tally_of(story), last_and_best(story, "test_accuracy")
    return (
        name,
        setting_words(story, "rule"),
        None if story.deployed else setting_words(story, "attack"),
        str(story.state),
        story.rounds_played,
        None if found is None else found[0],
        None if found is None else found[1],
        tally.byzantine_kept / tally.byzantine if tally.byzantine else None,
        tally.honest_removed / tally.honest if tally.byzantine is not None and tally.honest else None,
    )
