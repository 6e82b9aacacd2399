"""The command line as a whole."""

from __future__ import annotations

import subprocess

from tests.cli.commands import ONE_THREAD, PROGRAM, run

from holdfast import __version__


def test_version() -> None:
    assert run("--version").strip() == f"holdfast {__version__}"


def test_letters_that_the_terminal_cannot_show_are_no_error() -> None:
    plain = {**ONE_THREAD, "PYTHONIOENCODING": "ascii"}
    command = [*PROGRAM, "list", "models", "mlp"]
    shown = subprocess.run(command, env=plain, capture_output=True, check=True)  # noqa: S603
    assert b"(? / 2) ?x??" in shown.stdout
