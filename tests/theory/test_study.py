"""The page of the study says what its records say, and nothing measured is above what is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the figures of the study need matplotlib")

from benchmarks.theory.document import DOCUMENT, floors_table, speed_table
from benchmarks.theory.figures import FIGURES, draw
from benchmarks.theory.grid import AXES, cells
from benchmarks.theory.measured import axis, curves, speed_case
from benchmarks.theory.records import RECORDS, runs

STUDY = runs(RECORDS)


def test_every_run_of_the_grid_is_recorded_once() -> None:
    found = [(each["figure"], each["value"], each["attack"], each["seed"]) for each in STUDY]
    assert sorted(found) == sorted(cell.key for cell in cells())


@pytest.mark.parametrize("name", AXES)
def test_tables_are_what_the_records_say(name: str) -> None:
    assert floors_table(name, axis(STUDY, name)) in DOCUMENT.read_text(encoding="utf-8"), "run `make theory`"


def test_the_table_of_speeds_is_what_the_records_say() -> None:
    assert speed_table(STUDY) in DOCUMENT.read_text(encoding="utf-8"), "run `make theory`"


def test_no_measured_floor_is_above_a_bound() -> None:
    for name in AXES:
        for point in axis(STUDY, name).points:
            assert point.worst <= point.sharp <= point.paper


def test_no_measured_curve_is_above_its_bounds() -> None:
    for steps, by_attack in curves(STUDY).items():
        for guarantee in speed_case(steps).guarantees:
            for curve in by_attack.values():
                assert (curve <= guarantee.bound(range(len(curve))) * (1 + 1e-5)).all()  # records have six digits


def test_the_measured_floor_does_not_grow_with_the_local_steps_and_the_papers_bound_does() -> None:
    for name in ("local-steps", "local-steps-full", "local-steps-alike", "local-steps-logistic"):
        found = axis(STUDY, name)
        assert found.exponent("paper") == pytest.approx(1.0, abs=1e-6)
        assert found.exponent("sharp") <= 1e-6
        assert found.exponent("worst") <= 0.02


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        draw(STUDY, tmp_path / folder, names=["floor-cohort"])
    one, other = ((tmp_path / folder / "floor-cohort.svg").read_bytes() for folder in ("one", "other"))
    assert one == other


def test_every_figure_is_there_and_shown() -> None:
    for name in FIGURES:
        assert (DOCUMENT.parent / "figures" / f"{name}.svg").exists()
        assert f"figures/{name}.svg" in DOCUMENT.read_text(encoding="utf-8")
