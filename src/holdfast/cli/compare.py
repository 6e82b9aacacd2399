"""`holdfast compare`: rules against attacks over a grid of settings, with training."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from holdfast.cli.folders import usual_jobs
from holdfast.errors import RunError
from holdfast.wording import clock, harmless, plural

if TYPE_CHECKING:
    from holdfast.sweeps.pool import Pool
    from holdfast.sweeps.runs.comparison import Comparison, Stage

COMPARISONS = Path("comparisons")
"""The folder that holds the comparisons that were given no other place."""
SILENCE = 20.0
"""Seconds between two lines where there is no terminal."""


def compare(
    grid: Annotated[str, typer.Argument(help="A TOML file in which lists mean grids; or quick, paper, bucketing.")],
    out: Annotated[
        Path | None, typer.Option(help="The folder of the comparison; comparisons/NAME if left out. Cells in it stay.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes to use; one per core, at most 8, if left out.")
    ] = None,
    ray: Annotated[str | None, typer.Option(help="Play on the Ray cluster at this address, such as auto.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Play at most so many cells.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Begin no cell after so many minutes.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Play nothing; show what there is.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Play nothing; say how many cells there are.")] = False,
) -> None:
    """Train with every rule under every attack in every setting of a grid, and rank the rules by their worst case.

    Cells are played side by side. A cell that is done is never played again, whatever else changes in the grid; one
    that was interrupted goes on from where it was; one that fails is noted and tried again the next time. The results
    are in OUT/results.parquet; `holdfast report OUT` makes a page of them.

    Exit code 0, or 2 if the grid cannot be compared, or 1 if cells failed, or 130 if it was stopped by Ctrl-C.
    """
    _check_extra()
    from holdfast.sweeps.runs.comparison import Comparison
    from holdfast.sweeps.runs.grid import read_grid

    folder = out if out is not None else COMPARISONS / Path(grid).stem
    comparison = Comparison(read_grid(grid), folder)
    if dry_run:
        _say_how_many(comparison)
        return
    stopped, failed = False, 0
    if not show:
        try:
            failed = _play(comparison, _pool(jobs, ray), limit, None if minutes is None else 60.0 * minutes)
        except KeyboardInterrupt:
            stopped = True
    _show(comparison)
    if stopped:
        Console(stderr=True).print("stopped; the same command goes on from here", highlight=False)
        raise typer.Exit(130)
    if failed:
        raise typer.Exit(1)


def _check_extra() -> None:
    if find_spec("polars") is None:
        raise RunError("polars is not installed, and a comparison needs it: pip install 'holdfast[compare]'")


def _pool(jobs: int | None, ray: str | None) -> Pool:
    from holdfast.sweeps.pool import WorkerProcesses
    from holdfast.sweeps.ray import RayCluster

    return WorkerProcesses(jobs=jobs or usual_jobs()) if ray is None else RayCluster(address=ray)


def _play(comparison: Comparison, pool: Pool, limit: int | None, seconds: float | None) -> int:
    """Play the comparison and show how far it is; return how many cells have failed."""
    console = Console(stderr=True)
    failed = 0
    with _shown(console) as shown:
        for stage in comparison.play(pool, limit=limit, seconds=seconds):
            failed = stage.failed
            if stage.reason is not None and stage.last is not None:
                what = ", ".join(f"{key} {value}" for key, value in stage.last.settings.items())
                console.print(f"failed: {harmless(what)}: {harmless(stage.reason)}", markup=False, highlight=False)
            shown(stage)
    return failed


class _Shown(Protocol):
    """Takes note of a stage."""

    def __call__(self, stage: Stage) -> None: ...


@contextmanager
def _shown(console: Console) -> Iterator[_Shown]:
    """Yield what shows stages: a bar in a terminal, lines elsewhere."""
    pace = _Pace()
    if not console.is_terminal:
        yield lambda stage: pace.line(stage, console)
        return
    columns = (
        TextColumn("cells"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("cells", total=None, left="")

        def update(stage: Stage) -> None:
            done = stage.finished + stage.failed
            progress.update(task, total=done + stage.left, completed=done, left=pace.left(stage))

        yield update


class _Pace:
    """How long it will take, from how long it took."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()
        self._first: int | None = None

    def left(self, stage: Stage) -> str:
        """Return the time left at the pace so far."""
        if self._first is None:
            self._first, self._began = stage.left, time.monotonic()
        done = self._first - stage.left
        if not done:
            return ""
        return f"{clock((time.monotonic() - self._began) / done * stage.left)} left"

    def line(self, stage: Stage, console: Console) -> None:
        """Print a line at the beginning, at the end, and once in a while."""
        now, begun, left = time.monotonic(), self._first is not None, self.left(stage)
        if begun and stage.left and now - self._said < SILENCE:
            return
        self._said = now
        failed = f", {stage.failed} failed" if stage.failed else ""
        refused = f", {stage.refused} refused" if stage.refused else ""
        words = [f"{stage.finished} of {plural(stage.total, 'cell')}{failed}{refused}", f"{stage.left} to play", left]
        console.print(", ".join(filter(None, words)), highlight=False, soft_wrap=True)


def _say_how_many(comparison: Comparison) -> None:
    stage = comparison.stage(0)
    left = len(comparison.runs) - stage.finished
    refused = f"; {stage.refused} refused by their rules, which need more rows" if stage.refused else ""
    typer.echo(
        f"{plural(len(comparison.cells), 'point')} of the grid, {plural(stage.total, 'different run')}{refused}; "
        f"{stage.finished} done in {comparison.path}, {left} to play"
    )


def _show(comparison: Comparison) -> None:
    """Print the ranking and the commentary on it."""
    from holdfast.reports.comparison_tables import critical_reading, ranking_table
    from holdfast.reports.panels import Code
    from holdfast.reports.render import terminal
    from holdfast.sweeps.runs.ranking import ranking

    results = comparison.results()
    page = Code(
        key="page",
        title=f"results in {comparison.path}; make a page of them with",
        text=f"holdfast report {shlex.quote(str(comparison.path))}",
    )
    terminal.show(ranking_table(ranking(results)), critical_reading(results), page)
