"""`steadfed compare`."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console
from tests.cli.commands import refused, run
from tests.sweeps.runs.grids import NAMED, SMALL, Witness, result
from typer.testing import CliRunner

from steadfed._cli import compare
from steadfed._cli.app import app
from steadfed.reports._comparison_tables import ranking_table
from steadfed.reports._render import terminal
from steadfed.sweeps.runs._ranking import ranking


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compare, "_pool", lambda jobs, ray: Witness())
    path = tmp_path / "mine.toml"
    path.write_text(SMALL)
    return path


def test_the_command_plays_shows_and_says_where_the_results_are(grid: Path) -> None:
    assert "16 points of the grid, 16 different runs; 0 done in comparisons/mine, 16 to run" in run(
        "compare", str(grid), "--dry-run"
    )
    shown = run("compare", str(grid), "--limit", "10")
    assert "Not all is there: of 16 points 10 finished, 6 waiting" in shown
    shown = run("compare", str(grid))
    assert "steadfed report comparisons/mine" in shown
    assert "oracle" in shown
    assert "median" in shown
    assert Path("comparisons/mine/results.parquet").is_file()
    assert run("compare", str(grid), "--show").splitlines()[-1] == shown.splitlines()[-1]


def test_settings_that_have_names_are_shown_one_by_one_and_played_once(grid: Path) -> None:
    grid.write_text(NAMED)
    shown = run("compare", str(grid), "--limit", "14")
    assert "rage and the strongest other rule" in shown
    assert "│ few " in shown
    run("compare", str(grid))
    assert ", 0 to run" in run("compare", str(grid), "--dry-run")


def test_a_narrow_terminal_shows_the_rules_and_their_worst_cases() -> None:
    rows = [result(rule, attack, 0.5 + 0.1 * seed, seed=seed) for rule in ("rage", "nnm+trimmed-mean")
            for attack in ("none", "sign-flip") for seed in range(3)]  # fmt: skip
    console = Console(width=80, file=StringIO())
    terminal.show(ranking_table(ranking(rows)), console=console)
    shown = cast("StringIO", console.file).getvalue()
    assert "nnm+trimmed-mean" in shown
    lines = [line for line in shown.splitlines() if "nnm+trimmed-mean" in line]
    assert all("60.0 % │ 24.8 %" in line for line in lines)
    assert lines
    assert "No room for: " in shown
    assert "…" not in shown


def test_failed_cells_give_exit_code_1_and_a_line_that_cannot_act(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bad.py").write_text("def model(dataset):\n    raise ValueError('\\x1b[2J')\n")
    grid.write_text(SMALL.replace('{ name = "softmax-regression" }', '{ name = "import", factory = "bad:model" }'))
    result = CliRunner().invoke(app, ["compare", str(grid), "--limit", "1"])
    assert result.exit_code == 1
    assert "failed: " in result.stderr
    assert "\x1b[2J" not in result.output


def test_bad_grids_are_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.toml").write_text(SMALL.replace('"median"', '"mediam"'))
    shown = refused(capsys, monkeypatch, "compare", str(tmp_path / "bad.toml"))
    assert "grid.rule = 'mediam': unknown rule 'mediam', did you mean 'median'?" in shown


def test_a_missing_extra_names_the_command_that_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    assert "pip install 'steadfed[compare]'" in refused(capsys, monkeypatch, "compare", "quick")


def test_the_help_imports_nothing_heavy() -> None:
    code = "import sys, steadfed._cli; sys.exit(bool({'polars', 'scipy', 'ray', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603
