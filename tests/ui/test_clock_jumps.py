"""A clock that is set back or ahead between rounds: nothing is missed, nothing waits for the time to come again."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from tests.ui.folders import append, begun, played

from steadfed._ui.catalogue import Catalogue, id_of
from steadfed._ui.downloads import Downloads
from steadfed._ui.pacing import Paced
from steadfed._ui.queries import Query
from steadfed._ui.views import Views
from steadfed.server._history import RunHistory, RunSummaries

DAY, YEAR = 86_400, 31_557_600
JUMPS = (0, -DAY, YEAR, -YEAR, -(10**9), 10**10)
"""By how many seconds the clock is another, round after round."""
SOURCES = Path(__file__).parents[2] / "src/steadfed"


def at(path: Path, seconds: float) -> None:
    """Let the files of a run be changed at a time."""
    for file in path.iterdir():
        os.utime(file, (seconds, seconds))


def test_every_round_is_seen_whatever_the_clock_says(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    history, summaries, now = RunHistory(folder.path), RunSummaries(), time.time()
    views, downloads = Views(Catalogue(tmp_path, patience=0.0), patience=0.0), Downloads()
    versions, pages = set(), set()
    for number, jump in enumerate(JUMPS):
        append(folder, range(number, number + 1))
        at(folder.path, now + jump)
        assert history.refresh()
        assert history.rounds_played == number + 1
        assert summaries.summarize(folder.path).rounds_played == number + 1
        shown = views.snapshot((id_of("run"),))
        assert shown is not None
        versions.add(shown.version)
        pages.add(downloads.page([folder.path]))
    assert len(versions) == len(pages) == len(JUMPS)


def test_a_file_of_the_same_length_and_date_is_known_to_be_another(tmp_path: Path) -> None:
    folder = played(tmp_path / "run", 3)
    history, summaries = RunHistory(folder.path), RunSummaries()
    assert summaries.summarize(folder.path).rule.startswith("rage")
    config = folder.path / "config.toml"
    before, other = config.stat(), tmp_path / "other"
    other.write_text(config.read_text().replace('"rage"', '"mean"'))
    other.replace(config)
    os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (config.stat().st_size, config.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert history.refresh()
    assert history.raw["rule"]["name"] == "mean"
    assert summaries.summarize(folder.path).rule.startswith("mean")


def test_runs_of_the_future_and_of_long_ago_are_listed(tmp_path: Path) -> None:
    for number, jump in enumerate(JUMPS):
        at(played(tmp_path / f"run-{number}", 1).path, time.time() + jump)
    answer = Query().answer(Catalogue(tmp_path, patience=0.0).listing())
    assert [run["name"] for run in answer["runs"]] == ["run-5", "run-2", "run-0", "run-1", "run-3", "run-4"]
    assert all(abs(run["changed"]) < 10**11 for run in answer["runs"])


def test_work_is_paced_by_a_clock_that_nobody_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    made, now = iter(range(100)), [1_000.0]
    monkeypatch.setattr(time, "time", lambda: pytest.fail("the wall clock was asked"))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    paced = Paced(lambda: next(made), patience=60)
    assert (paced.get(), paced.get()) == (0, 0)
    now[0] += 61
    assert paced.get() == 1


ORDERED = {"flower/_messages.py", "flower/_acceptance.py"}
"""Between machines there is no other clock: when an order was given, and whether its time is over."""
HOSTILE = "flower/redteam/"
"""Those who date their messages back."""


def test_nothing_is_measured_by_the_wall_clock() -> None:
    asking = [
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if re.search(r"\btime\.time(_ns)?\(|\bctime\(", path.read_text(encoding="utf-8"))
    ]
    assert [path for path in asking if path not in ORDERED and not path.startswith(HOSTILE)] == []
