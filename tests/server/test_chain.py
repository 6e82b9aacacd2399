"""Lines that hold the hash of the line before: what was done to them is named by the line."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tests.rewriting import as_old_version
from tests.server.toy import toy_record, toy_run

from steadfed._core.digests import sha256
from steadfed.errors import CorruptRunError, RunError
from steadfed.server._chain import Chain, LineStart, hash_of_line
from steadfed.server._folder import RunFolder
from steadfed.server._history import RunHistory
from steadfed.server._record import RoundRecord


def lines_of(folder: RunFolder) -> list[bytes]:
    return folder.rounds.read_bytes().splitlines(keepends=True)


def test_every_line_holds_the_hash_of_what_comes_before_it(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 3)
    before = (folder.path / "config.toml").read_bytes()
    for line, record in zip(lines_of(folder), folder.records(), strict=True):
        assert record.previous == hashlib.sha256(before).hexdigest()
        before = line.removesuffix(b"\n")
    summary, checkpoint = folder.summary(), folder.latest_checkpoint()
    assert summary is not None
    assert checkpoint is not None
    assert checkpoint.origin is not None
    assert summary["head"] == checkpoint.origin.head == folder.head() == hashlib.sha256(before).hexdigest()
    assert checkpoint.origin.config == folder.config_hash()


def test_what_was_appended_after_going_back_follows_what_is_left(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 4)
    folder.rewind(2)
    written = folder.append(toy_record(2, weight=0.5))
    assert written.previous == hash_of_line(lines_of(folder)[1])
    assert [record.round for record in folder.records()] == [0, 1, 2]


def test_the_line_and_what_is_whole_before_it_are_named(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 4)
    lines = lines_of(folder)
    folder.rounds.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"lr":0.1', b'"lr":0.3'), lines[3]]))
    with pytest.raises(CorruptRunError, match=r"line 4 of .* not follow from line 3: .*The 2 before them are whole"):
        list(folder.records())
    with pytest.raises(CorruptRunError, match="line 4"):
        folder.latest_checkpoint()


def test_another_configuration_does_not_belong_to_the_lines(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 2)
    (folder.path / "config.toml").write_text("name = 'toys'\n")
    with pytest.raises(CorruptRunError, match=r"line 1 of .* does not belong to config\.toml"):
        list(folder.records())


def test_a_line_without_a_hash_is_damage_where_the_others_have_one_and_the_other_way_round(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 3)
    lines = lines_of(folder)
    bare = [record.model_copy(update={"previous": None}).to_line().encode() for record in folder.records()]
    folder.rounds.write_bytes(lines[0] + bare[1])
    with pytest.raises(CorruptRunError, match=r"line 2 .* lacks the hash of the line before it"):
        list(folder.records())
    folder.rounds.write_bytes(bare[0] + lines[1])
    with pytest.raises(CorruptRunError, match=r"line 2 .* has a hash, and line 1 has none"):
        list(folder.records())


def test_lines_of_an_old_version_are_read_and_written_on_without_hashes(tmp_path: Path) -> None:
    folder = as_old_version(toy_run(tmp_path / "run", 2).path)
    assert folder.append(toy_record(2)).previous is None
    assert [record.previous for record in folder.records()] == [None] * 3
    assert RunHistory(folder.path).problems == []


def test_a_round_that_somebody_else_wrote_meanwhile_is_not_written_twice(tmp_path: Path) -> None:
    mine = toy_run(tmp_path / "run", 2)
    RunFolder.open(mine.path).append(toy_record(2))
    before = mine.rounds.read_bytes()
    with pytest.raises(RunError, match="ends with round 2, so round 2 cannot follow: another process"):
        mine.append(toy_record(2))
    assert mine.rounds.read_bytes() == before


def test_a_changed_last_line_is_told_by_what_was_written_after_it(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 3)
    lines = lines_of(folder)
    folder.rounds.write_bytes(b"".join(lines[:2]) + lines[2].replace(b'"lr":0.1', b'"lr":0.3'))
    history = RunHistory(folder.path)
    assert history.rounds_played == 3
    assert "line 3 of" in history.problems[0]
    assert "summary.json was written" in history.problems[0]
    (folder.path / "summary.json").unlink()
    assert "checkpoints/000003.json was written" in RunHistory(folder.path).problems[0]
    checkpoint = folder.latest_checkpoint()
    assert checkpoint is not None
    assert checkpoint.round == 2
    assert "not used: it was written after a line with the SHA-256" in folder.notes[0]


def test_a_history_that_grows_is_checked_line_by_line(tmp_path: Path) -> None:
    folder = toy_run(tmp_path / "run", 2)
    (folder.path / "summary.json").unlink()
    history = RunHistory(folder.path)
    folder.append(toy_record(2))
    assert history.refresh()
    assert (history.rounds_played, history.problems) == (3, [])
    with folder.rounds.open("ab") as file:
        file.write(toy_record(3).model_copy(update={"previous": "0" * 64}).to_line().encode())
    assert history.refresh()
    assert "line 4 of" in history.problems[0]
    assert "does not follow from line 3" in history.problems[0]


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=6), st.data())
def test_no_other_order_of_lines_is_a_chain(rates: list[float], data: st.DataObject) -> None:
    root, lines = sha256(b"config"), list[bytes]()
    for number, lr in enumerate(rates):
        head = hash_of_line(lines[-1]) if lines else root
        lines.append(RoundRecord(previous=head, round=number, step=1, lr=lr, cohort=()).to_line().encode())
    others = data.draw(st.lists(st.sampled_from(lines), max_size=8))
    chain, read = Chain(Path("rounds.jsonl"), root), 0
    with suppress(CorruptRunError):
        for line in others:
            chain.follow(line)
            read += 1
    assert others[:read] == lines[:read]


@given(st.binary(max_size=120))
def test_the_start_of_a_line_is_a_round_or_an_error(line: bytes) -> None:
    try:
        start = LineStart.of(line, Path("rounds.jsonl"))
    except CorruptRunError:
        return
    assert line.startswith(b'{"')
    assert start.round >= 0
