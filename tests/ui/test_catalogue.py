"""The runs below a folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.ui.folders import append, begun, played

from steadfed._ui.catalogue import Catalogue, id_of
from steadfed._ui.queries import Query
from steadfed.errors import ParameterError, UnknownNameError
from steadfed.server._history import RunState


def catalogue(folder: Path) -> Catalogue:
    return Catalogue(folder, patience=0)


def places(folder: Path) -> list[str]:
    return [entry.place for entry in catalogue(folder).listing().entries]


def answer(folder: Path, **asked: str) -> list[str]:
    return [run["name"] for run in Query.of(asked).answer(catalogue(folder).listing())["runs"]]


def test_runs_are_found_at_any_depth_and_not_inside_runs(tmp_path: Path) -> None:
    begun(tmp_path / "a")
    begun(tmp_path / "grid" / "cells" / "b")
    begun(tmp_path / "a" / "inside")
    begun(tmp_path / ".hidden" / "c")
    assert places(tmp_path) == ["a", "grid/cells/b"]


def test_a_folder_that_is_a_run_is_its_own_list(tmp_path: Path) -> None:
    begun(tmp_path / "a")
    assert places(tmp_path / "a") == ["a"]


def test_a_folder_may_come_later_and_runs_may_go(tmp_path: Path) -> None:
    found = catalogue(tmp_path / "later")
    assert found.listing().entries == ()
    begun(tmp_path / "later" / "a")
    (run,) = found.paths()
    assert found.path_of(run) == tmp_path / "later" / "a"
    shutil.rmtree(tmp_path / "later" / "a")
    assert found.path_of(run) is None
    assert found.listing().entries == ()


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    played(outside / "secret", 2)
    begun(inside / "own")
    (inside / "link").symlink_to(outside / "secret")
    (inside / "folder").symlink_to(outside)
    assert places(inside) == ["own"]


@pytest.mark.parametrize("name", ["config.toml", "rounds.jsonl", "summary.json", "snapshots"])
def test_a_run_with_a_link_for_a_file_is_none(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password = 'x'\n")
    folder = begun(tmp_path / "runs" / "a")
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).symlink_to(secret)
    assert places(tmp_path / "runs") == []
    assert catalogue(tmp_path / "runs").path_of(id_of("a")) is None


@pytest.mark.parametrize("name", ["config.toml", "rounds.jsonl", "lock"])
def test_nobody_waits_at_a_pipe(tmp_path: Path, name: str) -> None:
    folder = begun(tmp_path / "a")
    begun(tmp_path / "b")
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)
    assert places(tmp_path) == ["b"]


def test_a_run_whose_file_becomes_a_link_is_gone_before_the_next_scan(tmp_path: Path) -> None:
    folder = begun(tmp_path / "a")
    found = Catalogue(tmp_path, patience=60)
    (run,) = found.paths()
    (folder.path / "rounds.jsonl").unlink()
    (folder.path / "rounds.jsonl").symlink_to("/etc/passwd")
    assert found.path_of(run) is None


def test_ids_are_the_same_after_a_restart_and_say_nothing(tmp_path: Path) -> None:
    begun(tmp_path / "a")
    assert list(catalogue(tmp_path).paths()) == list(catalogue(tmp_path).paths()) == [id_of("a")]
    assert catalogue(tmp_path).path_of("../a") is None


def test_the_version_changes_with_what_is_shown_and_only_then(tmp_path: Path) -> None:
    folder = begun(tmp_path / "a")
    found = catalogue(tmp_path)
    first = found.listing().version
    assert found.listing().version == first
    append(folder, range(1))
    assert found.listing().version != first


def test_the_list_is_searched_sorted_and_paged(tmp_path: Path) -> None:
    played(tmp_path / "one", 3, rule="rage", attack="alie")
    played(tmp_path / "two", 9, rule="krum", attack="alie")
    played(tmp_path / "three", 1, rule="krum", attack="sign-flip")
    begun(tmp_path / "four", rule="krum")
    assert answer(tmp_path, search="KRUM alie") == ["two"]
    assert answer(tmp_path, sort="name") == ["four", "one", "three", "two"]
    assert answer(tmp_path, sort="-accuracy") == ["two", "one", "three", "four"]
    assert answer(tmp_path, sort="accuracy") == ["three", "one", "two", "four"]
    assert answer(tmp_path, sort="-progress")[:2] == ["two", "one"]
    assert answer(tmp_path, sort="name", size="3", page="2") == ["two"]
    assert answer(tmp_path, sort="name", size="3", page="99") == ["two"]
    assert answer(tmp_path, state=RunState.EMPTY.value) == ["four"]


@pytest.mark.parametrize(
    "asked",
    [
        {"page": "0"},
        {"page": "x"},
        {"size": "100000"},
        {"size": "0000000015000"},
        {"page": "9" * 5000},
        {"page": "0" * 5000 + "1"},
        {"size": "²"},
    ],
)
def test_numbers_that_make_no_sense_are_refused(asked: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match="expected a whole number"):
        Query.of(asked)


def test_unknown_orders_and_states_are_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'accuracy'"):
        Query.of({"sort": "-acuracy"})
    with pytest.raises(UnknownNameError, match="did you mean 'complete'"):
        Query.of({"state": "completed"})
