"""Runs that differ in their seeds alone are one curve; all others stay what they are."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.reports.made import folder, four

from steadfed.attacks import SignFlip, Silence
from steadfed.reports._reporting import report_of
from steadfed.reports._sections.learning import learning
from steadfed.reports._sections.seeds import seed_groups
from steadfed.reports._sections.verdict import headlines
from steadfed.reports.panels import Lines
from steadfed.server._history import RunHistory


def runs(place: Path, accuracies: dict[str, tuple[int, float]], **changes: object) -> list[RunHistory]:
    """Return runs by name, each with a seed and an accuracy that it has from the first round on."""
    for name, (seed, accuracy) in accuracies.items():
        folder(place / name, [four(number, test_accuracy=accuracy) for number in range(4)], seed=seed, **changes)
    return [RunHistory(place / name) for name in accuracies]


def accuracy_of(histories: list[RunHistory]) -> Lines:
    panel = next(panel for panel in learning(histories).panels if panel.key == "accuracy")
    assert isinstance(panel, Lines)
    return panel


def test_runs_of_three_seeds_are_one_curve_with_its_band_and_number(tmp_path: Path) -> None:
    panel = accuracy_of(runs(tmp_path, {"a": (0, 0.5), "b": (1, 0.6), "c": (2, 0.7)}))
    tested = next(series for series in panel.series if "test points" in series.name)
    assert tested.name == "rage (n = 3): test points"
    assert tested.y == pytest.approx((0.6,) * 4)
    assert tested.bands[0] == pytest.approx((0.5, 0.7))
    assert "smallest to the largest" in panel.note


def test_other_configurations_and_repeated_seeds_are_no_group(tmp_path: Path) -> None:
    same = runs(tmp_path / "same", {"a": (0, 0.5), "b": (0, 0.6)})
    assert [group.name for group in seed_groups(same)] == ["a", "b"]
    flips = runs(tmp_path / "flip", {"a": (0, 0.5), "b": (1, 0.6)}, attack=SignFlip())
    silent = runs(tmp_path / "silent", {"c": (0, 0.5), "d": (1, 0.6), "e": (2, 0.6)}, attack=Silence())
    names = [group.name for group in seed_groups([*flips, *silent])]
    assert names == ["rage, sign-flip (n = 2)", "rage, silence (n = 3)"]
    assert accuracy_of(same).note == ""
    assert not any(series.bands for series in accuracy_of(same).series)


def test_a_run_that_broke_off_is_a_gap_in_the_mean(tmp_path: Path) -> None:
    histories = runs(tmp_path, {"a": (0, 0.5)})
    records = [four(number, test_accuracy=0.7 if number < 2 else math.nan) for number in range(4)]
    folder(tmp_path / "b", records, seed=1)
    tested = next(each for each in accuracy_of([*histories, RunHistory(tmp_path / "b")]).series if "test" in each.name)
    assert tested.y[:2] == pytest.approx((0.6, 0.6))
    assert tested.y[2:] == (None, None)


def test_the_headline_of_a_group_is_its_mean_and_how_far_it_reaches(tmp_path: Path) -> None:
    found = headlines(runs(tmp_path, {"a": (0, 0.5), "b": (1, 0.6), "c": (2, 0.7)}))
    assert [(each.title, each.value, each.note) for each in found] == [
        ("rage (n = 3)", "60.0 %", "from 50.0 % to 70.0 %")
    ]


def test_a_page_of_several_runs_begins_with_what_was_removed_and_folds_the_rest(tmp_path: Path) -> None:
    folder(tmp_path / "a", [four(0, kept=(0, 1, 2, 3), weights=(0.25,) * 4)])
    folder(tmp_path / "b", [four(0)])
    report = report_of([RunHistory(tmp_path / "a"), RunHistory(tmp_path / "b")], guarantee=False)
    panels = [panel for section in report.sections for panel in section.panels]
    assert report.subtitle == "b, a"
    folded = {panel.key: panel.fold for panel in panels if panel.fold}
    assert folded["weights-2"] == "The same of a"
    assert folded["scores-1"].startswith("Also: ")
    assert "weights-1" not in folded
    assert not any(panel.fold for section in report_of([RunHistory(tmp_path / "b")], guarantee=False).sections
                   for panel in section.panels)  # fmt: skip


def test_many_runs_say_of_each_what_is_being_done(tmp_path: Path) -> None:
    said: list[str] = []
    report_of(runs(tmp_path, {"a": (0, 0.5), "b": (1, 0.6)}), guarantee=False, notify=said.append)
    assert len(said) > 8
    assert "who was removed in b" in said
