"""`steadfed certify`, as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.certification.small import convex, played
from tests.cli.commands import refused, run
from tests.deployments import deployment
from tests.rewriting import change
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed.certification import Outcome, Subject, certify
from steadfed.reports._sections.theory import summary


@pytest.fixture
def complete(own_convex_run: Path) -> Path:
    """Return the folder of a run that is complete."""
    return own_convex_run


def flat(output: str) -> str:
    """Return the words of an output without the frames of tables."""
    return " ".join(output.replace("│", " ").split())


def test_a_run_is_judged_and_drawn(complete: Path) -> None:
    output = flat(run("certify", str(complete)))
    for words in (
        "complete",
        "measured at 5 models",
        "Byzantine updates in a cohort ✓ held",
        "error against the certificate ○ says nothing",
        "Nothing contradicts what is proved.",
        "certificate.svg",
    ):
        assert words in output
    assert (complete / "certificate.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_the_plot_goes_where_it_is_wanted(complete: Path, tmp_path: Path) -> None:
    run("certify", str(complete), "--plot", str(tmp_path / "plot.png"))
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert not (complete / "certificate.svg").exists()


def test_json_holds_everything(complete: Path) -> None:
    table = json.loads(run("certify", str(complete), "--json"))
    assert table["contradicted"] is False
    assert len(table["models"]) == 5
    assert {each["outcome"] for each in table["verdicts"]} == {"held", "says nothing"}


def test_an_interrupted_run_is_said_to_be_one(tmp_path: Path) -> None:
    output = flat(run("certify", str(played(tmp_path / "run", convex(), rounds=4))))
    assert "4 of 12 rounds run" in output


def test_a_run_that_kept_its_start_alone_tests_no_theorem(tmp_path: Path) -> None:
    output = flat(run("certify", str(played(tmp_path / "run", convex(), rounds=2))))
    assert "the run kept no model after its start" in output
    assert "The theorems were not put to the test" in output
    assert "Nothing contradicts" not in output


def test_theorems_that_promise_nothing_are_not_said_to_have_been_kept(complete: Path) -> None:
    found = certify(complete)
    silent = [replace(each, outcome=Outcome.VACUOUS) for each in found.verdicts if each.subject is Subject.GUARANTEE]
    said = summary(replace(found, verdicts=tuple(silent)))
    assert said == "The theorems were not put to the test, as they guarantee nothing of this run."


def test_a_sample_is_stated_above_what_was_measured_of_it(complete: Path) -> None:
    output = flat(run("certify", str(complete), "--clients", "3", "--points", "2"))
    assert "σ², κ²: the largest of 3 clients drawn at random out of" in output
    assert "drawn at random" not in flat(run("certify", str(complete)))


def test_a_contradiction_is_exit_code_one(complete: Path) -> None:
    change(complete, 0, error=1e6)
    result = CliRunner().invoke(app, ["certify", str(complete)], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "A bound was exceeded although all its conditions held" in result.stdout


def test_without_matplotlib_everything_but_the_plot_is_there(complete: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    output = flat(run("certify", str(complete)))
    assert "Nothing contradicts what is proved." in output
    assert "no plot: matplotlib is not installed; get it with: pip install 'steadfed[plot]'" in output
    assert not (complete / "certificate.svg").exists()


def test_bad_places_are_refused(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused(capsys, monkeypatch, "certify", str(complete), "--plot", "plot.gif")
    assert "got 'plot.gif'" in told
    assert ".pdf" in told
    assert "does not exist" in refused(capsys, monkeypatch, "certify", str(tmp_path / "nothing"))


def test_the_command_line_loads_neither_torch_nor_matplotlib() -> None:
    code = "import sys, steadfed._cli; sys.exit(bool({'torch', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_certificates_are_asked_about_the_spread_that_is_given(
    complete: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, wide = (json.loads(run("certify", str(complete), "--json", *extra)) for extra in ([], ["--sigma0", "50"]))
    assert all(each["sigma0"] == 50.0 for each in wide["filter"])
    pairs = [
        (each["certificate"], more["certificate"]) for each, more in zip(own["filter"], wide["filter"], strict=True)
    ]
    assert all(more is None or (each is not None and each <= more) for each, more in pairs)
    assert "it rests on σ₀ = 50" in flat(run("certify", str(complete), "--sigma0", "50"))
    told = refused(capsys, monkeypatch, "certify", str(complete), "--sigma0", "-1")
    assert "sigma0 must be a finite number above 0, got -1.0" in told


def test_a_deployment_is_judged_by_its_records(tmp_path: Path) -> None:
    path = deployment(tmp_path / "run").path
    output = flat(run("certify", str(path)))
    for words in (
        "complete",
        "Byzantine updates in a cohort",
        "the points are with the clients",
        "Nothing was measured",
    ):
        assert words in output
    assert not (path / "certificate.svg").exists()
    assert json.loads(run("certify", str(path), "--json"))["plan"] is None


def test_constants_of_a_deployment_can_be_given(tmp_path: Path) -> None:
    path = str(deployment(tmp_path / "run").path)
    given = ("--smoothness", "1", "--variance", "0.1", "--dissimilarity", "0.1", "--gap", "2", "--byzantine", "1")
    table = json.loads(run("certify", path, *given, "--json"))
    assert table["plan"]["constants"]["smoothness"]["value"] == 1.0
    assert table["plan"]["protocol"]["num_byzantine"] == 1
    assert "F(x_0) − F*" in flat(run("certify", path, *given))


def test_constants_are_refused_where_they_are_measured_and_plots_where_nothing_is(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused(capsys, monkeypatch, "certify", str(complete), "--strong-convexity", "1", "--byzantine", "2")
    assert "leave out --strong-convexity, --byzantine" in told
    path = str(deployment(tmp_path / "deployed").path)
    assert "nothing to draw" in refused(capsys, monkeypatch, "certify", path, "--plot", "plot.svg")
    assert "missing" in refused(capsys, monkeypatch, "certify", path, "--smoothness", "1")
