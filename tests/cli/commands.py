"""Commands as tests give them."""

from __future__ import annotations

import os
import sys
from contextvars import copy_context
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steadfed._cli import main
from steadfed._cli.app import app

SMALL = """
rounds = 6
cohort_size = 8
batch_size = 4
partition = { name = "iid", num_clients = 12 }
model = { name = "softmax-regression" }
rule = { name = "rage", num_byzantine = 3 }
byzantine = { name = "fixed", clients = [0, 5] }
attack = { name = "scaling", factor = 50.0 }
"""
"""A configuration that takes no time; two clients send fifty times what they should."""
PROGRAM = (sys.executable, "-c", "from steadfed._cli import main; main()")
"""The command line as a process."""
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(*arguments: str) -> str:
    """Return what a command prints to stdout."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return what a command that must fail with exit code 2 prints to stderr."""
    monkeypatch.setattr(sys, "argv", ["steadfed", *arguments])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as stopped:
        copy_context().run(main)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def small_config(folder: Path, more: str = "") -> Path:
    """Write the small configuration."""
    path = folder / "small.toml"
    path.write_text(more + SMALL, encoding="utf-8")
    return path
