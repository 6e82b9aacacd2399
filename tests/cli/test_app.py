"""The command line as a whole."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import click
import pytest
import typer
from rich.cells import cell_len
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


def _commands(group: click.Group, *before: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, *before, name)
        else:
            yield (*before, name)


WHOLE = typer.main.get_command(app)
assert isinstance(WHOLE, click.Group)
COMMANDS = tuple(_commands(WHOLE))


def _found(words: tuple[str, ...]) -> click.Command:
    command: click.Command = WHOLE
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
    return command


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_80_columns_and_loses_no_letter(words: tuple[str, ...]) -> None:
    command = _found(words)
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if cell_len(line) > 80] == []
    shown = _letters(" ".join(_cells(result.output)))
    for option in command.params:
        assert isinstance(option, click.Option | click.Argument)
        help_text = getattr(option, "help", None) or ""
        assert _letters(help_text) in shown, help_text
        for name in (*option.opts, *option.secondary_opts) if isinstance(option, click.Option) else ():
            assert name in result.output
    for paragraph in (command.help or "").split("\n\n"):
        assert _letters(paragraph) in _letters(result.output)


def _letters(text: str) -> str:
    """Return a text without blanks, frames and what marks code."""
    return re.sub(r"[\s`│]", "", text)


def _cells(output: str) -> Iterator[str]:
    """Yield what stands in the last column of the tables, line by line."""
    for line in output.splitlines():
        if line.startswith("│"):
            yield re.split(r"\s{2,}", line.strip("│").strip())[-1]
        else:
            yield line


def test_letters_that_the_terminal_cannot_show_are_no_error() -> None:
    plain = {**ONE_THREAD, "PYTHONIOENCODING": "ascii"}
    command = [*PROGRAM, "list", "models", "mlp"]
    shown = subprocess.run(command, env=plain, capture_output=True, check=True)  # noqa: S603
    assert b"(? / 2) ?x??" in shown.stdout
