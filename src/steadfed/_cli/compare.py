"""`steadfed compare`: rules against attacks over a grid of settings, with training."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from steadfed._cli.folders import default_jobs
from steadfed._cli.progress import RunProgress, progress_display
from steadfed._core.wording import harmless, plural

if TYPE_CHECKING:
    from steadfed.sweeps._pool import Pool
    from steadfed.sweeps.runs._comparison import Comparison

COMPARISONS = Path("comparisons")
"""The folder that holds the comparisons that were given no other place."""


def compare(
    grid: Annotated[
        str, typer.Argument(help="A TOML file in which lists mean grids; or quick, resilience, bucketing, paper.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The folder of the comparison; comparisons/NAME if left out. Cells in it stay.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes to use; one per core, at most 8, if left out.")
    ] = None,
    ray: Annotated[str | None, typer.Option(help="Run on the Ray cluster at this address, such as auto.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Run at most so many cells.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Begin no cell after so many minutes.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; show what there is.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Run nothing; say how many cells there are.")] = False,
) -> None:
    """Train with every rule under every attack in every setting of a grid, and rank the rules by their worst case.

    Cells run side by side. A cell that is done is never run again, whatever else changes in the grid; one
    that was interrupted goes on from where it was; one that fails is noted and tried again the next time. The results
    are in OUT/results.parquet; `steadfed report OUT` makes a page of them.

    Loads data and builds models, with --show and --dry-run as well: code that GRID names for them, or as a rule or an
    attack (import, torch-dataset), is executed, data that it names are downloaded. A rule of your own whose source was
    changed is another rule, whose cells are played anew.

    Exit code 0, or 2 if the grid cannot be compared, or 1 if cells failed, or 130 if it was stopped by Ctrl-C.
    """
    from steadfed.sweeps.runs._comparison import Comparison
    from steadfed.sweeps.runs._grid import read_grid
    from steadfed.sweeps.runs._parquet import require_polars

    require_polars()
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


def _pool(jobs: int | None, ray: str | None) -> Pool:
    from steadfed.sweeps._pool import WorkerProcesses
    from steadfed.sweeps._ray import RayCluster

    return WorkerProcesses(jobs=jobs or default_jobs()) if ray is None else RayCluster(address=ray)


def _play(comparison: Comparison, pool: Pool, limit: int | None, seconds: float | None) -> int:
    """Run the comparison and show how far it is; return how many cells have failed."""
    failed = 0
    with progress_display({"": RunProgress(0, noun="cell")}) as watch:
        for progress in comparison.play(pool, limit=limit, seconds=seconds):
            failed = progress.failed
            if progress.reason is not None and progress.last is not None:
                what = ", ".join(f"{key} {value}" for key, value in progress.last.settings.items())
                watch.note(f"failed: {harmless(what, limit=200)}: {harmless(progress.reason, limit=200)}")
            done = progress.finished + progress.failed
            counts = {"failed": progress.failed, "refused": progress.refused}
            words = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
            watch.count("", done, done + progress.left, words)
    return failed


def _say_how_many(comparison: Comparison) -> None:
    progress = comparison.progress(0)
    left = len(comparison.runs) - progress.finished
    refused = f"; {progress.refused} refused by their rules, which need more updates" if progress.refused else ""
    typer.echo(
        f"{plural(len(comparison.cells), 'point')} of the grid, {plural(progress.total, 'different run')}{refused}; "
        f"{progress.finished} done in {comparison.path}, {left} to run"
    )


def _show(comparison: Comparison) -> None:
    """Print the ranking and the commentary on it."""
    from steadfed.reports._comparison_settings import duel_table
    from steadfed.reports._comparison_tables import critical_reading, ranking_table
    from steadfed.reports._render import terminal
    from steadfed.reports.panels import Code
    from steadfed.sweeps.runs._choices import SETTING
    from steadfed.sweeps.runs._ranking import ranking

    results = comparison.results()
    by_setting = [duel_table(results)] if any(SETTING in row.settings for row in results) else []
    page = Code(
        key="page",
        title=f"results in {comparison.path}; make a page of them with",
        text=f"steadfed report {shlex.quote(str(comparison.path))}",
    )
    terminal.show(ranking_table(ranking(results)), *by_setting, critical_reading(results), page)
