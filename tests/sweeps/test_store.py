from __future__ import annotations

from pathlib import Path

import pytest

from steadfed.errors import ParameterError, RunError
from steadfed.sweeps._store import append_rows, key_of, open_lines, read_rows, sole_writer


def test_the_identity_of_a_trial_is_that_of_the_results_on_disk() -> None:
    assert key_of(1, "text", "sum") == "f81f8e6cf3a1243f42b394a0c1a63ad3"


def test_lines_survive_a_crash_and_torn_ones_do_not(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n{"a": ')
    with open_lines(path):
        assert path.read_text() == '{"a": 1}\n'
        append_rows(path, [{"a": 2}, {"b": None}])
    assert read_rows(path) == [{"a": 1}, {"a": 2}, {"b": None}]


@pytest.mark.parametrize(("line", "message"), [("no", "is no JSON"), ("[1]", r"must be a JSON object, got '\[1\]'")])
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{{}}\n{line}\n")
    with pytest.raises(ParameterError, match=rf"rows\.jsonl:2 {message}"):
        read_rows(path)


def test_there_is_one_writer_at_a_time_and_a_place_must_be_writable(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with sole_writer(lock, tmp_path), pytest.raises(RunError, match="another process is writing to"), open_lines(lock):
        pass
    with pytest.raises(RunError, match=r"cannot write to .*: No such file"), open_lines(tmp_path / "no" / "rows"):
        pass
