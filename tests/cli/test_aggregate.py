"""`steadfed aggregate`, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.commands import refused, run
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed.attacks import Cluster
from steadfed.sweeps.matrices._populations import attacked_population


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    staged = attacked_population("iso", Cluster(strength=30.0), cohort_size=20, dim=100, num_byzantine=4)
    path = tmp_path / "updates.npy"
    np.save(path, staged.updates.numpy())
    return path


def test_aggregate_names_the_removed_clients(matrix: Path) -> None:
    assert "4: 0-3" in run("aggregate", str(matrix), "--byzantine-fraction", "0.2")


def test_aggregate_hands_over_what_a_rule_must_know(
    matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = tmp_path / "trusted.npy"
    np.save(trusted, np.load(matrix)[4:].mean(0))
    assert "FlTrust" in run("aggregate", str(matrix), "--rule", "fltrust", "--trusted-row", str(trusted))
    assert "trusted_row=" in refused(capsys, monkeypatch, "aggregate", str(matrix), "--rule", "fltrust")
    wrong = refused(capsys, monkeypatch, "aggregate", str(matrix), "--rule", "fltrust", "--trusted-row", str(matrix))
    assert "must be a tensor of 100 numbers" in wrong


def test_aggregate_takes_wrappers_by_name(matrix: Path) -> None:
    assert "4: 0-3" in run("aggregate", str(matrix), "--rule", "nnm+krum", "--num-byzantine", "4")


def test_aggregate_writes_the_update_and_prints_json(matrix: Path, tmp_path: Path) -> None:
    out = tmp_path / "update.npy"
    evidence = json.loads(run("aggregate", str(matrix), "--set", "num_byzantine=4", "--json", "--out", str(out)))
    assert evidence["kept"] == [False] * 4 + [True] * 16
    assert np.load(out).shape == (100,)
    assert np.load(out).dtype == np.float32


def test_aggregate_reads_a_rule_from_toml(matrix: Path, tmp_path: Path) -> None:
    config = tmp_path / "rule.toml"
    config.write_text('[rule]\nname = "krum"\nnum_byzantine = 4\n')
    assert "Krum(num_byzantine=4)" in run("aggregate", str(matrix), "--config", str(config))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected one table [rule]"),
        ("rule = 3", "expected one table [rule]"),
        ('[rule]\nname = "mean"\n[other]\nx = 1', "got the keys ['other', 'rule']"),
        ("[rule]\nbyzantine_fraction = 0.1", "expected a table with the name of a rule"),
        ("[rule", "not valid TOML"),
    ],
)
def test_aggregate_refuses_toml_that_is_no_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    config = tmp_path / "rule.toml"
    config.write_text(text)
    assert words in refused(capsys, monkeypatch, "aggregate", "updates.npy", "--config", str(config))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rule", "rag"], "did you mean 'rage'"),
        (["--set", "kapa=3", "--byzantine-fraction", "0.2"], "did you mean 'kappa'"),
        (["--set", "kappa"], "KEY=VALUE, got 'kappa'"),
        (["--byzantine-fraction", "0.7"], "less than 0.5, got 0.7"),
        ([], "exactly one of byzantine_fraction"),
        (["--config", "missing.toml"], "cannot read the rule in 'missing.toml'"),
        (["--config", "x.toml", "--rule", "krum"], "describes the whole rule"),
        (["--num-byzantine", "2", "--set", "num_byzantine=3"], "contradicts --set num_byzantine=3"),
        (["--num-byzantine", "2", "--byzantine-fraction", "0.1"], "got both"),
        (["--num-byzantine", "2", "--out", "/nowhere/update.npy"], "cannot write the update"),
    ],
)
def test_wrong_options_say_what_is_allowed(
    matrix: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert message in refused(capsys, monkeypatch, "aggregate", str(matrix), *arguments)


def test_a_broken_promise_is_exit_code_one(matrix: Path) -> None:
    arguments = ["aggregate", str(matrix), "--num-byzantine", "4", "--set", "mode=known", "--set", "sigma0=0.001"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "assumption violated" in result.output


def test_files_that_are_no_matrix_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing, text, pickled = tmp_path / "missing.npy", tmp_path / "text.npy", tmp_path / "pickled.npy"
    text.write_text("not a matrix")
    np.save(pickled, np.array([{"an": "object"}], dtype=object), allow_pickle=True)
    for path in (missing, text, pickled):
        assert "cannot read" in refused(capsys, monkeypatch, "aggregate", str(path), "--byzantine-fraction", "0.1")
