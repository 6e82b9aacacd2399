"""What a history proves, for a person: what was found, what went out and came in, what nobody can prove."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from steadfed._core.wording import NOTHING, harmless
from steadfed.reports.panels import Column, Panel, Table, Text, Tone, facts_table, tabulate
from steadfed.server._history import Fate, fates_of
from steadfed.server._record import RoundRecord
from steadfed.server._verification import Proof, Verification

SHORT = 12
"""Letters of a hash in a table."""
ROUNDS = 20
"""Rounds that are shown, unless one is asked for."""
_NAMES = 60
"""Letters of the names of clients in one cell."""
_NOT_TRUSTED = frozenset({Fate.REMOVED, Fate.MALFORMED, Fate.UNUSABLE})


def verdict_panels(found: Verification) -> Iterator[Panel]:
    """Yield what was found out, part by part, and what it means."""
    yield tabulate(
        found.findings,
        {
            Column(title="part"): lambda finding: finding.what,
            Column(title="verdict"): lambda finding: finding.outcome.value,
            Column(title="what was found"): lambda finding: harmless(finding.words),
        },
        key="findings",
        title=harmless(f"The history in {found.path}"),
        flag=lambda finding: finding.outcome is Proof.BROKEN,
    )
    yield _verdict(found)


def _verdict(found: Verification) -> Text:
    broken = dict.fromkeys(finding.what for finding in found.findings if finding.outcome is Proof.BROKEN)
    if broken:
        said = f"Broken: {', '.join(broken)}. This is not what the run has written; what to do stands above."
        return Text(key="verdict", title="", paragraphs=(said,), tone=Tone.WARNING)
    if not found.signed:
        said = "Nothing contradicts this history. What is not proved is said above."
        return Text(key="verdict", title="", paragraphs=(said,))
    if not found.wholly_signed:
        said = "What is signed was not changed since: the server's key says so. What is not proved is said above."
        return Text(key="verdict", title="", paragraphs=(said, *_limits(found)))
    says = "What the lines say was not changed since they were written: the server's key says so."
    return Text(key="verdict", title="", paragraphs=(says, *_limits(found)), tone=Tone.GOOD)


def _limits(found: Verification) -> Iterator[str]:
    """Yield what a signature does not prove."""
    yield (
        "This proves that the server wrote it, not that it is true; nor that no rounds followed which somebody cut off "
        "together with all that was written after them, unless the run is complete or you know a later hash."
    )
    there = {finding.what for finding in found.findings}
    unnamed = any(record.state_after is None for record in found.records)
    kept = ["states in checkpoints"] if "checkpoints" in there and unnamed else []
    kept += ["models kept on the way"] if "snapshots" in there else []
    if kept:
        yield (
            f"Not signed are {' and '.join(kept)}: nothing but their own hashes vouches for them, which whoever may "
            f"write in the folder can make anew. The final model is the one that the last line names."
        )


def rounds_panel(found: Verification) -> Table:
    """Return a line for every round: which model went out, whose replies came, who was removed, what became of it."""
    return tabulate(
        found.records,
        {
            Column(title="round"): lambda record: str(record.round),
            Column(title="finished", minor=True): lambda record: record.finished or NOTHING,
            Column(title="model that went out"): lambda record: _short(record.model_before),
            Column(title="replies"): lambda record: f"{len(record.received)} of {len(record.cohort)}",
            Column(title="without weight"): _without_weight,
            Column(title="model after"): _after,
        },
        key="rounds",
        title="Rounds",
        caption="Hashes are cut; --round N shows a round in full, --json all of them.",
        shown=ROUNDS,
    )


def hashes_panel(record: RoundRecord) -> Table:
    """Return the hashes of one round in full: the models, and what every client sent."""
    facts = [
        ("line before", record.previous or NOTHING),
        ("finished", record.finished or NOTHING),
        ("model that went out", record.model_before or NOTHING),
        *(
            (f"reply of {client}", digest or "no hash: it was no model, or an old version wrote the line")
            for client, digest in zip_longest(record.received, record.reply_digests)
        ),
        ("model after the round", record.model_after or NOTHING),
        ("state after the round", record.state_after or NOTHING),
    ]
    told = [(harmless(what, limit=_NAMES), value) for what, value in facts]
    return facts_table("hashes", f"Round {record.round}: SHA-256 of what was sent", told)


def _without_weight(record: RoundRecord) -> str:
    if record.skipped:
        return "skipped"
    names = [str(client) for client, fate in fates_of(record).items() if fate in _NOT_TRUSTED]
    return harmless(", ".join(names), limit=_NAMES) or NOTHING


def _after(record: RoundRecord) -> str:
    stayed = record.model_after is not None and record.model_after == record.model_before
    return "the same" if stayed else _short(record.model_after)


def _short(digest: str | None) -> str:
    return NOTHING if digest is None else f"{digest[:SHORT]}…"
