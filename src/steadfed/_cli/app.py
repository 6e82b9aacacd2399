"""The commands of steadfed, in the order in which one meets them."""

from __future__ import annotations

from typing import Annotated

import typer

from steadfed import __version__
from steadfed._cli import federation
from steadfed._cli.aggregate import aggregate
from steadfed._cli.audit import audit
from steadfed._cli.certify import certify
from steadfed._cli.check import check
from steadfed._cli.compare import compare
from steadfed._cli.demo import demo
from steadfed._cli.export import export
from steadfed._cli.gauntlet import gauntlet
from steadfed._cli.init import init
from steadfed._cli.list import list_
from steadfed._cli.plan import plan
from steadfed._cli.report import report
from steadfed._cli.run import resume, run
from steadfed._cli.show import show
from steadfed._cli.ui import ui
from steadfed._cli.verify import verify

app = typer.Typer(
    help="Federated learning that keeps learning when some of the clients lie.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # lines of a docstring are wrapped once, and a table [rule] is no style
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (demo, init, check, plan, run, resume, show, report, audit, verify, certify):
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
        typer.echo(f"steadfed {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself."""
