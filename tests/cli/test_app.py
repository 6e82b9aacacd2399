"""The command line as a whole."""

from __future__ import annotations

import subprocess

import click
import typer
from tests.cli.commands import ONE_THREAD, PROGRAM, run
from typer.testing import CliRunner

from steadfed import __version__
from steadfed._cli.app import app


def test_version() -> None:
    assert run("--version").strip() == f"steadfed {__version__}"


def test_help_keeps_square_brackets_and_wraps_the_lines_of_a_paragraph_once() -> None:
    assert "A TOML file with a table [rule], instead of the above." in run("aggregate", "--help")
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    for command in ("run", "resume", "compare"):
        paragraphs = str(group.commands[command].help).split("\n\n")
        shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "1000"}).output.replace("`", "")
        for paragraph in paragraphs:
            assert " ".join(paragraph.replace("`", "").split()) in shown


def test_letters_that_the_terminal_cannot_show_are_no_error() -> None:
    plain = {**ONE_THREAD, "PYTHONIOENCODING": "ascii"}
    command = [*PROGRAM, "list", "models", "mlp"]
    shown = subprocess.run(command, env=plain, capture_output=True, check=True)  # noqa: S603
    assert b"(? / 2) ?x??" in shown.stdout
