"""Whom a round waits for, as somebody sees it who watches the folder of a run."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from steadfed.server._waiting import WAITING, Note, Waiting, forget_waiting, read_waiting, write_waiting

ERFURT = Waiting(round=3, asked=6, replied=4, missing=("Erfurt", 7), seconds_left=31.4)


def test_what_was_written_is_read_until_it_is_forgotten(tmp_path: Path) -> None:
    assert read_waiting(tmp_path) is None
    write_waiting(tmp_path, ERFURT)
    assert read_waiting(tmp_path) == ERFURT
    forget_waiting(tmp_path)
    forget_waiting(tmp_path)
    assert read_waiting(tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_many_names_are_counted_and_no_letter_of_them_acts() -> None:
    many = Waiting(round=0, asked=30, replied=1, missing=("a\x1b[2J", *range(28)))
    assert many.words.startswith("1 of 30 replied, waiting for a\\x1b[2J, 0, 1, ")
    assert many.words.endswith(" others")
    assert len(many.words) < 100


def test_a_place_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    write_waiting(tmp_path / "missing", ERFURT)
    forget_waiting(tmp_path / "missing")
    assert read_waiting(tmp_path / "missing") is None


def test_what_a_killed_server_app_left_behind_says_nothing(tmp_path: Path) -> None:
    for at in (time.monotonic() - 61.0, time.monotonic() + 3600.0):  # the machine was started anew since
        (tmp_path / WAITING).write_text(json.dumps(Note(waiting=ERFURT, at=at).model_dump()), encoding="utf-8")
        assert read_waiting(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{", b"3", b'{"round": 0}', b"[" * 5000, b'{"self": 1}'])
def test_whatever_stands_there_raises_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / WAITING).write_bytes(content)
    assert read_waiting(tmp_path) is None
