"""The command line, as a user meets it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from holdfast import __version__
from holdfast.aggregators import RULES
from holdfast.attacks import ATTACKS, Cluster
from holdfast.cli import main
from holdfast.cli.app import app
from holdfast.cli.gauntlet import _ranking
from holdfast.gauntlet import read_records, standings
from holdfast.scenes import scene


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    staged = scene("iso", Cluster(strength=30.0), cohort_size=20, dim=100, num_byzantine=4)
    path = tmp_path / "updates.npy"
    np.save(path, staged.updates.numpy())
    return path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["holdfast", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_neither_the_package_nor_the_help_imports_torch() -> None:
    code = "import sys, holdfast, holdfast.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_demo_shows_that_rage_removes_the_liars_and_the_mean_does_not() -> None:
    output = run("demo")
    section = output.split("far cluster")[1].split("├")[0]
    assert "nobody" in next(line for line in section.splitlines() if "mean" in line)
    assert "0-9" in next(line for line in section.splitlines() if "rage" in line)


def test_list_names_parameters_knowledge_and_citation_of_every_rule_and_attack() -> None:
    output = run("list", "rules")
    for word in (
        "rage",
        "krum",
        "byzantine_fraction",
        "kappa = 3.0  (number >= 1.0)",
        "auto | known | exact",
        "trusted row",
    ):
        assert word in output
    for rule in RULES.values():
        assert rule.citation in " ".join(output.split())
    output = run("list", "attacks")
    for word in ("alie", "must know own, rule, makes use of honest", "chunk_size = 1000  (integer >= 1)"):
        assert word in output
    for attack in ATTACKS.values():
        assert attack.citation in " ".join(output.split())
    assert "krum" not in run("list", "rules", "rage")


@pytest.mark.parametrize(("kind", "wrong", "right"), [("rules", "krumm", "krum"), ("attacks", "alei", "alie")])
def test_list_refuses_an_unknown_name_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str, wrong: str, right: str
) -> None:
    assert f"did you mean '{right}'" in refused(capsys, monkeypatch, "list", kind, wrong)


def test_gauntlet_ranks_rules_and_says_where_rage_is_not_the_best(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    options = ("--rules", "rage,median,krum", "--attacks", "none,nan,alie", "--models", "iso", "--dims", "5,50")
    cohort = ("--cohort-sizes", "12", "--byzantine-fractions", "0.25")
    output = run("gauntlet", *options, *cohort, "--out", str(out))
    for word in ("worst", "d=50", "krum", "rage", "18 records"):
        assert word in output
    again = json.loads(run("gauntlet", *options, *cohort, "--out", str(out), "--json"))
    assert {standing["rule"] for standing in again} == {"rage", "median", "krum"}
    assert len(out.read_text().splitlines()) == 18
    assert json.loads(run("gauntlet", "--show", str(out), "--json")) == again


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "ful"), "did you mean 'full'"),
        (("--rules", "krumm"), "did you mean 'krum'"),
        (("--dims", "ten"), "--dims takes whole numbers"),
        (("--byzantine-fractions", "0.7"), "less than 0.5"),
        (("--out", "/nowhere/records.jsonl"), "cannot write records"),
        (("--models", "file:nowhere.npy"), "cannot read 'nowhere.npy'"),
    ],
)
def test_gauntlet_refuses_what_it_cannot_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, monkeypatch, "gauntlet", *options)


def test_gauntlet_fits_a_narrow_terminal_and_says_what_is_not_there(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    options = ("--rules", "rage,krum", "--attacks", "alie", "--models", "iso", "--dims", "4,1000")
    run("gauntlet", *options, "--cohort-sizes", "4", "--byzantine-fractions", "0.25", "--out", str(out))
    records = read_records(out)
    narrow = Console(width=80, record=True, file=io.StringIO())
    narrow.print(_ranking(standings(records), narrow.width))
    text = narrow.export_text()
    assert "…" not in text
    assert "nan" not in text
    assert "refused every matrix" in text
    assert "worst case of" not in run("gauntlet", "--rules", "rage", *options[2:6], "--dims", "4")

    def no_such(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    krum = json.loads(run("gauntlet", "--show", str(out), "--json"), parse_constant=no_such)[1]
    assert (krum["rule"], krum["mean_error"], krum["num_refused"]) == ("krum", None, 2)


def test_list_shows_a_wrapper_and_what_is_inside() -> None:
    output = run("list", "rules", "nnm+krum")
    assert output.startswith("nnm\n")
    assert "\nkrum\n" in output


def test_version() -> None:
    assert run("--version").strip() == f"holdfast {__version__}"


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
    ("arguments", "message"),
    [
        (["--rule", "rag"], "did you mean 'rage'"),
        (["--set", "kapa=3", "--byzantine-fraction", "0.2"], "did you mean 'kappa'"),
        (["--set", "kappa"], "KEY=VALUE, got 'kappa'"),
        (["--byzantine-fraction", "0.7"], "less than 0.5, got 0.7"),
        ([], "exactly one of byzantine_fraction"),
        (["--config", "missing.toml"], "cannot read 'missing.toml'"),
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
    assert "promise broken" in result.output


def test_files_that_are_no_matrix_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing, text, pickled = tmp_path / "missing.npy", tmp_path / "text.npy", tmp_path / "pickled.npy"
    text.write_text("not a matrix")
    np.save(pickled, np.array([{"an": "object"}], dtype=object), allow_pickle=True)
    for path in (missing, text, pickled):
        assert "cannot read" in refused(capsys, monkeypatch, "aggregate", str(path), "--byzantine-fraction", "0.1")
