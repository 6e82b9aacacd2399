"""`steadfed run` and `steadfed resume`: a run in a folder, shown while it runs."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from steadfed._cli.folders import default_jobs, require_run
from steadfed._cli.outcome import exit_unless_success
from steadfed._cli.progress import RunProgress, progress_display
from steadfed._cli.run_loop import follow
from steadfed._core.wording import plural
from steadfed.server._places import reserve_folder

if TYPE_CHECKING:
    from steadfed.runs import Run
    from steadfed.simulation import RunConfig

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change the configuration: lr=0.05, rule.byzantine_fraction=0.3, rule=median or rule=my_rules:mine (a "
        "table begun anew); repeatable.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Processes that take the clients' steps; the results do not depend on it. One per core, at most 8, if "
        "left out.",
    ),
]
NoCode = Annotated[
    bool,
    typer.Option(
        "--no-code",
        help="Load no data and build no model: nothing is executed or downloaded that a configuration names.",
    ),
]
"""For files of somebody else."""
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but the folder of the run.")]


def run(
    config: Annotated[Path, typer.Argument(help="A TOML file; `steadfed init` writes one to start from.")],
    set_: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder of the run; runs/NAME-1 (or -2, …) after the name of CONFIG if left out."),
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Run a configuration in a folder of its own, which survives a crash at any moment.

    Progress goes to stderr: a bar in a terminal, lines elsewhere. Ctrl-C stops after the round in progress, Ctrl-C
    once more at once; nothing is lost either way, and `steadfed resume` continues to the same results.

    Executes code that the configuration names (import, torch-dataset): data, model, rule, attack; downloads data.

    Exit code 0, or 2 if the run cannot go on, or 3 if it is complete and every round of it was skipped, or 130 (143) if
    it was stopped by Ctrl-C (SIGTERM). Clients that a configuration makes silent are no failure of a simulation.
    """
    from steadfed.runs import read_config

    chosen = read_config(config, set_ or [])
    watch(_start_run(chosen, out, config.stem, jobs or default_jobs(chosen.device)), quiet=quiet)


def resume(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that was interrupted.")],
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Continue a run that was stopped or killed; it ends with the same results as if it had not been.

    Relative paths and import paths in its configuration start at the current folder, as they did for `steadfed run`.
    Executes code that the configuration names, as `steadfed run` does. The source of a rule or an attack of your own
    must be what the run was started with.

    Exit codes are those of `steadfed run`; a run that is complete is shown.
    """
    from steadfed.runs import Run, config_of
    from steadfed.server._folder import RunFolder

    folder = RunFolder.open(require_run(path))
    if folder.summary() is not None:
        if not quiet:
            Console(stderr=True).print(f"{path} is complete.", highlight=False, soft_wrap=True)
        print_overview(folder.path, quiet=quiet)
        exit_unless_success(folder.path)
        return
    watch(Run.resume(path, jobs=jobs or default_jobs(config_of(folder).device)), quiet=quiet)


def _start_run(config: RunConfig, out: Path | None, stem: str, jobs: int) -> Run:
    """Return the new run; a folder that was made for it does not stay if it cannot start."""
    from steadfed.runs import Run

    if out is not None:
        return Run.start(config, out, jobs=jobs)
    path = reserve_folder(stem)
    try:
        return Run.start(config, path, jobs=jobs)
    except BaseException:
        with suppress(OSError):
            path.rmdir()
        raise


def watch(run: Run, *, quiet: bool) -> None:
    """Play the run to its end or until a signal, and show what came of it."""
    path, console = run.folder.path, Console(stderr=True)
    progress = RunProgress(run.config.rounds, run.folder.num_rounds())
    if not quiet:
        done = f", {progress.done:,} of them done" if progress.done else ""
        console.print(f"{path}: {plural(progress.total, 'round')}{done}", highlight=False, soft_wrap=True)
    heard = follow({"": run}, progress_display({"": progress}, quiet=quiet))
    if heard is not None:
        text = f"stopped after {run.folder.num_rounds():,} of {plural(progress.total, 'round')}; continue with"
        console.print(f"{text}\n  steadfed resume {shlex.quote(str(path))}", highlight=False, soft_wrap=True)
        raise typer.Exit(128 + heard)
    print_overview(path, quiet=quiet)
    exit_unless_success(path)


def print_overview(path: Path, *, quiet: bool) -> None:
    """Show what came of a run."""
    if quiet:
        typer.echo(str(path))
    else:
        from steadfed.reports._render import terminal
        from steadfed.reports._sections.overview import overview
        from steadfed.server._history import open_run

        terminal.show(overview(open_run(path)))
