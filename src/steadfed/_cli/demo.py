"""`steadfed demo`: the mean against RAGE, side by side, with an oracle to compare."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from steadfed._cli.folders import default_jobs
from steadfed._cli.progress import RunProgress, progress_display
from steadfed._cli.run import Jobs
from steadfed._cli.run_loop import follow
from steadfed._core.wording import plural
from steadfed.errors import RunError
from steadfed.server._places import reserve_folder

if TYPE_CHECKING:
    from steadfed.reports.panels import Table
    from steadfed.server._history import RunHistory


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds; the mean breaks down after some 100.")] = 200,
    jobs: Jobs = None,
) -> None:
    """Train on handwritten digits with 20 Byzantine clients of 100: the plain mean against RAGE, side by side.

    40 of the 100 clients take part in a round, with 5 local steps each; their data differ (Dirichlet 0.5). The
    Byzantine ones send "a little is enough" (Baruch et al. 2019, z = 1.5). Takes about half a minute on two cores and
    needs no download; the runs stay in runs/demo-1 (or -2, …), and with them report.html, a page to look at.
    """
    console = Console(stderr=True)
    console.print("Loading torch and the data …", highlight=False)
    from steadfed._cli import demonstration as program
    from steadfed.reports._render import terminal
    from steadfed.server._history import open_run

    folder = reserve_folder("demo")
    runs = program.start(folder, seed=seed, rounds=rounds, jobs=jobs or default_jobs())
    console.print(
        "100 clients hold the digits, 20 of them Byzantine (a little is enough, z = 1.5); 40 take part in a round.\n"
        "Three servers: the mean, RAGE, and an oracle that knows who is Byzantine and takes the mean of the others.",
        highlight=False,
        soft_wrap=True,
    )
    heard = follow(runs, progress_display({name: RunProgress(rounds) for name in runs}))
    terminal.show(demo_table({name: open_run(run.folder.path) for name, run in runs.items()}))
    if heard is not None:
        resuming = "\n".join(f"  steadfed resume {shlex.quote(str(run.folder.path))}" for run in runs.values())
        console.print(f"stopped; continue with\n{resuming}", highlight=False, soft_wrap=True)
        raise typer.Exit(128 + heard)
    _next(Console(), folder)
    _report(Console(), folder)


def demo_table(histories: Mapping[str, RunHistory]) -> Table:
    """Return how the servers fared, one line each."""
    from steadfed.reports.panels import Column, Table, Unit

    late = max(1, *(history.rounds_played // 4 for history in histories.values()))
    return Table(
        key="demo",
        title="digits, 100 clients, 20 of them Byzantine (a little is enough, z = 1.5)",
        caption="oracle: the mean of the honest updates only, by a server that knows who is Byzantine.",
        columns=(
            Column(title="server"),
            Column(title=f"test accuracy, last {plural(late, 'round')}", unit=Unit.PERCENT),
            Column(title="best", unit=Unit.PERCENT),
            Column(title="Byzantine updates kept", unit=Unit.PERCENT),
            Column(title="honest updates removed", unit=Unit.PERCENT),
            Column(title="time", unit=Unit.SECONDS),
        ),
        rows=tuple(
            (
                name,
                _late_accuracy(history, late),
                history.summary["best"]["test_accuracy"],
                history.tally.byzantine_kept_rate,
                history.tally.honest_removed_rate,
                float(sum(history.summary["seconds"].values())),
            )
            for name, history in histories.items()
        ),
        flagged=tuple(place for place, name in enumerate(histories) if name == "rage"),
    )


def _late_accuracy(history: RunHistory, rounds: int) -> float | None:
    """Return the mean over the last rounds: after a collapse that of a single round hangs on the CPU's last bit."""
    known = [accuracy for accuracy in history["test_accuracy"][-rounds:].tolist() if math.isfinite(accuracy)]
    return sum(known) / len(known) if known else None


def _next(console: Console, folder: Path) -> None:
    place = shlex.quote(str(folder))
    console.print(
        f"The runs are in {folder}. Next:\n"
        f"  steadfed show {place}/rage    # who was removed, and how often\n"
        f"  steadfed certify {place}/rage # how large its errors were, and which theorem applies\n"
        f"  steadfed init                     # a configuration of your own",
        highlight=False,
        soft_wrap=True,
    )


def _report(console: Console, folder: Path) -> None:
    """Write the page and say where it is, or what is missing; without the guarantee, which takes longer than that."""
    from steadfed.reports._report import report

    try:
        with Console(stderr=True).status("drawing the report"):
            text = f"Look at the report: {report(folder, guarantee=False)}"
    except RunError as error:
        text = f"No report: {error}"
    console.print(text, style="bold", highlight=False, soft_wrap=True, markup=False)
