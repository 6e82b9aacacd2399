"""Stories: columns that grow with the file, and folders in any state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import deployments
from tests.reports.made import config, folder, four

from holdfast.attacks import Honest, SignFlip, Sleeper
from holdfast.reports.columns import Status
from holdfast.reports.glances import State
from holdfast.reports.stories import Story, attack_start_of
from holdfast.server.clients import client_table, suspects
from holdfast.server.record import RoundRecord


def test_a_story_has_the_figures_and_what_became_of_every_client(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0), four(1, test_accuracy=None)])
    story = Story(tmp_path / "run")
    assert (story.name, story.rounds_played, story.rounds_planned, story.state) == ("run", 2, 4, State.INTERRUPTED)
    np.testing.assert_array_equal(story.column("test_accuracy"), [0.2, np.nan])
    np.testing.assert_array_equal(story.column("seconds.local_steps"), [0.5, 0.5])
    np.testing.assert_array_equal(story.column("certificate.error_bound"), [0.75, 0.75])
    assert np.isnan(story.column("no such figure")).all()
    entries = story.entries
    assert [story.clients[place] for place in entries.client] == [0, 1, 2, 3] * 2
    assert entries.status.tolist() == [Status.KEPT] * 3 + [Status.REMOVED, Status.REMOVED, 0, 0, Status.REMOVED]
    np.testing.assert_allclose(entries.weight, [4 / 3, 4 / 3, 4 / 3, 0, 0, 2, 2, 0])
    assert entries.byzantine.tolist() == [False, False, False, True] * 2
    assert story.byzantine == {3}
    assert story.problems == []
    assert story.attack_start == 0


def test_client_lines_are_those_of_the_records(tmp_path: Path) -> None:
    records = [four(number) for number in range(4)]
    folder(tmp_path / "run", records)
    assert Story(tmp_path / "run").client_lines == suspects(client_table(records))


def test_a_story_reads_on_where_it_stopped(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    story = Story(tmp_path / "run")
    assert not story.refresh()
    made.append(four(1))
    assert story.refresh()
    assert len(story.entries) == 8
    assert [line.judged for line in story.client_lines] == [2] * 4


def test_a_run_that_was_rewound_and_went_on_is_read_again(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0), four(1)])
    story = Story(tmp_path / "run")
    made.rewind(1)
    made.append(four(1, test_accuracy=0.9, reason="another line of some other length"))
    made.append(four(2))
    assert story.refresh()
    np.testing.assert_array_equal(story.column("test_accuracy")[:2], [0.2, 0.9])
    assert story.rounds_played == 3


def test_another_configuration_starts_anew(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0)])
    story = Story(tmp_path / "run")
    assert story.config == config()
    folder(tmp_path / "other", [], rounds=7)
    (tmp_path / "run" / "config.toml").write_bytes((tmp_path / "other" / "config.toml").read_bytes())
    (tmp_path / "run" / "rounds.jsonl").write_bytes(b"")
    assert story.refresh()
    assert (story.rounds_played, story.rounds_planned) == (0, 7)
    assert story.config == config(rounds=7)


def test_a_torn_last_line_is_passed_over_until_it_is_whole(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0)])
    path, line = tmp_path / "run" / "rounds.jsonl", four(1).to_line()
    with path.open("a") as file:
        file.write(line[:40])
    story = Story(tmp_path / "run")
    assert (story.rounds_played, story.problems) == (1, [])
    with path.open("a") as file:
        file.write(line[40:])
    assert story.refresh()
    assert story.rounds_played == 2


@pytest.mark.parametrize("damage", ["not a record\n", '{"round":7,"step":1,"lr":0.1,"cohort":[]}\n', "\udcff\n"])
def test_what_stands_before_a_damaged_line_is_shown(tmp_path: Path, damage: str) -> None:
    folder(tmp_path / "run", [four(0)])
    path = tmp_path / "run" / "rounds.jsonl"
    path.write_bytes(path.read_bytes() + damage.encode(errors="surrogateescape") + four(2).to_line().encode())
    story = Story(tmp_path / "run")
    assert (story.rounds_played, story.state) == (1, State.DAMAGED)
    assert "line 2" in story.problems[0]
    assert not story.refresh()
    path.write_text(four(0).to_line() + four(1).to_line())
    assert story.refresh()
    assert (story.rounds_played, story.problems) == (2, [])


@pytest.mark.parametrize("text", ["rounds = ", "rounds = 3\n", "\x00"])
def test_a_configuration_that_cannot_be_read_is_a_problem_and_no_error(tmp_path: Path, text: str) -> None:
    folder(tmp_path / "run", [four(0)])
    (tmp_path / "run" / "config.toml").write_text(text)
    story = Story(tmp_path / "run")
    assert story.config is None
    assert len(story.problems) == 1
    assert story.rounds_played == 1
    assert story.attack_start is None


def test_rounds_that_are_gone_from_a_complete_run_are_a_problem(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0), four(1)])
    made.write_summary({"rounds": 4})
    story = Story(tmp_path / "run")
    assert story.state is State.INTERRUPTED
    assert "holds only 2 of 4 rounds" in story.problems[0]


def test_a_folder_without_a_run_is_a_story_too(tmp_path: Path) -> None:
    story = Story(tmp_path)
    assert (story.state, story.rounds_played, len(story.entries), story.clients) == (State.DAMAGED, 0, 0, [])
    assert "holds no run" in story.problems[0]


def test_a_run_that_a_process_plays_is_running(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    story = Story(tmp_path / "run")
    with made.locked():
        assert story.refresh()
        assert story.state.value == "being played"
    assert story.refresh()
    assert story.state.value == "interrupted"
    assert not list(tmp_path.glob("run/*.unfinished"))


def test_a_deployment_knows_reasons_and_no_liars(tmp_path: Path) -> None:
    deployments.deployment(tmp_path / "run")
    story = Story(tmp_path / "run")
    assert story.deployed
    assert story.byzantine == frozenset()
    assert story.attack_start is None
    broken = story.clients.index(deployments.BROKEN)
    assert story.reasons[0, broken] == "shape: 'weight' must be (3, 2), got (2, 3)"
    entries = story.entries
    by_client = {client: set(entries.status[entries.client == place]) for place, client in enumerate(story.clients)}
    assert by_client[deployments.BROKEN] == {Status.MALFORMED, Status.ABSENT}
    assert by_client[deployments.AWAY] == {Status.ABSENT}
    assert by_client[deployments.NASTY] == set()
    assert (entries.status[entries.round == deployments.SKIPPED] == Status.ABSENT).all()


def test_the_start_of_an_attack_is_that_of_the_sleeper() -> None:
    inner = Sleeper(attack=SignFlip(), start=5)
    assert attack_start_of(config(rounds=20, attack=Sleeper(attack=inner, start=3)), range(20)) == 5
    assert attack_start_of(config(attack=Honest()), range(20)) is None
    assert attack_start_of(config(rounds=4, attack=inner), range(4)) is None


def test_a_long_run_costs_only_its_new_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = folder(tmp_path / "run", (four(number) for number in range(10_000)), rounds=20_000)
    story = Story(tmp_path / "run")
    assert (story.rounds_played, len(story.entries)) == (10_000, 40_000)
    read: list[str] = []
    real = RoundRecord.from_line

    def counted(line: str) -> RoundRecord:
        read.append(line)
        return real(line)

    monkeypatch.setattr(RoundRecord, "from_line", counted)
    made.append(four(10_000))
    assert story.refresh()
    assert (story.rounds_played, len(read)) == (10_001, 1)


def test_reading_the_rounds_does_not_load_torch(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0)])
    code = (
        "import sys; from holdfast.reports.stories import Story; from holdfast.reports.glances import Glances; "
        f"assert Story({str(tmp_path / 'run')!r}).client_lines; Glances().at({str(tmp_path / 'run')!r}); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
