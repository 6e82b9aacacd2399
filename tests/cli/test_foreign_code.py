"""Which commands execute code that a configuration of somebody else names, and which never do."""

from __future__ import annotations

import sys
from contextvars import copy_context
from pathlib import Path

import numpy as np
import pytest
from tests.cli.commands import SMALL, run as steadfed
from tests.rewriting import with_config
from tests.ui.visits import visit
from typer.testing import CliRunner

from steadfed._cli import main
from steadfed._cli.app import app
from steadfed._ui.app import create_app
from steadfed._ui.catalogue import id_of
from steadfed.data import from_tensors
from steadfed.runs import Run, config_from_toml
from steadfed.runs._files import config_to_toml, seal_config
from steadfed.simulation import RunConfig

FOREIGN = """
data = { name = "torch-dataset", factory = "foreign_code:data" }
model = { name = "import", factory = "foreign_code:network", criterion = "foreign_code:loss" }
"""
OWN = {
    'rule = { name = "rage", num_byzantine = 3 }': 'rule = { import = "foreign_code:rule", num_byzantine = 3 }',
    'attack = { name = "scaling", factor = 50.0 }': 'attack = { import = "foreign_code:attack", factor = 50.0 }',
}
"""A rule and an attack of somebody else, in place of those of a small run."""
CODE = """
from pathlib import Path
(Path(__file__).parent / "mark").touch()
"""
"""What somebody else wants to have executed: with it a file appears, whatever else fails."""
READING = [
    ("show", "RUN"),
    ("show", "RUN", "--json"),
    ("show", "RUN", "--round", "0"),
    ("audit", "RUN"),
    ("audit", "RUN", "--table", "--json"),
    ("export", "RUN", "--to", "tensorboard", "--out", "events"),
    ("list", "models"),
    ("list", "datasets", "torch-dataset"),
    ("verify", "RUN"),
    ("init", "begun.toml", "--rule", "foreign_code:rule", "--attack", "foreign_code:attack"),
    ("report", "RUN", "--no-code"),
    ("report", "RUN", "--no-code", "--format", "csv"),
    ("report", "RUN", "--no-code", "--no-guarantee", "--out", "page.html"),
    ("certify", "RUN", "--no-code"),
    ("certify", "RUN", "--no-code", "--json"),
    ("check", "CONFIG", "--no-code"),
]
EXECUTING = [
    ("report", "RUN"),
    ("certify", "RUN"),
    ("check", "CONFIG"),
    ("plan", "CONFIG"),
    ("run", "CONFIG"),
    ("resume", "RUN"),
    ("compare", "GRID", "--dry-run"),
]


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with the run and the module of somebody else; return the file that its code makes."""
    text = config_to_toml(config_from_toml(_foreign_text()))
    (tmp_path / "config.toml").write_text(text)
    rest = "\n".join(line for line in SMALL.splitlines() if not line.startswith(("model", "rule", "attack", "byz")))
    (tmp_path / "grid.toml").write_text(f'[grid]\nrule = ["mean"]\n[base]\n{rest}{FOREIGN}')
    _foreign_run(tmp_path / "run")
    (tmp_path / "foreign_code.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    sys.modules.pop("foreign_code", None)
    return tmp_path / "mark"


def _foreign_text(*, own: bool = True) -> str:
    text = SMALL.replace('model = { name = "softmax-regression" }', FOREIGN)
    for ours, theirs in OWN.items() if own else ():
        text = text.replace(ours, theirs)
    return text


def _foreign_run(path: Path, *, own: bool = True) -> None:
    """Play a run but for its end, and let its configuration name code: neither a seal nor a chain is a signature."""
    data = from_tensors([[float(place), 1.0] for place in range(48)], [place % 2 for place in range(48)])
    for _ in Run.start(config_from_toml(SMALL), path, dataset=data).play():
        pass
    config = config_from_toml(_foreign_text(own=own))
    sealed = seal_config(config, {"data_sha256": data.checksum, "steadfed": "1", "torch": "2"})
    with_config(path, sealed)
    (path / "summary.json").unlink()


def _invoke(command: tuple[str, ...]) -> None:
    places = {"RUN": "run", "CONFIG": "config.toml", "GRID": "grid.toml"}
    CliRunner().invoke(app, [places.get(each, each) for each in command], env={"COLUMNS": "120"})


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_commands_that_read_execute_nothing(command: tuple[str, ...], mark: Path) -> None:
    _invoke(command)
    assert not mark.exists()
    assert "foreign_code" not in sys.modules


@pytest.mark.parametrize("command", READING[:6] + READING[10:], ids=" ".join)
def test_they_read_all_the_same(command: tuple[str, ...], mark: Path) -> None:
    places = {"RUN": "run", "CONFIG": "config.toml"}
    assert steadfed(*(places.get(each, each) for each in command))
    assert not mark.exists()


@pytest.mark.parametrize("command", EXECUTING, ids=" ".join)
def test_the_others_execute_it_and_their_help_says_so(command: tuple[str, ...], mark: Path) -> None:
    assert "code" in steadfed(command[0], "--help").lower()
    _invoke(command)
    assert mark.exists()


@pytest.mark.parametrize(
    "command",
    [
        ("aggregate", "updates.npy", "--rule", "foreign_code:rule"),
        ("aggregate", "updates.npy", "--config", "rule.toml"),
        ("gauntlet", "--rules", "foreign_code:rule", "--attacks", "none"),
        ("gauntlet", "--rules", "mean", "--attacks", "foreign_code:attack"),
        ("check", "own.toml"),
        ("run", "own.toml"),
        ("compare", "own-grid.toml", "--dry-run"),
        ("plan", "own.toml"),
    ],
    ids=" ".join,
)
def test_a_rule_and_an_attack_are_executed_by_what_plays_them(command: tuple[str, ...], mark: Path) -> None:
    np.save("updates.npy", np.ones((7, 3)))
    Path("rule.toml").write_text('[rule]\nimport = "foreign_code:rule"\n')
    text = SMALL
    for ours, theirs in OWN.items():
        text = text.replace(ours, theirs)
    Path("own.toml").write_text(text)
    Path("own-grid.toml").write_text('[grid]\nrule = ["foreign_code:rule"]\n[base]\nrounds = 1\n')
    assert "execute" in steadfed(command[0], "--help").lower()
    _invoke(command)
    assert mark.exists()


def test_the_live_page_executes_nothing(mark: Path, tmp_path: Path) -> None:
    page, run = create_app(tmp_path / "run", patience=0.0), id_of("run")
    for place in ("/", "/api/runs", f"/run/{run}", f"/api/runs/{run}/panels", f"/report/{run}.html"):
        assert visit(page, place).status_code == 200, place
    assert not mark.exists()


def test_without_code_a_check_says_which_code_a_run_would_execute(mark: Path) -> None:
    said = " ".join(steadfed("check", "config.toml", "--no-code").replace("│", " ").split())
    assert "data.factory foreign_code:data, model.factory foreign_code:network" in said
    assert "model.criterion foreign_code:loss, rule.import foreign_code:rule, attack.import" in said
    assert not mark.exists()
    (mark.parent / "config.toml").write_text(config_to_toml(RunConfig()))
    assert "none of its author's" in steadfed("check", "config.toml", "--no-code")


def test_without_code_a_run_is_judged_by_its_records(mark: Path) -> None:
    said = steadfed("certify", "run", "--no-code")
    assert "judged by the records alone, as asked" in " ".join(said.split())
    page = Path(steadfed("report", "run", "--no-code").strip()).read_text(encoding="utf-8")
    assert "nothing is proved about foreign_code:rule" in page
    _foreign_run(mark.parent / "filtered", own=False)
    page = Path(steadfed("report", "filtered", "--no-code").strip()).read_text(encoding="utf-8")
    assert "No data were loaded, so that no code of the configuration was executed" in page
    assert "judged by the records alone, as asked" in page.replace("Judged", "judged")
    assert not mark.exists()


def test_a_module_in_the_current_folder_stands_in_for_no_package(
    mark: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A package that is not installed must not be found where somebody else's files are."""
    monkeypatch.setattr(sys, "argv", ["steadfed", "show", "run"])
    with pytest.raises(SystemExit) as stopped:
        copy_context().run(main)
    assert stopped.value.code == 0
    assert capsys.readouterr().out
    assert not {"", str(mark.parent)} & set(sys.path)
