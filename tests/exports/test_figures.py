"""Settings and numbers of a run, as other tools get them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.exports.folders import CONFIG, record, written

from steadfed.errors import CorruptRunError
from steadfed.exports._figures import ExportedRun, figures


def test_settings_are_flat_and_plain(tmp_path: Path) -> None:
    written(tmp_path / "run")
    settings = ExportedRun(tmp_path / "run").settings()
    assert settings["rule.name"] == "rage"
    assert settings["rule.layers"] == "[1, 2]"
    assert settings["lr"] == 0.1


def test_rounds_know_when_they_were_over(tmp_path: Path) -> None:
    written(tmp_path / "run")
    run = ExportedRun(tmp_path / "run")
    assert [each.time - run.start for each in run.rounds()] == pytest.approx([2, 4, 6])
    assert [each.number for each in run.rounds()] == [0, 1, 2]


def test_a_number_that_is_not_there_is_left_out() -> None:
    assert "loss/test" not in figures(record(1), byzantine_known=True)
    assert figures(record(2), byzantine_known=True)["loss/test"] == pytest.approx(1 / 3)


def test_byzantine_clients_are_counted_where_they_are_known() -> None:
    found = figures(record(0), byzantine_known=True)
    assert (found["clients/byzantine_kept"], found["clients/byzantine_removed"]) == (1, 0)
    found = figures(record(1), byzantine_known=True)
    assert (found["clients/byzantine_kept"], found["clients/byzantine_removed"]) == (0, 1)
    assert found["clients/honest_removed"] == 0
    unknown = figures(record(1), byzantine_known=False)
    assert [name for name in unknown if "byzantine" in name or "honest" in name] == ["clients/known_byzantine"]
    assert unknown["clients/known_byzantine"] == unknown["clients/malformed"] + unknown["clients/unusable"]


def test_a_deployment_does_not_know_who_is_byzantine(tmp_path: Path) -> None:
    written(tmp_path / "run", config=CONFIG + '\n[provenance]\nflwr = "1.42"\n')
    (first, *_) = ExportedRun(tmp_path / "run").rounds()
    assert "clients/byzantine" not in first.figures
    assert first.figures["clients/removed"] == 0


def test_a_folder_without_a_run_and_a_broken_configuration_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptRunError, match="does not exist"):
        ExportedRun(tmp_path / "nowhere").settings()
    written(tmp_path / "run", config="lr = = 1")
    with pytest.raises(CorruptRunError, match=r"config.toml .* cannot be read: not valid TOML"):
        ExportedRun(tmp_path / "run").settings()
