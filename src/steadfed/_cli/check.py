"""`steadfed check`: what a configuration means before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steadfed._cli.folders import default_jobs
from steadfed._cli.run import Jobs, NoCode, Settings


def check(
    config: Annotated[Path, typer.Argument(help="A TOML file; `steadfed init` writes one to start from.")],
    set_: Settings = None,
    jobs: Jobs = None,
    no_code: NoCode = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if there is a warning.")] = False,
) -> None:
    """Show what a configuration resolves to, the memory it will need, and what it cannot guarantee. Runs nothing.

    Loads the data, builds the model and tries a rule and an attack of your own on random numbers: code that CONFIG
    names for them (import, torch-dataset) is executed, data that it names are downloaded. With --no-code neither
    happens; then the report says which code that would be, and what the configuration says by itself.

    Exit code 0, or 2 if the configuration cannot run.
    """
    from steadfed.reports._render import terminal
    from steadfed.reports.panels import Text, Tone, facts_table
    from steadfed.runs import read_config
    from steadfed.runs._check import check as look, outline

    chosen = read_config(config, set_ or [])
    report = outline(chosen) if no_code else look(chosen, jobs=jobs or default_jobs(chosen.device))
    terminal.show(facts_table("check", str(config), report.facts))
    for warning in report.warnings:
        terminal.show(Text(key="warning", title="", paragraphs=(f"warning: {warning}",), tone=Tone.WARNING))
    if strict and report.warnings:
        raise typer.Exit(1)
