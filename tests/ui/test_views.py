"""Pages of runs: made once, sent as far as they changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.ui.folders import append, played

from steadfed._ui import views
from steadfed._ui.catalogue import Catalogue, id_of
from steadfed._ui.page_reports import live_report
from steadfed._ui.recent import Recent
from steadfed._ui.views import PageSnapshot, Views
from steadfed.reports.panels import Report
from steadfed.server._history import RunHistory


def watched(folder: Path) -> Views:
    return Views(Catalogue(folder, patience=0), patience=0)


def seen(views: Views, *names: str) -> PageSnapshot:
    found = views.snapshot(tuple(map(id_of, names)))
    assert found is not None
    return found


def test_only_what_changed_is_sent(tmp_path: Path) -> None:
    folder = played(tmp_path / "one", 5)
    pages = watched(tmp_path)
    first = seen(pages, "one")
    append(folder, range(5, 6))
    second = seen(pages, "one")
    told = json.loads(second.since(first))
    assert second.version != first.version
    assert second.layout == first.layout
    assert "accuracy" in told["panels"]
    assert "configuration" not in told["panels"]
    assert set(json.loads(second.whole)["panels"]) == set(second.panels)


def test_the_version_is_the_same_after_a_restart(tmp_path: Path) -> None:
    played(tmp_path / "one", 5)
    assert seen(watched(tmp_path), "one").version == seen(watched(tmp_path), "one").version


def test_a_page_is_not_made_again_if_nothing_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = played(tmp_path / "one", 5)
    pages = watched(tmp_path)
    made: list[int] = []

    def counted(histories: Sequence[RunHistory]) -> Report:
        made.append(len(histories))
        return live_report(histories)

    monkeypatch.setattr(views, "live_report", counted)
    assert seen(pages, "one") is seen(pages, "one")
    assert len(made) == 1
    append(folder, range(5, 6))
    seen(pages, "one")
    assert len(made) == 2


def test_two_pages_of_one_run_both_see_what_is_new(tmp_path: Path) -> None:
    folder = played(tmp_path / "one", 5)
    played(tmp_path / "two", 5)
    pages = watched(tmp_path)
    before = seen(pages, "one"), seen(pages, "one", "two")
    append(folder, range(5, 6))
    after = seen(pages, "one"), seen(pages, "one", "two")
    assert all(one.version != other.version for one, other in zip(before, after, strict=True))


def test_only_the_last_few_are_kept() -> None:
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key

    recent = Recent(make, most=2)
    for key in ("a", "b", "a", "c", "a", "b"):
        assert recent.get(key) == key
    assert made == ["a", "b", "c", "b"]


def test_a_long_run_is_thinned(tmp_path: Path) -> None:
    played(tmp_path / "long", 2_000, planned=2_000, clients=tuple(range(20)))
    whole = seen(watched(tmp_path), "long").whole
    panels = json.loads(whole)["panels"]
    assert len(panels["accuracy"]["figure"]["data"][0]["x"]) <= 600
    cells = panels["weights"]["figure"]["data"][0]["z"]
    assert len(cells) * len(cells[0]) <= 20_000
    assert len(whole) < 1_000_000
