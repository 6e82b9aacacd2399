"""Clients and rounds as tables; names and details come from elsewhere and are shown as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from holdfast.cli.text import NOTHING, harmless, number
from holdfast.reports.wording import plural

if TYPE_CHECKING:
    from holdfast.server.history import ClientSummary, Event
    from holdfast.server.record import Client, RoundRecord

NAME_WIDTH = 40
"""How many letters of a client's name are shown."""


class Order(StrEnum):
    """What clients are sorted by."""

    REMOVED = "removed"
    SUSPICION = "suspicion"
    WEIGHT = "weight"
    RANK = "rank"
    CLIENT = "client"


def name_of(client: object) -> Text:
    """Return the name of a client for a table or a line."""
    return Text(harmless(client, NAME_WIDTH))


def faults_text(faults: Mapping[str, int]) -> str:
    """Return faults with how often they occurred, the most frequent first.

    >>> faults_text({"shape": 1, "silent": 3})
    'silent 3×, shape'
    """
    ordered = sorted(faults.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(harmless(fault, NAME_WIDTH) + (f" {count}×" if count > 1 else "") for fault, count in ordered)


def client_table(clients: list[ClientSummary], order: Order, limit: int | None, *, suspicion: bool = False) -> Table:
    """Return a line for every client, as far as they are wanted."""
    shown = _sorted(clients, order)[:limit]
    optional = [
        name for name in ("erased", "unusable", "malformed", "byzantine") if any(map(attrgetter(name), clients))
    ]
    table = Table()
    told = ["suspicion"] if suspicion else []
    for heading in ("client", *told, "sampled", "removed", "mean weight", "mean rank", *optional):
        table.add_column("Byzantine" if heading == "byzantine" else heading, justify="right")
    for client in shown:
        table.add_row(
            name_of(client.client),
            *([number(client.suspicion)] if suspicion else []),
            str(client.sampled),
            str(client.removed),
            number(client.mean_weight),
            number(client.mean_rank),
            *(str(getattr(client, name) or "") for name in optional),
        )
    more = f"{len(shown)} of {plural(len(clients), 'client')}, sorted by {order}. " if len(shown) < len(clients) else ""
    table.caption = (
        f"{more}Mean weight: 1 is an equal share. Mean rank: which share of the rows looked less suspicious; 0.5 is "
        "nothing special."
    )
    return table


def suspicion_table(clients: Iterable[ClientSummary]) -> Table:
    """Return the clients with the most suspicious first, and what they are suspected for."""
    from holdfast.server.history import suspects

    table = Table(title="suspicion over the rounds", title_justify="left")
    for heading in ("client", "suspicion", "accused", "judged", "mean rank", "absent"):
        table.add_column(heading, justify="right", no_wrap=heading != "client")
    table.add_column("faults", overflow="fold")
    for client in suspects(clients):
        table.add_row(
            name_of(client.client),
            number(client.suspicion),
            str(client.accused),
            str(client.judged),
            number(client.mean_rank),
            str(client.erased or ""),
            Text(faults_text(client.faults)),
        )
    table.caption = (
        "Accused: replies that were malformed or got weight 0, of those judged. Suspicion: the least share that is "
        "plausible after so many (Wilson, 95 %): 0.27 after 1 of 1, 0.79 after 10 of 10. Compare clients with each "
        "other: rules that always drop most rows suspect everybody."
    )
    return table


def round_table(record: RoundRecord, events: Iterable[Event]) -> Table:
    """Return what happened to every client of one round, and to those who replied unasked."""
    table = Table(title=f"round {record.round}{_outcome(record)}", title_justify="left")
    for heading in ("client", "weight", "score"):
        table.add_column(heading, justify="right")
    table.add_column("what")
    table.add_column("why", overflow="fold")
    weights, scores = record.by_client(record.weights), record.by_client(record.scores)
    happened: dict[Client | None, list[Event]] = {}
    for event in events:
        happened.setdefault(event.client, []).append(event)
    for client in dict.fromkeys([*record.cohort, *(client for client in happened if client is not None)]):
        told = happened.get(client, [])
        share = weights.get(client)
        table.add_row(
            name_of(client),
            NOTHING if share is None else f"{share * len(record.received):.4g}",
            number(scores.get(client)),
            ", ".join(dict.fromkeys(event.what.word for event in told)) or ("" if record.skipped else "kept"),
            Text(harmless("; ".join(dict.fromkeys(event.why for event in told)), 300)),
        )
    said = [event.why for event in happened.get(None, [])] or ([record.reason] if record.reason else [])
    table.caption = Text(harmless("; ".join(said), 300))
    return table


def _outcome(record: RoundRecord) -> str:
    from holdfast.server.history import Tally

    tally = Tally.of(record)
    if tally.skipped:
        return ": skipped, the model is left as it was"
    kept = f": {tally.kept} of {plural(tally.judged, 'row')} kept"
    return f"{kept}; promise broken" if tally.promise_broken else kept


def _sorted(clients: list[ClientSummary], order: Order) -> list[ClientSummary]:
    from holdfast.server.history import suspects

    if order is Order.SUSPICION:
        return suspects(clients)
    keys = {
        Order.REMOVED: lambda client: -client.removed / max(1, client.received),
        Order.WEIGHT: lambda client: 1.0 if client.mean_weight is None else client.mean_weight,
        Order.RANK: lambda client: -(client.mean_rank or 0.0),
        Order.CLIENT: lambda _: 0,
    }
    return sorted(clients, key=keys[order])
