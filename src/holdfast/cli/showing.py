"""`holdfast show`: what came of a run, and how its rule treated each client; or several runs side by side."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from holdfast.cli.folders import runs_in
from holdfast.cli.text import NOTHING, duration, number, percent, plural
from holdfast.errors import CorruptRunError

if TYPE_CHECKING:
    from holdfast.records.clients import ClientSummary
    from holdfast.records.folder import RunFolder
    from holdfast.records.round import RoundRecord
    from holdfast.simulation import RunConfig


class Order(StrEnum):
    """What clients are sorted by."""

    REMOVED = "removed"
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
            help="Which clients come first: those removed in the largest share of their rounds, those with the least "
            "weight, those who looked most suspicious, or those with the smallest number."
        ),
    ] = Order.REMOVED,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, every client included.")] = False,
) -> None:
    """Show what came of a run, and how its rule treated each client; or several runs side by side.

    Works on runs that are complete, being played, interrupted, or were never begun.
    """
    looks = [Look.at(run) for path in paths for run in runs_in(path)]
    if as_json:
        tables = [look.as_dict() for look in looks]
        typer.echo(json.dumps(tables[0] if len(tables) == 1 else tables))
        return
    console = Console()
    if len(looks) > 1:
        console.print(_side_by_side(looks))
        return
    console.print(facts_table(looks[0]))
    if looks[0].done and (clients or limit):
        console.print(_client_table(looks[0].clients(), sort, None if clients else limit))


@dataclass
class Tally:
    """How a rule told clients apart, over the rounds in which it gave weights."""

    byzantine: int = 0
    byzantine_kept: int = 0
    honest: int = 0
    honest_removed: int = 0
    rounds: int = 0
    weight: float = 0.0

    def through(self, records: Iterable[RoundRecord]) -> Iterator[RoundRecord]:
        """Count the records on their way."""
        for record in records:
            if not record.skipped:
                self._add(record)
            yield record

    @property
    def byzantine_weight(self) -> float | None:
        """The share of an update that comes from Byzantine clients, on average."""
        return self.weight / self.rounds if self.rounds else None

    def _add(self, record: RoundRecord) -> None:
        liars, kept = set(record.byzantine), set(record.kept)
        self.rounds += 1
        for client, weight in zip(record.received, record.weights, strict=True):
            if client in liars:
                self.byzantine += 1
                self.byzantine_kept += client in kept
                self.weight += weight
            else:
                self.honest += 1
                self.honest_removed += client not in kept


@dataclass(frozen=True)
class Look:
    """What the folder of a run says."""

    folder: RunFolder
    config: RunConfig
    summary: Mapping[str, Any]
    """Computed from the rounds that are there."""
    tally: Tally
    complete: bool
    at_work: bool
    """Whether a process plays the run."""

    @classmethod
    def at(cls, path: Path) -> Look:
        """Read the folder of a run."""
        from holdfast.records.folder import RunFolder  # noqa: PLC0415
        from holdfast.runs import config_of, summarised  # noqa: PLC0415  loads torch

        folder, tally = RunFolder.open(path), Tally()
        config, written, at_work = config_of(folder), folder.summary(), _at_work(folder)
        summary = summarised(tally.through(folder.records()))
        if written is not None and summary["rounds"] != config.rounds:
            msg = (
                f"{str(path)!r} is complete by its summary.json, and its rounds.jsonl holds {summary['rounds']} of "
                f"{plural(config.rounds, 'round')}; restore that file, or delete summary.json and resume the run"
            )
            raise CorruptRunError(msg)
        return cls(folder, config, summary, tally, written is not None, at_work)

    @property
    def done(self) -> int:
        """How many rounds are done."""
        return int(self.summary["rounds"])

    @property
    def seconds(self) -> float:
        """How long the rounds took."""
        return float(sum(self.summary["seconds"].values()))

    @property
    def state(self) -> str:
        """How far the run is, in a word."""
        if self.complete:
            return "complete"
        return "being played" if self.at_work else "interrupted" if self.done else "not begun"

    def name(self, key: str, *, complete: bool = False) -> str:
        """Return what the configuration says under a key; what is at its default only in a complete answer."""
        from holdfast.simulation.tables import NAMED  # noqa: PLC0415  loads torch

        return _short(NAMED[key].to_table(getattr(self.config, key), complete=complete))

    def title(self, key: str) -> str:
        """Return the bare name of what the configuration says under a key."""
        from holdfast.simulation.tables import NAMED  # noqa: PLC0415  loads torch

        return NAMED[key].name(getattr(self.config, key))

    def last(self, key: str) -> float | None:
        """Return a loss or an accuracy of the last round that was evaluated."""
        value = self.summary["last"].get(key)
        return None if value is None else float(value)

    def clients(self) -> list[ClientSummary]:
        """Return how the rule treated each client."""
        from holdfast.records.clients import client_table  # noqa: PLC0415

        return client_table(self.folder.records())

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        from holdfast.simulation import config_table  # noqa: PLC0415  loads torch

        return {
            "path": str(self.folder.path),
            "state": self.state,
            "rounds": self.config.rounds,
            "summary": dict(self.summary),
            "updates": {**asdict(self.tally), "weight": self.tally.byzantine_weight},
            "clients": [asdict(client) for client in self.clients()],
            "config": config_table(self.config),
        }


def facts_table(look: Look) -> Table:
    """Return what came of a run as a table of facts."""
    table = Table(title=str(look.folder.path), show_header=False, title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for heading, fact in [*_state(look), *_setting(look), *_results(look), *_verdicts(look)]:
        table.add_row(heading, fact)
    return table


def _state(look: Look) -> Iterator[tuple[str, str]]:
    rounds = f"{look.done:,} of {plural(look.config.rounds, 'round')}"
    if look.complete:
        yield "state", f"complete, {plural(look.done, 'round')}"
    elif look.at_work:
        yield "state", f"being played, {rounds} so far"
    else:
        began = f"interrupted after {rounds}" if look.done else "not begun"
        yield "state", f"{began}; continue with: holdfast resume {shlex.quote(str(look.folder.path))}"


def _setting(look: Look) -> Iterator[tuple[str, str]]:
    config = look.config
    yield "data", look.name("data")
    yield "clients", look.name("partition", complete=True)
    yield "model", look.name("model")
    steps = f"K = {config.cohort_size}, H = {config.local_steps}, batch {config.batch_size}, lr {config.lr:g}"
    yield "rounds", f"{steps}, seed {config.seed}"
    yield "rule", look.name("rule")
    yield "adversary", f"{look.name('attack')} by {look.name('byzantine')}"


def _results(look: Look) -> Iterator[tuple[str, str]]:
    if not look.done:
        return
    best = look.summary["best"]
    yield "training", f"loss {number(look.last('train_loss'))}, accuracy {percent(look.last('train_accuracy'))}"
    if look.last("test_loss") is not None:
        peak = ""
        if best["test_accuracy"] is not None:
            peak = f" (best {percent(best['test_accuracy'])} in round {best['round'] + 1})"
        accuracy = f", accuracy {percent(look.last('test_accuracy'))}{peak}"
        yield "test", f"loss {number(look.last('test_loss'))}{accuracy}"


def _verdicts(look: Look) -> Iterator[tuple[str, str]]:
    tally, summary = look.tally, look.summary
    if not look.done:
        return
    if tally.byzantine:
        kept = percent(tally.byzantine_kept / tally.byzantine)
        weight = f"they made up {percent(tally.byzantine_weight)} of the updates' weight"
        yield "Byzantine", f"{tally.byzantine_kept:,} of {tally.byzantine:,} rows kept ({kept}); {weight}"
    if tally.honest:
        lost = percent(tally.honest_removed / tally.honest)
        yield "honest", f"{tally.honest_removed:,} of {tally.honest:,} rows removed ({lost})"
    for heading, key in (("skipped", "rounds_skipped"), ("promise broken", "rounds_promise_broken")):
        if summary[key]:
            yield heading, f"in {plural(summary[key], 'round')}"
    if summary["updates_erased"]:
        yield "sent nothing", plural(summary["updates_erased"], "update")
    parts = sorted(summary["seconds"].items(), key=lambda part: -part[1])
    listed = ", ".join(f"{name.replace('_', ' ')} {percent(part / (look.seconds or 1.0))}" for name, part in parts)
    yield "time", f"{duration(look.seconds)}: {listed}"


def _side_by_side(looks: list[Look]) -> Table:
    """Return a line for every run, named by the part of its path that they do not share."""
    shared = Path(os.path.commonpath([look.folder.path.parent for look in looks]))
    table = Table(title=f"in {shared}", title_justify="left")
    for heading, width in (("run", 8), ("rule", 6), ("attack", 6)):
        table.add_column(heading, overflow="fold", min_width=width)
    for heading in ("rounds", "loss", "accuracy", "Byz.\nkept", "honest\nlost"):
        table.add_column(heading, justify="right", no_wrap=True)
    for look in looks:
        tally = look.tally
        table.add_row(
            str(look.folder.path.relative_to(shared)),
            look.title("rule"),
            look.title("attack"),
            f"{look.done}" if look.complete else f"{look.done}/{look.config.rounds}",
            number(look.last("train_loss") if look.last("test_loss") is None else look.last("test_loss")),
            percent(look.last("test_accuracy")),
            f"{tally.byzantine_kept / tally.byzantine:.0%}" if tally.byzantine else NOTHING,
            f"{tally.honest_removed / tally.honest:.0%}" if tally.honest else NOTHING,
        )
    table.caption = (
        "loss and accuracy: on the test points, after the last round. Byz. kept: share of the Byzantine rows; honest "
        "lost: share of the honest rows."
    )
    return table


def _client_table(clients: list[ClientSummary], order: Order, limit: int | None) -> Table:
    """Return a line for every client, as far as they are wanted."""
    keys = {
        Order.REMOVED: lambda client: -client.removed / max(1, client.received),
        Order.WEIGHT: lambda client: 1.0 if client.mean_weight is None else client.mean_weight,
        Order.RANK: lambda client: -(client.mean_rank or 0.0),
        Order.CLIENT: lambda _: 0,
    }
    shown = sorted(clients, key=keys[order])[:limit]
    optional = [name for name in ("erased", "unusable", "byzantine") if any(map(attrgetter(name), clients))]
    table = Table()
    for heading in ("client", "sampled", "removed", "mean weight", "mean rank", *optional):
        table.add_column("Byzantine" if heading == "byzantine" else heading, justify="right")
    for client in shown:
        table.add_row(
            str(client.client),
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


def _short(table: Mapping[str, Any]) -> str:
    """Return a name with its parameters.

    >>> _short({"name": "nnm", "rule": {"name": "krum", "num_byzantine": 4}})
    'nnm(rule=krum(num_byzantine=4))'
    """
    given = {key: _short(value) if isinstance(value, Mapping) else value for key, value in table.items()}
    listed = ", ".join(f"{key}={value}" for key, value in given.items() if key != "name")
    return f"{given['name']}({listed})" if listed else str(given["name"])


def _at_work(folder: RunFolder) -> bool:
    """Tell whether a process holds the lock of the folder."""
    from holdfast.records.durable import sole_holder  # noqa: PLC0415

    try:
        with sole_holder(folder.path / "lock"):
            return False
    except BlockingIOError:
        return True
    except OSError:  # nobody can work where nobody can write
        return False
