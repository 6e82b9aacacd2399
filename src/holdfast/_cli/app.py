"""The commands of holdfast, in the order in which one meets them."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast import __version__
from holdfast._cli import federation
from holdfast._cli.aggregate import aggregate
from holdfast._cli.audit import audit
from holdfast._cli.certify import certify
from holdfast._cli.check import check
from holdfast._cli.compare import compare
from holdfast._cli.demo import demo
from holdfast._cli.export import export
from holdfast._cli.gauntlet import gauntlet
from holdfast._cli.init import init
from holdfast._cli.list import list_
from holdfast._cli.plan import plan
from holdfast._cli.report import report
from holdfast._cli.run import resume, run
from holdfast._cli.show import show
from holdfast._cli.ui import ui

app = typer.Typer(
    help="Federated learning that keeps learning when some of the clients are Byzantine.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # lines of a docstring are wrapped once, and a table [rule] is no style
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (demo, init, check, plan, run, resume, show, report, audit, certify):
    app.command()(command)
app.command("list")(list_)
app.command()(gauntlet)
app.command()(compare)
app.command()(aggregate)
app.command()(ui)
app.command()(export)
app.add_typer(federation.app, name="federation")


def _version(wanted: bool) -> None:  # noqa: FBT001  typer's callback
    if wanted:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself."""
