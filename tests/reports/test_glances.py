"""Glances: cheap, cached, and right."""

from __future__ import annotations

from pathlib import Path

from tests import deployments
from tests.reports.made import folder, four

from holdfast.reports.glances import DEPLOYED, Glances, State, at_work
from holdfast.runs.deployments import MARK
from holdfast.server.summary import summarised


def test_a_glance_tells_how_far_a_run_is_and_how_well_it_does(tmp_path: Path) -> None:
    records = [four(0, test_accuracy=0.5), four(1, test_accuracy=0.25), four(2, test_accuracy=None)]
    folder(tmp_path / "run", records)
    glance = Glances().at(tmp_path / "run")
    assert (glance.state, glance.rounds_played, glance.rounds_planned) == (State.INTERRUPTED, 3, 4)
    assert (glance.last_accuracy, glance.best_accuracy) == (0.25, 0.5)
    assert glance.last_loss == records[-1].test_loss
    assert glance.attack.startswith("sign-flip")
    assert "rage" in glance.rule


def test_a_run_that_is_done_is_read_from_its_summary(tmp_path: Path) -> None:
    records = [four(number) for number in range(4)]
    made = folder(tmp_path / "run", records)
    glances = Glances()
    before = glances.at(tmp_path / "run")
    made.write_summary(summarised(records))
    after, fresh = glances.at(tmp_path / "run"), Glances().at(tmp_path / "run")
    assert (before.state, after.state, fresh.state) == (State.INTERRUPTED, State.COMPLETE, State.COMPLETE)
    assert before.best_accuracy == after.best_accuracy == fresh.best_accuracy == 0.8
    assert fresh.rounds_played == 4


def test_new_rounds_are_seen_and_torn_lines_are_not(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    glances = Glances()
    assert glances.at(made.path).rounds_played == 1
    made.append(four(1))
    with (made.path / "rounds.jsonl").open("a") as file:
        file.write('{"round":2,"test_accuracy":0.99')
    seen = glances.at(made.path)
    assert (seen.rounds_played, seen.last_accuracy) == (2, 0.4)
    made.rewind(1)
    assert glances.at(made.path).rounds_played == 1


def test_a_deployment_has_no_attack(tmp_path: Path) -> None:
    deployments.deployment(tmp_path / "run")
    glance = Glances().at(tmp_path / "run")
    assert (glance.deployed, glance.attack, glance.state) == (True, "", State.COMPLETE)
    assert glance.last_accuracy is None


def test_a_broken_configuration_is_damage(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    (made.path / "config.toml").write_text("rounds = ")
    assert Glances().at(made.path).state is State.DAMAGED


def test_looking_for_a_process_makes_no_lock_file_and_finds_the_holder(tmp_path: Path) -> None:
    assert not at_work(tmp_path)
    assert not list(tmp_path.iterdir())
    made = folder(tmp_path / "run")
    with made.locked():
        assert at_work(made.path)
    assert not at_work(made.path)


def test_the_mark_of_a_deployment_is_the_one_that_runs_use() -> None:
    assert DEPLOYED == MARK
