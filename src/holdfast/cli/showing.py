"""`holdfast show`: what came of a run, and how its rule treated each client; or several runs side by side."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.clients import Order, client_table, faults_text, round_table
from holdfast.cli.folders import runs_in
from holdfast.cli.text import NOTHING, duration, harmless, number, percent
from holdfast.errors import ParameterError
from holdfast.reports.wording import plural

if TYPE_CHECKING:
    from holdfast.server.history import RunHistory, Tally
    from holdfast.simulation import RunConfig


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
            "over all rounds (see `holdfast audit`), those with the least weight, those whose rows looked most "
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

    Works on runs that are complete, being played, interrupted, or were never begun, simulated or of a deployment.
    """
    if round_ is not None:
        _show_round(paths, round_, as_json=as_json)
        return
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
        shown = None if clients else limit
        console.print(client_table(looks[0].history.rounds.clients, sort, shown, suspicion=looks[0].deployed))


def _show_round(paths: list[Path], number: int, *, as_json: bool) -> None:
    """Show one round of one run."""
    from holdfast.server.folder import RunFolder
    from holdfast.server.history import events_of

    if len(paths) != 1:
        raise ParameterError(f"--round shows a round of one run, got {len(paths)} folders")
    folder = RunFolder.open(paths[0])
    record = next((record for record in folder.records() if record.round == number), None)
    if record is None:
        raise ParameterError(
            f"{str(folder.path)!r} has {plural(folder.num_rounds(), 'round')}, counted from 0; got --round {number}"
        )
    if as_json:
        typer.echo(record.to_line(), nl=False)
    else:
        Console().print(round_table(record, events_of([record])))


@dataclass(frozen=True)
class Look:
    """What the folder of a run says."""

    history: RunHistory
    config: RunConfig
    summary: Mapping[str, Any]
    """Computed from the rounds that are there."""

    @classmethod
    def at(cls, path: Path) -> Look:
        """Read the folder of a run."""
        from holdfast.runs import config_of
        from holdfast.server.folder import RunFolder
        from holdfast.server.history import open_run

        config, history = config_of(RunFolder.open(path)), open_run(path)
        return cls(history, config, history.summary)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.history.path

    @property
    def tally(self) -> Tally:
        """What came of the updates."""
        return self.history.tally

    @property
    def deployed(self) -> bool:
        """Whether a server app plays it, so that nobody knows who is Byzantine."""
        return self.history.deployed

    @property
    def complete(self) -> bool:
        """Whether all rounds are done."""
        return self.history.state == "complete"

    @property
    def done(self) -> int:
        """How many rounds are done."""
        return self.history.rounds_played

    @property
    def seconds(self) -> float:
        """How long the rounds took."""
        return float(sum(self.summary["seconds"].values()))

    def name(self, key: str, *, complete: bool = False) -> str:
        """Return what the configuration says under a key; what is at its default only in a complete answer."""
        from holdfast.simulation.tables import NAMED

        return _short(NAMED[key].to_table(getattr(self.config, key), complete=complete))

    def title(self, key: str) -> str:
        """Return the bare name of what the configuration says under a key."""
        from holdfast.simulation.tables import NAMED

        return NAMED[key].name(getattr(self.config, key))

    def last(self, key: str) -> float | None:
        """Return a loss or an accuracy of the last round that was evaluated."""
        value = self.summary["last"].get(key)
        return None if value is None else float(value)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        from holdfast.simulation import config_table

        return {
            "path": str(self.path),
            "state": self.history.state.value,
            "rounds": self.config.rounds,
            "summary": dict(self.summary),
            "faults": self.history.rounds.fault_counts,
            "skips": [{"round": number, "reason": reason} for number, reason in self.history.rounds.skips],
            "metrics": self.history.rounds.metrics,
            "clients": [client.as_dict() for client in self.history.rounds.clients],
            "config": config_table(self.config),
        }


def facts_table(look: Look) -> Table:
    """Return what came of a run as a table of facts."""
    table = Table(title=str(look.path), show_header=False, title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for heading, fact in [*_state(look), *_setting(look), *_results(look), *_verdicts(look)]:
        table.add_row(heading, Text(fact))
    return table


def _state(look: Look) -> Iterator[tuple[str, str]]:
    rounds = f"{look.done:,} of {plural(look.config.rounds, 'round')}"
    if look.complete:
        yield "state", f"complete, {plural(look.done, 'round')}"
    elif look.history.state == "being played":
        yield "state", f"being played, {rounds} so far"
    else:
        began = f"interrupted after {rounds}" if look.done else "not begun"
        command = f"holdfast resume {shlex.quote(str(look.path))}"
        how = "start its server app again with this folder" if look.deployed else f"continue with: {command}"
        yield "state", f"{began}; {how}"


def _setting(look: Look) -> Iterator[tuple[str, str]]:
    config = look.config
    yield "data", look.name("data")
    yield "clients", look.name("partition", complete=True)
    yield "model", look.name("model")
    steps = f"K = {config.cohort_size}, H = {config.local_steps}, batch {config.batch_size}, lr {config.lr:g}"
    yield "rounds", f"{steps}, seed {config.seed}"
    yield "rule", look.name("rule")
    if not look.deployed:
        yield "adversary", f"{look.name('attack')} by {look.name('byzantine')}"


def _results(look: Look) -> Iterator[tuple[str, str]]:
    if not look.done:
        return
    best = look.summary["best"]
    if look.history.rounds.metrics:
        listed = (
            f"{harmless(name, 40)} {number(value)}" for name, value in sorted(look.history.rounds.metrics.items())
        )
        yield "metrics", ", ".join(listed)
    if look.deployed and not look.summary["last"]:
        return
    yield "training", f"loss {number(look.last('train_loss'))}, accuracy {percent(look.last('train_accuracy'))}"
    if look.last("test_loss") is not None:
        peak = ""
        if best["test_accuracy"] is not None:
            peak = f" (best {percent(best['test_accuracy'])} in round {best['round']})"
        accuracy = f", accuracy {percent(look.last('test_accuracy'))}{peak}"
        yield "test", f"loss {number(look.last('test_loss'))}{accuracy}"


def _verdicts(look: Look) -> Iterator[tuple[str, str]]:
    tally = look.tally
    if not look.done:
        return
    if tally.byzantine:
        kept = percent(tally.byzantine_kept_rate)
        weight = f"they made up {percent(tally.byzantine_weight)} of the updates' weight"
        yield "Byzantine", f"{tally.byzantine_kept:,} of {tally.byzantine:,} rows kept ({kept}); {weight}"
    if tally.judged and look.deployed:
        yield "rows", f"{tally.removed:,} of {tally.judged:,} rows removed ({percent(tally.removed_rate)})"
    elif tally.honest:
        lost = percent(tally.honest_removed_rate)
        yield "honest", f"{tally.honest_removed:,} of {tally.honest:,} rows removed ({lost})"
    if tally.skipped:
        yield "skipped", f"{plural(tally.skipped, 'round')}: {_reasons(look.history.rounds.skips)}"
    if tally.promise_broken:
        yield "promise broken", f"in {plural(tally.promise_broken, 'round')}"
    if look.history.rounds.faults:
        yield "dropped replies", f"{faults_text(look.history.rounds.fault_counts)}; see `holdfast audit`"
    if tally.absent:
        yield "sent nothing", plural(tally.absent, "update")
    parts = sorted(look.summary["seconds"].items(), key=lambda part: -part[1])
    listed = ", ".join(f"{name.replace('_', ' ')} {percent(part / (look.seconds or 1.0))}" for name, part in parts)
    yield "time", f"{duration(look.seconds)}: {listed}"


def _reasons(skips: Sequence[tuple[int, str]], most: int = 3) -> str:
    """Return why rounds were skipped, with the first round of each reason."""
    first = {reason: number for number, reason in reversed(skips)}
    listed = [f"round {number}, {harmless(reason, 120)}" for reason, number in sorted(first.items(), key=itemgetter(1))]
    return "; ".join([*listed[:most], *(["…"] if len(listed) > most else [])])


def _side_by_side(looks: list[Look]) -> Table:
    """Return a line for every run, named by the part of its path that they do not share."""
    shared = Path(os.path.commonpath([look.path.parent for look in looks]))
    table = Table(title=f"in {shared}", title_justify="left")
    for heading, width in (("run", 8), ("rule", 6), ("attack", 6)):
        table.add_column(heading, overflow="fold", min_width=width)
    for heading in ("rounds", "loss", "accuracy", "Byz.\nkept", "honest\nlost"):
        table.add_column(heading, justify="right", no_wrap=True)
    for look in looks:
        tally = look.tally
        table.add_row(
            str(look.path.relative_to(shared)),
            look.title("rule"),
            look.title("attack"),
            f"{look.done}" if look.complete else f"{look.done}/{look.config.rounds}",
            number(look.last("train_loss") if look.last("test_loss") is None else look.last("test_loss")),
            percent(look.last("test_accuracy")),
            *(
                NOTHING if share is None else f"{share:.0%}"
                for share in (tally.byzantine_kept_rate, tally.honest_removed_rate)
            ),
        )
    table.caption = (
        "loss and accuracy: on the test points, after the last round. Byz. kept: share of the Byzantine rows; honest "
        "lost: share of the honest rows."
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
