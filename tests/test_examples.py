"""The examples run as they are shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import ONE_THREAD

from steadfed._cli.init import starting_text
from steadfed.server._folder import RunFolder

EXAMPLES = Path(__file__).parents[1] / "examples"


def output_of(name: str, folder: Path, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, cwd=folder, env=ONE_THREAD, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    elsewhere = {"convex.toml"}  # tests/certification/test_certify.py
    tested = {"first_run.py", "own_model_and_data.py", "compare_rules.py", "run.toml"} | elsewhere
    assert {path.name for path in EXAMPLES.glob("*.*")} == tested


def test_the_first_run_learns_and_leaves_a_run(tmp_path: Path) -> None:
    output = output_of("first_run.py", tmp_path)
    assert output.startswith("round 1: accuracy")
    summary = RunFolder.open(tmp_path / "runs" / "first").summary()
    assert summary is not None
    assert summary["last"]["test_accuracy"] > 0.8


def test_the_first_run_is_ten_lines_of_code() -> None:
    lines = (EXAMPLES / "first_run.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines[1:] if line]) <= 12


def test_own_model_and_data_learns(tmp_path: Path) -> None:
    last = output_of("own_model_and_data.py", tmp_path, "rings").splitlines()[-1]
    assert last.startswith("round 40: accuracy 9")
    assert RunFolder.open(tmp_path / "rings").num_rounds() == 40


@pytest.mark.parametrize("rounds", ["2"])
def test_compare_rules_shows_a_table(tmp_path: Path, rounds: str) -> None:
    lines = output_of("compare_rules.py", tmp_path, "rules", rounds).splitlines()
    assert [line.split()[0] for line in lines] == ["none", "mean", "median", "nnm+krum", "rage"]
    assert all(line.count("%") == 4 for line in lines[1:])


def test_the_configuration_is_what_init_writes() -> None:
    assert (EXAMPLES / "run.toml").read_text(encoding="utf-8") == starting_text()
