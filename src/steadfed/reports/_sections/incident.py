"""An incident report as a page: made from the statement alone, which stands at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steadfed._core.wording import harmless, plural
from steadfed.reports.panels import (
    Code,
    Column,
    Headline,
    Report,
    Section,
    Table,
    Text,
    Tone,
    Unit,
    Value,
    facts_table,
    tabulate,
)

Statement = Mapping[str, Any]
_SHOWN = 50
"""Rows of a table that are shown at first."""
_HASH = 10
"""Letters of a hash in a table; the statement has all."""
_NAME = 40
"""Letters of a name in a sentence."""
_NUMBER = Unit.NUMBER


def incident_page(statement: Statement, file: str, *, keyid: str | None) -> Report:
    """Return the page of a statement.

    Args:
        statement: what is stated.
        file: the text of the file that holds it, signed or not.
        keyid: the name of the key that signed it; None if nobody did.
    """
    run = statement["run"]
    whom = "" if statement["about"] is None else f", what happened to {statement['about']}"
    sections = (
        Section(key="short", title="In short", panels=(_short(statement), _people(statement))),
        Section(key="evidence", title="What happened, and the evidence", panels=(_events(statement),)),
        Section(key="rounds", title="The rounds", panels=(_rounds(statement),)),
        Section(key="run", title="What was run", panels=tuple(_configuration(statement))),
        Section(key="limits", title="What this does not prove", panels=(_limits(statement),)),
        Section(key="check", title="Check it", panels=tuple(_check(file, keyid))),
    )
    return Report(
        title=f"Incident report: {run['name']}",
        subtitle=f"{plural(run['rounds_played'], 'round')} of a {_kind(statement)}{whom}; written {statement['made']}",
        sections=sections,
        headlines=tuple(_headlines(statement, keyid)),
        made_with=statement["made_with"],
    )


def _kind(statement: Statement) -> str:
    return "deployment" if statement["run"]["deployment"] else "simulation"


def _headlines(statement: Statement, keyid: str | None) -> Iterator[Headline]:
    outcome, run = statement["outcome"], statement["run"]
    worth = ("no objection", Tone.GOOD) if outcome["success"] else ("no success", Tone.WARNING)
    yield Headline(title="Outcome", value=worth[0], note=f"{run['state']}, {outcome['skipped']} skipped", tone=worth[1])
    of = f"of {run['rounds_played']:,}"
    yield Headline(title="Rounds with an event", value=f"{len(statement['rounds']):,}", note=of)
    yield Headline(title="Clients that are named", value=f"{len(statement['clients']):,}")
    if keyid is None:
        yield Headline(title="Signature", value="none", note="anybody can have written this", tone=Tone.WARNING)
    else:
        yield Headline(
            title="Signature", value=f"{keyid[:_HASH]}…", note="the key that the file says it is signed with"
        )


def _short(statement: Statement) -> Text:
    reasons = [f"The run is no success: {reason}." for reason in statement["outcome"]["reasons"]]
    who = "node" if statement["run"]["deployment"] else "client"
    people = [f"{who} {harmless(each['client'], limit=_NAME)}: {each['words']}." for each in statement["clients"]]
    tone = Tone.WARNING if reasons else Tone.PLAIN
    return Text(
        key="people", title="Who", paragraphs=(*reasons, *(people or ["Nothing is held against anybody."])), tone=tone
    )


def _people(statement: Statement) -> Table:
    return tabulate(
        statement["clients"],
        {
            Column("client", name=True): lambda each: str(each["client"]),
            Column("asked", _NUMBER, "in how many rounds"): lambda each: each["asked"],
            Column("removed", _NUMBER, "rounds in which the rule gave its update weight 0"): lambda each: each[
                "removed"
            ],
            Column("nearly", _NUMBER, "less than a tenth of an equal share"): lambda each: each["nearly_removed"],
            Column("malformed", _NUMBER, "its reply was no model like the one sent"): lambda each: each["malformed"],
            Column("unusable", _NUMBER, "NaN, Inf or overflowing squares"): lambda each: each["unusable"],
            Column("silent", _NUMBER, "nothing came"): lambda each: each["silent"],
        },
        key="clients",
        title="Clients, the worst first",
        caption=_rounds_counted(statement),
        shown=_SHOWN,
    )


def _events(statement: Statement) -> Table:
    records, squared = {each["round"]: each["record"] for each in statement["rounds"]}, statement["score"]["squared"]
    rows = [_event_row(event, records.get(event["round"], {}), squared=squared) for event in statement["events"]]
    columns = (
        Column("round", _NUMBER),
        Column("when", hint="end of the round, by the server's clock"),
        Column("who", name=True),
        Column("what"),
        Column("why"),
        Column("weight", _NUMBER, "1 is an equal share"),
        Column("score", _NUMBER, statement["score"]["unit"].replace("… ", "")),
        Column("reply", hint="SHA-256 of what was received, its beginning"),
    )
    known = [place for place in range(len(columns)) if place < 1 or any(row[place] is not None for row in rows)]
    return Table(
        key="events",
        title="Event by event",
        caption=f"Score: {statement['score']['meaning']}. {_rounds_counted(statement)}",
        columns=tuple(columns[place] for place in known),
        rows=tuple(tuple(row[place] for place in known) for row in rows),
        shown=_SHOWN,
    )


def _event_row(event: Mapping[str, Any], record: Mapping[str, Any], *, squared: bool) -> tuple[Value, ...]:
    client = event.get("client")
    received = record.get("received", [])
    place = received.index(client) if client in received else None
    weight, score = (_at(record.get(name, ()), place) for name in ("weights", "scores"))
    return (
        event["round"],
        record.get("finished"),
        "the round" if client is None else str(client),
        event["what"],
        event.get("why", ""),
        None if weight is None else weight * len(received),
        score**0.5 if squared and score is not None else score,
        _short_hash(_at(record.get("reply_digests", ()), place)),
    )


def _at(values: Sequence[Any], place: int | None) -> Any:
    """Return a client's own value; None if there is none."""
    return values[place] if place is not None and place < len(values) else None


def _rounds(statement: Statement) -> Table:
    return tabulate(
        statement["rounds"],
        {
            Column("round", _NUMBER): lambda each: each["round"],
            Column("asked", _NUMBER): lambda each: len(each["record"]["cohort"]),
            Column("replied", _NUMBER): lambda each: len(each["record"].get("received", ())),
            Column("f", _NUMBER, "assumed Byzantine of them"): lambda each: each["record"].get("num_byzantine"),
            Column("spread", _NUMBER, "λ_max of the kept updates"): lambda each: each["record"].get("spread"),
            Column("threshold", _NUMBER, "how large it may be"): lambda each: each["record"].get("threshold"),
            Column("why the rule stopped"): lambda each: each["record"].get("reason"),
            Column("model after"): lambda each: _short_hash(each["record"].get("model_after")),
            Column("line", hint="SHA-256 of the round's line in rounds.jsonl"): lambda each: _short_hash(
                each["line_sha256"]
            ),
            Column("signed", hint="its line, with the key in the folder of the run"): lambda each: (
                "yes" if "envelope" in each else "no"
            ),
        },
        key="rounds-table",
        title="Rounds in which something happened",
        caption="Hashes are cut here; the statement below has them whole. A dash: the records do not say.",
        shown=_SHOWN,
    )


def _configuration(statement: Statement) -> Iterator[Table | Code]:
    run = statement["run"]
    facts = {
        "configuration, SHA-256": run["config_sha256"],
        "rounds.jsonl, SHA-256": run["rounds_sha256"],
        **statement["versions"],
    }
    yield facts_table("versions", "Versions and checksums", list(facts.items()))
    yield Code(key="config", title="config.toml", text=statement["configuration"] or "", language="toml")


def _limits(statement: Statement) -> Text:
    return Text(key="not-proved", title="Read this first", paragraphs=tuple(statement["not_proved"]))


def _check(file: str, keyid: str | None) -> Iterator[Text | Code]:
    if keyid is None:
        how = "It is not signed: whoever has it can have changed it. Compare it with the run's folder."
    else:
        how = (
            f"Save it and check it with the public key that the operator gave you, not with one that came with this "
            f"page: steadfed verify FILE.json --key server-signing.pub.pem. It is a DSSE envelope; payload is the "
            f"statement in base64. The key calls itself {keyid}."
        )
    yield Text(key="how", title="How", paragraphs=(f"All of this page is made from the file below. {how}",))
    yield Code(key="file", title="The file", text=file, language="json")


def _rounds_counted(statement: Statement) -> str:
    played = statement["run"]["rounds_played"]
    last = f"0 to {played - 1}" if played else "none yet"
    return f"Rounds are counted from 0 ({last}); Flower's log counts them from 1."


def _short_hash(digest: str | None) -> str | None:
    return None if not digest else f"{digest[:_HASH]}…"
