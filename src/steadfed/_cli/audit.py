"""`steadfed audit`: who did what, then what happened, event by event; and both as a report that can be checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from steadfed._core.lookup import nearest
from steadfed._core.wording import harmless, plural
from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from steadfed.server._history import ClientSummary, Conduct, Event, RunHistory

_STYLES = {
    "skipped": "yellow",
    "assumption violated": "bold red",
    "too many silent": "bold red",
    "few replies": "yellow",
    "malformed": "red",
    "unusable": "red",
    "removed": "magenta",
    "nearly removed": "magenta",
}
"""The colour of what happened; others have none."""
_LONGEST = 40
"""Letters of the name of a client."""
_MOST_PEOPLE = 50
"""Clients that have a line of their own before the events."""


def audit(
    path: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="The folder of a run: of a deployment or simulated, complete or running."),
    ],
    client: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only what happened to this client, by the name or number in the records."),
    ] = None,
    table: Annotated[
        bool,
        typer.Option("--table", help="Instead of events, one line per client: how suspicious it is after all rounds."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON Lines: one object per event, or per client with --table.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="Write an incident report instead: who, when, why, the evidence; as JSON, and beside it as one page, "
            "FILE.html.",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PRIVATE.pem",
            help="With --export: sign the report with this Ed25519 key, as a DSSE envelope; `federation up` makes one, "
            "keys/server-signing.pem.",
        ),
    ] = None,
) -> None:
    """Say who did what in a run, and then what happened to which client in which round, one line per event.

    First comes whether the run is no success, and why; then a line for every client that something can be said of, the
    worst first: how often its update was removed (or nearly) and how far out it lay, how often its reply was malformed
    or it was silent. Scores are told with their unit: RAGE's in standard deviations of the kept updates.

    skipped: the round left the model as it was. assumption violated: the updates contradict what was assumed of the
    clients. too many silent: more clients sent nothing than are assumed to be Byzantine. few replies: silent clients
    left f/n above 1/4, and a step was taken. malformed: the reply was no model like the one sent, and the fault says
    why; it counts as a Byzantine update. unusable: it was a model with NaN, Inf or numbers whose squares overflow.
    absent: nothing came (error, silent, undelivered). removed: the rule gave the update weight 0, with how far out it
    lay and the rule's reason. nearly removed: it was kept with less than a tenth of an equal share. unasked: a reply
    nobody had asked for, which is held against nobody. Rounds are counted from 0, here and everywhere.

    With --table, suspicion is the least plausible share of a client's judged replies that were malformed or got weight
    0: Wilson's lower bound with 95 % confidence, so that one removal in one round proves little (0.27; ten of ten
    give 0.79). The most suspicious come first. Absence does not count.

    With --export nothing is shown but where the report is. It holds every round in which something happened as it is
    written down, the configuration and versions; the page holds the JSON it is made from, and says what all this does
    not prove. A signed one is checked with `steadfed verify`.

    Names and details that clients sent are shown with control characters spelled out, long ones cut; --json has all.
    Exit code 0, or 2 if there is no such run, client or key.
    """
    from steadfed.server._history import open_run

    if key is not None and export is None:
        raise ParameterError(f"--key signs a report, got {str(key)!r} without --export")
    history = open_run(path)
    chosen = _chosen_clients(history, client)
    if export is not None:
        _export(history, client, export, key)
    elif table:
        _show_table(history, chosen, as_json=as_json)
    else:
        if not as_json:
            _show_people(history, client)
        _show_events(_chosen_events(history, client), as_json=as_json)


def _chosen_clients(history: RunHistory, name: str | None) -> list[ClientSummary]:
    """Return the lines of all clients, or of those with a name; a number and the same as text are two.

    Raises:
        ParameterError: nobody has it.
    """
    clients = history.clients
    if name is None:
        return clients
    found = [line for line in clients if str(line.client) == name]
    if not found:
        known = [str(line.client) for line in history.rounds.clients]
        raise ParameterError(f"no client {name!r} in {str(history.path)!r}{nearest(name, known)}; {_few(known)}")
    return found


def _few(names: list[str], most: int = 10) -> str:
    listed = ", ".join(repr(name) for name in names[:most])
    return f"it has {listed}{', …' if len(names) > most else ''}" if names else "it has none yet"


def _export(history: RunHistory, client: str | None, place: Path, key: Path | None) -> None:
    """Write the incident report and say where it is."""
    from steadfed.reports._incident import write_incident

    for path in write_incident(history, place, client=client, key=key):
        typer.echo(path)


def _show_people(history: RunHistory, name: str | None) -> None:
    """Say why the run is no success, and what there is to say of whom."""
    console = Console()
    for reason in history.outcome.reasons:
        console.print(Text(f"no success: {reason}", style="bold red"), soft_wrap=True)
    people = [conduct for conduct in history.conduct if name is None or str(conduct.client) == name]
    for conduct in people[:_MOST_PEOPLE]:
        console.print(_person(conduct, history), soft_wrap=True)
    if more := len(people[_MOST_PEOPLE:]):
        console.print(Text(f"and {plural(more, 'other')}: see --table"))
    if people or history.outcome.reasons:
        console.print()


def _person(conduct: Conduct, history: RunHistory) -> Text:
    return Text.assemble((conduct.name, "bold"), f": {conduct.words(history.score_meaning)}")


def _chosen_events(history: RunHistory, name: str | None) -> Iterator[Event]:
    from steadfed.server._folder import RunFolder
    from steadfed.server._history import events_of

    for event in events_of(RunFolder.open(history.path).records(), history.raw.get("rule")):
        if name is None or (event.client is not None and str(event.client) == name):
            yield event


def _show_table(history: RunHistory, clients: list[ClientSummary], *, as_json: bool) -> None:
    from steadfed.reports._render import terminal
    from steadfed.reports._sections.clients import suspicion_table

    if as_json:
        for line in clients:
            typer.echo(json.dumps(line.as_dict(), allow_nan=False))
    else:
        terminal.show(replace(suspicion_table(history, clients), shown=0))


def _show_events(events: Iterable[Event], *, as_json: bool) -> None:
    console, count = Console(), 0
    for event in events:
        count += 1
        if as_json:
            typer.echo(json.dumps(event.as_dict(), allow_nan=False))
        else:
            console.print(_line(event), soft_wrap=True)
    if not as_json:
        counted = f"{plural(count, 'event')}; rounds are counted from 0"
        Console(stderr=True).print(counted if count else "nothing happened", highlight=False, soft_wrap=True)


def _line(event: Event) -> Text:
    """Return an event as a line of plain text with colours."""
    whom = Text(harmless(event.client, limit=_LONGEST)) if event.client is not None else Text("the round")
    what = Text(event.what.word, style=_STYLES.get(event.what.word, ""))
    return Text("  ").join([Text(f"round {event.round}"), whom, what, Text(harmless(event.why, limit=200))])
