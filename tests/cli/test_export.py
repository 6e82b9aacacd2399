"""`steadfed export`, as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import refused, run
from tests.exports.folders import written


def test_export_writes_every_run_below_a_folder_for_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(Path("runs/one"))
    written(Path("runs/two"))
    output = run("export", "runs", "--to", "tensorboard")
    assert "tensorboard --logdir tensorboard" in output
    assert sorted(path.name for path in Path("tensorboard").iterdir()) == ["one", "two"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_export_writes_a_run_for_mlflow(tmp_path: Path) -> None:
    written(tmp_path / "run")
    output = run("export", str(tmp_path / "run"), "--to", "mlflow", "--out", str(tmp_path / "store"))
    assert "mlflow ui --backend-store-uri" in output
    assert (tmp_path / "store").is_dir()


def test_export_refuses_what_makes_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "run")
    told = refused(capsys, monkeypatch, "export", str(tmp_path / "run"), "--to", "tensorboard", "--experiment", "x")
    assert "leave it out" in told
    assert "does not exist" in refused(capsys, monkeypatch, "export", str(tmp_path / "no"), "--to", "tensorboard")
