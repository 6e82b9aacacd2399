"""The exit code of a run that is no success."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

NO_SUCCESS = 3
"""The exit code of a run that went to its end and is no success: `steadfed.server.outcome_of` says when."""


def exit_unless_success(path: Path) -> None:
    """Say on stderr why the run in a folder is no success, and end with the exit code for that; if it is one, go on."""
    from steadfed.server._history import open_run

    reasons = open_run(path).outcome.reasons
    for reason in reasons:
        Console(stderr=True).print(f"no success: {reason}", highlight=False, markup=False, soft_wrap=True)
    if reasons:
        raise typer.Exit(NO_SUCCESS)
