"""`steadfed show`: what came of a run, and how its rule treated each client; or several runs side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steadfed._core.wording import plural
from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from steadfed.reports.panels import Table
    from steadfed.server._history import ClientSummary, RunHistory


class Order(StrEnum):
    """What clients are sorted by."""

    REMOVED = "removed"
    SUSPICION = "suspicion"
    WEIGHT = "weight"
    RANK = "rank"
    CLIENT = "client"


def show(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders that hold such folders.")
    ],
    clients: Annotated[bool, typer.Option("--clients", help="Show every client, however many there are.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="How many clients to show.")] = 10,
    sort: Annotated[
        Order,
        typer.Option(
            help="Which clients come first: those removed in the largest share of their rounds, those most suspicious "
            "over all rounds (see `steadfed audit`), those with the least weight, those whose updates looked most "
            "suspicious, or those with the smallest number."
        ),
    ] = Order.REMOVED,
    round_: Annotated[
        int | None,
        typer.Option(
            "--round",
            min=0,
            help="Show one round instead, counted from 0: what became of every client's reply, and why.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, every client included.")] = False,
) -> None:
    """Show what came of a run, and how its rule treated each client; or several runs side by side.

    Works on runs that are complete, running, interrupted, or were never begun, simulated or of a deployment.
    """
    if round_ is not None:
        _show_round(paths, round_, as_json=as_json)
        return
    from steadfed.reports._render import terminal
    from steadfed.reports._sections.overview import overview
    from steadfed.reports._sections.verdict import side_by_side
    from steadfed.server._folder import runs_in
    from steadfed.server._history import open_run

    histories = [open_run(run) for path in paths for run in runs_in(path)]
    if as_json:
        tables = [_as_dict(history) for history in histories]
        typer.echo(json.dumps(tables[0] if len(tables) == 1 else tables))
    elif len(histories) > 1:
        terminal.show(side_by_side(histories))
    else:
        terminal.show(overview(histories[0]))
        if histories[0].rounds_played and (clients or limit):
            terminal.show(client_panel(histories[0], sort, None if clients else limit))


def _show_round(paths: list[Path], number: int, *, as_json: bool) -> None:
    """Show one round of one run."""
    from steadfed.reports._render import terminal
    from steadfed.reports._sections.round import round_table
    from steadfed.server._folder import RunFolder
    from steadfed.server._history import open_run

    if len(paths) != 1:
        raise ParameterError(f"--round shows a round of one run, got {len(paths)} folders")
    folder = RunFolder.open(paths[0])
    before, record = 0, None
    for each in folder.records():
        if each.round == number:
            record = each
            break
        before = each.step
    if record is None:
        raise ParameterError(
            f"{str(folder.path)!r} has {plural(folder.num_rounds(), 'round')}, counted from 0; got --round {number}"
        )
    if as_json:
        typer.echo(record.to_line(), nl=False)
    else:
        raw = open_run(folder.path).raw
        alike = isinstance(raw.get("local_steps"), int)
        terminal.show(round_table(record, steps=None if alike else record.step - before, rule=raw.get("rule")))


def client_panel(history: RunHistory, order: Order, limit: int | None) -> Table:
    """Return a line for every client, as far as they are wanted, in some order."""
    from steadfed.reports._sections.clients import suspicion_table

    lines = history.clients if order is Order.SUSPICION else sorted(history.rounds.clients, key=_KEYS[order])
    table = suspicion_table(history, lines)
    return replace(table, title=f"{table.title}, sorted by {order}", shown=limit or 0)


_KEYS: dict[Order, Callable[[ClientSummary], float]] = {
    Order.REMOVED: lambda client: -(client.removed_rate or 0.0),
    Order.WEIGHT: lambda client: 1.0 if client.mean_weight is None else client.mean_weight,
    Order.RANK: lambda client: -(client.mean_rank or 0.0),
    Order.CLIENT: lambda _: 0.0,
}


def _as_dict(history: RunHistory) -> dict[str, Any]:
    """Return everything as plain values."""
    from steadfed.server._history.files import PROVENANCE

    rounds = history.rounds
    return {
        "path": str(history.path),
        "state": history.state.value,
        "rounds": history.rounds_planned,
        "summary": history.summary,
        "outcome": history.outcome.as_dict(),
        "faults": rounds.fault_counts,
        "skips": [{"round": number, "reason": reason} for number, reason in rounds.skips],
        "metrics": rounds.metrics,
        "client_scores": None if rounds.client_scores is None else rounds.client_scores.model_dump(),
        "clients": [client.as_dict() for client in rounds.clients],
        "config": {key: value for key, value in history.raw.items() if key != PROVENANCE},
    }
