"""Histories: columns that grow with the file, and folders in any state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import deployments
from tests.reports.made import folder, four

from steadfed.errors import CorruptRunError, ParameterError, UnknownNameError
from steadfed.server._history import Fate, Rounds, RunHistory, RunState, open_run, suspects, tally_of
from steadfed.server._history.rounds import NUMBERS, TABLES
from steadfed.server._record import RoundRecord


def test_a_history_has_the_figures_and_what_became_of_every_client(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0), four(1, test_accuracy=None)])
    history = RunHistory(tmp_path / "run")
    assert (history.name, history.rounds_played, history.rounds_planned, history.state) == (
        "run",
        2,
        4,
        RunState.INTERRUPTED,
    )
    np.testing.assert_array_equal(history["test_accuracy"], [0.2, np.nan])
    np.testing.assert_array_equal(history["seconds.local_steps"], [0.5, 0.5])
    np.testing.assert_array_equal(history["certificate.error_bound"], [0.75, 0.75])
    with pytest.raises(UnknownNameError, match="unknown column 'tset_accuracy', did you mean 'test_accuracy'"):
        history["tset_accuracy"]
    entries = history.entries
    assert [history.client_ids[place] for place in entries.client] == [0, 1, 2, 3] * 2
    assert entries.fate.tolist() == [Fate.KEPT] * 3 + [Fate.REMOVED, Fate.REMOVED, 0, 0, Fate.REMOVED]
    np.testing.assert_allclose(entries.weight, [4 / 3, 4 / 3, 4 / 3, 0, 0, 2, 2, 0])
    assert entries.byzantine.tolist() == [False, False, False, True] * 2
    assert history.byzantine == {3}
    assert history.problems == []


def test_client_lines_are_those_of_the_records(tmp_path: Path) -> None:
    records = [four(number) for number in range(4)]
    folder(tmp_path / "run", records)
    assert RunHistory(tmp_path / "run").clients == suspects(Rounds.of(records).clients)


def test_a_history_reads_on_where_it_stopped(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    history = RunHistory(tmp_path / "run")
    assert not history.refresh()
    made.append(four(1))
    assert history.refresh()
    assert len(history.entries) == 8
    assert [line.judged for line in history.clients] == [2] * 4


def test_a_run_that_was_rewound_and_went_on_is_read_again(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0), four(1)])
    history = RunHistory(tmp_path / "run")
    made.rewind(1)
    made.append(four(1, test_accuracy=0.9, reason="another line of some other length"))
    made.append(four(2))
    assert history.refresh()
    np.testing.assert_array_equal(history["test_accuracy"][:2], [0.2, 0.9])
    assert history.rounds_played == 3


def test_another_configuration_starts_anew(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0)])
    history = RunHistory(tmp_path / "run")
    folder(tmp_path / "other", [], rounds=7)
    (tmp_path / "run" / "config.toml").write_bytes((tmp_path / "other" / "config.toml").read_bytes())
    (tmp_path / "run" / "rounds.jsonl").write_bytes(b"")
    assert history.refresh()
    assert (history.rounds_played, history.rounds_planned) == (0, 7)


def test_a_torn_last_line_is_passed_over_until_it_is_whole(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0)])
    path, line = tmp_path / "run" / "rounds.jsonl", four(1).to_line()
    with path.open("a") as file:
        file.write(line[:40])
    history = RunHistory(tmp_path / "run")
    assert (history.rounds_played, history.problems) == (1, [])
    with path.open("a") as file:
        file.write(line[40:])
    assert history.refresh()
    assert history.rounds_played == 2


@pytest.mark.parametrize("damage", ["not a record\n", '{"round":7,"step":1,"lr":0.1,"cohort":[]}\n', "\udcff\n"])
def test_what_stands_before_a_damaged_line_is_shown(tmp_path: Path, damage: str) -> None:
    folder(tmp_path / "run", [four(0)])
    path = tmp_path / "run" / "rounds.jsonl"
    path.write_bytes(path.read_bytes() + damage.encode(errors="surrogateescape") + four(2).to_line().encode())
    history = RunHistory(tmp_path / "run")
    assert (history.rounds_played, history.state) == (1, RunState.DAMAGED)
    assert "line 2" in history.problems[0]
    assert not history.refresh()
    path.write_text(four(0).to_line() + four(1).to_line())
    assert history.refresh()
    assert (history.rounds_played, history.problems) == (2, [])


@pytest.mark.parametrize("text", ["rounds = ", "\x00"])
def test_a_configuration_that_cannot_be_read_is_a_problem_and_no_error(tmp_path: Path, text: str) -> None:
    folder(tmp_path / "run", [four(0)])
    (tmp_path / "run" / "config.toml").write_text(text)
    history = RunHistory(tmp_path / "run")
    assert len(history.problems) == 1
    assert "config.toml cannot be read: not valid TOML" in history.problems[0]
    assert (history.rounds_played, history.state) == (1, RunState.DAMAGED)


def test_rounds_that_are_gone_from_a_complete_run_are_a_problem(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0), four(1)])
    made.write_summary({"rounds": 4})
    history = RunHistory(tmp_path / "run")
    assert history.state is RunState.INTERRUPTED
    assert "holds 2 of 4 rounds" in history.problems[0]
    with pytest.raises(CorruptRunError, match=r"restore that file, or delete summary.json and resume the run"):
        open_run(tmp_path / "run")


def test_a_folder_without_a_run_is_a_history_too(tmp_path: Path) -> None:
    history = RunHistory(tmp_path)
    assert (history.state, history.rounds_played, len(history.entries), history.client_ids) == (
        RunState.DAMAGED,
        0,
        0,
        [],
    )
    assert "holds no run" in history.problems[0]


def test_a_run_that_a_process_plays_is_running(tmp_path: Path) -> None:
    made = folder(tmp_path / "run", [four(0)])
    history = RunHistory(tmp_path / "run")
    with made.locked():
        assert history.refresh()
        assert history.state.value == "running"
    assert history.refresh()
    assert history.state.value == "interrupted"
    assert not list(tmp_path.glob("run/*.unfinished"))


def test_a_deployment_knows_reasons_and_no_liars(tmp_path: Path) -> None:
    deployments.deployment(tmp_path / "run")
    history = RunHistory(tmp_path / "run")
    assert history.deployed
    assert history.byzantine == frozenset()
    broken = history.client_ids.index(deployments.BROKEN)
    assert history.rounds.drop_reasons[0, broken] == "shape: 'weight' must be (3, 2), got (2, 3)"
    entries = history.entries
    by_client = {client: set(entries.fate[entries.client == place]) for place, client in enumerate(history.client_ids)}
    assert by_client[deployments.BROKEN] == {Fate.MALFORMED, Fate.ABSENT}
    assert by_client[deployments.AWAY] == {Fate.ABSENT}
    assert by_client[deployments.NASTY] == set()
    assert (entries.fate[entries.round == deployments.SKIPPED] == Fate.ABSENT).all()


def test_a_long_run_costs_only_its_new_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = folder(tmp_path / "run", (four(number) for number in range(10_000)), rounds=20_000)
    history = RunHistory(tmp_path / "run")
    assert (history.rounds_played, len(history.entries)) == (10_000, 40_000)
    read: list[str] = []
    real = RoundRecord.from_line

    def counted(line: str) -> RoundRecord:
        read.append(line)
        return real(line)

    monkeypatch.setattr(RoundRecord, "from_line", counted)
    made.append(four(10_000))
    assert history.refresh()
    assert (history.rounds_played, len(read)) == (10_001, 1)


def test_reading_the_rounds_does_not_load_torch(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0)])
    code = (
        "import sys; from steadfed.server._history import RunSummaries, open_run; "
        f"assert open_run({str(tmp_path / 'run')!r}).clients; RunSummaries().summarize({str(tmp_path / 'run')!r}); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603


def test_every_number_of_a_record_and_every_count_is_a_column(tmp_path: Path) -> None:
    numbers = {name for name, value in vars(four(0)).items() if isinstance(value, int | float)}
    folder(tmp_path / "run", [four(0), four(1, sigma0=3.0, update_norm=7.0, metrics={"own": 0.5})])
    history = open_run(tmp_path / "run")
    assert {*numbers, *tally_of([]).counts(), "sigma0", "update_norm", "train_accuracy"} - {"rounds"} <= {
        *history.columns
    }
    for name in numbers:
        assert history[name][0] == getattr(four(0), name)
    np.testing.assert_array_equal(history["metrics.own"], [np.nan, 0.5])
    assert {"seconds.local_steps", "certificate.error_bound", "metrics.own"} <= {*history.columns}
    assert np.isnan(history["train_accuracy"]).all()


def test_a_new_number_of_a_record_is_a_column_without_another_word() -> None:
    fields = {name: field.annotation for name, field in RoundRecord.model_fields.items()}
    numbers = {name for name, kind in fields.items() if kind in (int, float, bool, int | None, float | None)}
    assert numbers == {*NUMBERS}
    assert {name for name, kind in fields.items() if "Mapping" in str(kind)} == {*TABLES}


def test_the_fate_of_a_client_in_a_round(tmp_path: Path) -> None:
    deployments.deployment(tmp_path / "run")
    history = open_run(tmp_path / "run")
    fates = {name: history.fate(client=name, round=0) for name in (*deployments.NAMES[:4], deployments.NASTY)}
    assert list(fates.values()) == [Fate.REMOVED, Fate.MALFORMED, Fate.ABSENT, Fate.KEPT, Fate.UNASKED]
    assert history.fate(client=deployments.LIAR, round=deployments.SKIPPED) is Fate.ABSENT
    assert history.fate(client=deployments.NASTY, round=deployments.SKIPPED) is None
    with pytest.raises(UnknownNameError, match=r"no client 'hospital-z' .* did you mean 'hospital-"):
        history.fate(client="hospital-z", round=0)
    with pytest.raises(ParameterError, match="round must be from 0 to 4, got 5"):
        history.fate(client=deployments.LIAR, round=5)


def test_the_tally_and_the_summary_are_those_of_the_records(tmp_path: Path) -> None:
    records = [four(number) for number in range(3)]
    made = folder(tmp_path / "run", records)
    history = open_run(tmp_path / "run")
    assert history.tally == tally_of(records)
    assert history.summary["tally"] == tally_of(records).as_dict()
    made.append(four(3, skipped=True, kept=(), weights=()))
    assert history.refresh()
    assert (history.tally.skipped, history.tally.judged, history.tally.received) == (1, 12, 16)


def test_only_a_run_that_is_whole_is_opened(tmp_path: Path) -> None:
    with pytest.raises(CorruptRunError, match="does not exist; expected the folder of a run"):
        open_run(tmp_path / "nowhere")
    folder(tmp_path / "run", [four(0)])
    with (tmp_path / "run" / "rounds.jsonl").open("a") as file:
        file.write("not a record\n")
    with pytest.raises(CorruptRunError, match=r"line 2 of .* is damaged: .* The 1 before it are whole"):
        open_run(tmp_path / "run")
