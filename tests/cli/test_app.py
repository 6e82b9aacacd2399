"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.commands import ONE_THREAD, PROGRAM, run

from holdfast import __version__


def test_neither_the_package_nor_the_help_imports_torch() -> None:
    code = "import sys, holdfast, holdfast.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_version() -> None:
    assert run("--version").strip() == f"holdfast {__version__}"


def test_letters_that_the_terminal_cannot_show_are_no_error() -> None:
    plain = {**ONE_THREAD, "PYTHONIOENCODING": "ascii"}
    command = [*PROGRAM, "list", "models", "mlp"]
    shown = subprocess.run(command, env=plain, capture_output=True, check=True)  # noqa: S603
    assert b"(? / 2) ?x??" in shown.stdout
