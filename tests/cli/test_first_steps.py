"""What new users stumbled over at their first steps, one test each; the others are named in the comment at the end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import refused, run, small_config
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed.reports._sections.configuration import configuration
from steadfed.reports._sections.verdict import headlines
from steadfed.reports.panels import Table
from steadfed.runs import Run, read_config
from steadfed.server import RunHistory

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs with different rules, of which the last has only begun."""
    folder, file = tmp_path_factory.mktemp("three"), small_config(tmp_path_factory.mktemp("config"))
    for name, changes in {
        "mean": ["rule=mean", "rounds=2"],
        "krum": ["rule=krum", "rule.num_byzantine=2", "rounds=2"],
        "half": [],
    }.items():
        rounds = Run.start(read_config(file, changes), folder / name).play()
        next(rounds)
        next(rounds)
    return folder


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_model_that_is_too_large_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "big.toml"
    file.write_text('[model]\nname = "mlp"\nhidden = [10_000_000_000_000, 2]\n')
    told = refused(capsys, monkeypatch, command, str(file))
    assert re.search(r"does not fit into memory: one of its tensors takes [\d,.]+ GiB", told)
    assert told.count("\n") == 1


def test_without_the_extra_the_import_says_how_to_get_flower() -> None:
    code = "import sys; sys.modules['flwr'] = None; from steadfed.flower import RageStrategy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.stderr.strip().splitlines()[-1] == (
        "ModuleNotFoundError: steadfed.flower needs Flower, get it with: pip install 'steadfed[flower]'"
    )


def test_the_table_of_settings_has_all_runs_and_no_checksums_of_configurations(three: Path) -> None:
    histories = [RunHistory(three / name) for name in ("mean", "krum", "half")]
    table = next(panel for panel in configuration(histories).panels if panel.key == "configuration")
    assert isinstance(table, Table)
    assert [column.title for column in table.columns] == ["setting", "mean", "krum", "half"]
    assert {"rule.name": ("mean", "krum", "rage")}.items() <= {row[0]: row[1:] for row in table.rows}.items()
    assert not any("config_sha256" in str(row[0]) for row in table.rows)


def test_comments_of_a_configuration_offer_nothing_that_nobody_could_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("init")
    text = Path("run.toml").read_text(encoding="utf-8")
    assert "None" not in text
    comments = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    offers = re.findall(r"One of: ([^.]*)\.", comments)
    assert any("dirichlet" in offer for offer in offers)
    assert not any(re.search(r"\b(given|remote)\b", offer) for offer in offers)


def test_progress_counts_rounds_that_are_done_and_everything_else_numbers_them_from_0(tmp_path: Path) -> None:
    file, folder = small_config(tmp_path), tmp_path / "run"
    told = CliRunner().invoke(app, ["run", str(file), "--out", str(folder)]).stderr
    assert "6 of 6 rounds" in told
    assert not re.search(r"\bround \d", told)
    shown = " ".join(run("show", str(folder)).split())
    best = re.search(r"in round (\d+)\)", shown)
    assert best is not None
    assert 0 <= int(best[1]) < 6
    assert "Round 5:" in run("show", str(folder), "--round", "5")


def test_what_a_run_that_goes_on_has_reached_is_called_so_far(three: Path) -> None:
    titles = {name: {each.title for each in headlines([RunHistory(three / name)])} for name in ("half", "mean")}
    assert "Test accuracy so far" in titles["half"]
    assert "Test accuracy in the end" in titles["mean"]


def test_a_name_in_capitals_is_understood_well_enough_to_be_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(small_config(tmp_path))
    assert "did you mean 'alie'" in refused(capsys, monkeypatch, "check", file, "--set", "attack=ALIE")


def test_resume_of_a_folder_of_runs_names_them(
    three: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused(capsys, monkeypatch, "resume", str(three))
    assert "is not a run but holds 3 runs; give one of them" in told
    assert all(str(three / name) in told for name in ("mean", "krum", "half"))


def test_a_report_of_several_runs_says_what_it_is_at(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steadfed._cli.report.SILENCE", 0.0)
    page = str(tmp_path / "page.html")
    told = CliRunner().invoke(app, ["report", str(three), "--out", page, "--no-guarantee"]).stderr
    assert [line for line in told.splitlines() if line.startswith("reading run")] == [
        f"reading run {place} of 3: {three / name}" for place, name in enumerate(("half", "krum", "mean"), 1)
    ]


def test_the_guide_says_how_to_start_a_run_and_its_trial_leaves_nothing_running() -> None:
    guide = (ROOT / "docs/guides/deploy-with-flower.md").read_text(encoding="utf-8")
    first = guide[: guide.index("make federation")]
    places = [first.index(f"steadfed federation {verb}") for verb in ("up", "run", "down")]
    assert places == sorted(places)
    assert re.search(r"^flwr run |`flwr run ", guide, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    trial = makefile[makefile.index("\nfederation:") : makefile.index("\ntest:")]
    assert "trap 'stop; exit 130' INT TERM" in trial
    assert re.search(r"code=\$\$\?; stop; exit \$\$code", trial)


# rich eats [rule], help wrapped twice              test_app.py, over every command
# init, show, list load torch                       test_snapshot.py
# list rules has no short form                      test_list.py
# dir(package) shows Any and import_module          ../test_package.py
# "removed" counts exact zeros only                 ../server/history/test_conduct.py
# the server app is silent while nodes are missing  ../flower/test_nodes.py
# the demo's report                                 ../browser/test_reports.py
