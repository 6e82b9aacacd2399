"""One round: what became of every client's reply, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steadfed._core.wording import harmless, percent, plural
from steadfed.reports.panels import Column, Table, Unit, Value
from steadfed.server._history import Event, Fate, Tally, events_of, fates_of, meaning_of
from steadfed.server._record import Client, RoundRecord

_LONGEST = 300
"""Letters of a reason."""
_LONGEST_CAPTION = 600


def round_table(record: RoundRecord, *, steps: int | None = None, rule: Any = None) -> Table:
    """Return what happened to every client of one round, and to those who replied unasked.

    Args:
        record: the round.
        steps: how many local steps each client took, if that is worth saying.
        rule: the rule as config.toml has it, by which scores are told with their unit.
    """
    meaning = meaning_of(rule)
    fates, weights, scores = fates_of(record), record.by_client(record.weights), record.by_client(record.scores)
    happened: dict[Client | None, list[Event]] = {}
    for event in events_of([record], rule):
        happened.setdefault(event.client, []).append(event)
    rows: list[tuple[Value, ...]] = []
    for client in dict.fromkeys([*record.cohort, *(client for client in happened if client is not None)]):
        told = happened.get(client, [])
        share = weights.get(client)
        rows.append(
            (
                str(client),
                None if share is None else share * len(record.received),
                None if (score := scores.get(client)) is None else meaning.value(score),
                _word(fates.get(client, Fate.UNASKED), record),
                harmless("; ".join(dict.fromkeys(event.why for event in told)), limit=_LONGEST),
            )
        )
    said = [event.why for event in happened.get(None, [])] or ([record.reason] if record.reason else [])
    said += _filter_words(record)
    return Table(
        key="round",
        title=f"Round {record.round}{'' if steps is None else f', H = {steps}'}{_outcome(record)}",
        caption=harmless("; ".join(said), limit=_LONGEST_CAPTION),
        columns=(
            Column(title="client", name=True),
            Column(title="weight", unit=Unit.NUMBER, hint="1 is an equal share"),
            Column(title="score", unit=Unit.NUMBER, hint=meaning.quantity),
            Column(title="what"),
            Column(title="why"),
        ),
        rows=tuple(rows),
    )


def _filter_words(record: RoundRecord) -> Iterator[str]:
    """Yield what a rule that stops by displacement measured: its anchor, how far others pull, whether f fits."""
    anchor, guard = record.anchor or {}, record.guard or {}
    if (spread := anchor.get("spread")) is not None:
        removed = anchor.get("weight_removed")
        after = "" if removed is None else f" after a weight of {removed:.3g} was taken"
        yield f"safest updates: variance λ_a = {spread:.3g} in any direction{after}"
    if (shift := anchor.get("displacement")) is not None:
        few = anchor.get("attributable")
        part = "" if few is None else f", {few:.4g} of it by f updates"
        share = anchor.get("share")
        cut = f"; cut to {percent(share)}" if share is not None and share < 1.0 else ""
        yield f"the plain mean lies t = {shift:.4g} √(λ_a f/n) from theirs{part}{cut}"
    if (reason := guard.get("reason")) and not guard.get("alarmed"):
        yield f"guard: {reason}"


def _word(fate: Fate, record: RoundRecord) -> str:
    """Return what became of a client; of a rule that does not say whose updates it used, nobody knows."""
    return "not judged" if fate is Fate.KEPT and not record.attributed else fate.word


def _outcome(record: RoundRecord) -> str:
    tally = Tally.of(record)
    if tally.skipped:
        return ": skipped, the model is left as it was"
    if not record.attributed:
        return ": aggregated, the rule does not say from whose updates"
    kept = f": {tally.kept} of {plural(tally.judged, 'update')} kept"
    return f"{kept}; assumption violated" if tally.assumption_violated else kept
