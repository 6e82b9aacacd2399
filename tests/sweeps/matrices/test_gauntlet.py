"""The gauntlet: deterministic, resumable, independent of the number of processes, and honest about refusals."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steadfed.aggregators import Median
from steadfed.attacks import ALittleIsEnough
from steadfed.errors import ParameterError, RunError, UnknownNameError
from steadfed.reports._gauntlet import gauntlet_ranking
from steadfed.sweeps.matrices import (
    GauntletGrid,
    GauntletRecord,
    _gauntlet as gauntlet,
    attacked_population,
    lost_duels,
    ranking,
    read_records,
    run,
)
from steadfed.sweeps.matrices._gauntlet import MatrixRules, try_matrix
from steadfed.theory.robustness import robustness_coefficients

SMALL = GauntletGrid(
    rules=("rage", "median", "bulyan"),
    attacks=("none", "nan", "alie", "optimal-ipm"),
    populations=("iso",),
    cohort_sizes=(12,),
    dims=(5, 40),
    byzantine_fractions=(0.25,),
)


def records(grid: GauntletGrid, **options: object) -> list[GauntletRecord]:
    return [replace(record, seconds=None) for done in run(grid, **options) for record in done]  # type: ignore[arg-type]


@pytest.mark.usefixtures("two_threads")
def test_the_outcome_depends_on_grid_and_seed_only() -> None:
    first = records(SMALL)
    assert first == records(SMALL, jobs=2)
    assert first != records(SMALL, seed=1)
    assert [r.rule for r in first[:3]] == list(SMALL.rules)
    assert len({record.key for record in first}) == len(first) == 2 * 4 * 3


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    out, whole = tmp_path / "out.jsonl", records(SMALL)
    running = run(SMALL, out=out)
    for _ in range(3):
        next(running)
    del running
    with out.open("a") as file:
        file.write('{"rule": "rage", "att')  # torn by a crash
    before = out.read_text().splitlines()[:9]
    assert records(SMALL, out=out) == whole
    assert out.read_text().splitlines()[:9] == before, "what was done is not run again"
    assert [replace(record, seconds=None) for record in read_records(out)] == whole
    size = out.stat().st_size
    assert records(SMALL, out=out) == whole
    assert out.stat().st_size == size


def test_a_rule_that_cannot_stand_so_many_says_what_it_needs() -> None:
    refused = [record for record in records(SMALL) if record.rule == "bulyan"]
    assert all(record.error is None and "needs at least 15 updates" in str(record.refused) for record in refused)
    (bulyan,) = ranking(refused)
    assert (bulyan.worst, bulyan.worst_error, bulyan.num_refused) == (None, float("inf"), 8)


def _record(rule: str, error: float | None, *, dim: int = 5, attack: str = "alie", lost: float = 0.0) -> GauntletRecord:
    refused = "too many" if error is None else None
    return GauntletRecord(
        rule=rule, attack=attack, model="iso", cohort_size=10, dim=dim, num_byzantine=2, seed=0, error=error,
        honest_weight_lost=lost, byzantine_weight=dim / 100, seconds=dim / 10, refused=refused,
    )  # fmt: skip


def test_rules_are_ranked_by_the_worst_case_and_losses_are_told() -> None:
    found = [
        _record("rage", 1.5),
        _record("rage", 1.0, dim=50),
        _record("rage", 9.0, attack="none", lost=0.5),
        _record("krum", 1.2),
        _record("krum", 7.0, dim=50),
        _record("mda", None),
    ]
    rage, krum, mda = ranking(found)
    assert [rage.rule, krum.rule, mda.rule] == ["rage", "krum", "mda"]
    assert (rage.worst_error, rage.worst_by_dim) == (1.5, {5: 1.5, 50: 1.0})
    assert (rage.honest_weight_lost, rage.seconds, rage.mean_error) == (0.5, 5.0, 1.25)
    assert rage.byzantine_weight == pytest.approx(0.275)
    assert (krum.worst_error, mda.num_refused) == (7.0, 1)
    (lost,) = lost_duels(found)
    assert (dict(lost.setting)["dim"], lost.other.rule) == (5, "krum")
    assert (lost.other.value.mean, lost.own.value.mean) == (-1.2, -1.5)
    assert [dict(duel.setting)["dim"] for duel in lost_duels(found, "krum")] == [50]


def test_coefficients_are_the_largest_under_attack() -> None:
    found = [
        replace(_record("rage", 2.0), trace_coefficient=0.1),
        replace(_record("rage", 1.0, dim=50), trace_coefficient=0.3),
        replace(_record("rage", 9.0, attack="none"), trace_coefficient=7.0),
        _record("krum", 3.0),
        _record("mda", None),
    ]
    rage, krum, mda = ranking(found)
    assert (rage.trace_coefficient, krum.trace_coefficient) == (0.3, None)
    assert rage.spectral_coefficient == pytest.approx(4.0 * 0.2)
    assert krum.spectral_coefficient == pytest.approx(9.0 * 0.2)
    assert (mda.trace_coefficient, mda.spectral_coefficient) == (None, None)


def test_a_coefficient_that_only_some_records_have_is_missing() -> None:
    """The largest of new records would stand beside the largest of all of another rule."""
    old, new = _record("rage", 2.0), replace(_record("rage", 1.0, dim=50), trace_coefficient=0.3)
    (rage,) = ranking([old, new])
    assert rage.trace_coefficient is None
    assert rage.spectral_coefficient == old.spectral_coefficient
    shown = gauntlet_ranking([rage])
    place = [column.title for column in shown.columns].index("e²/trace")
    assert shown.rows[0][place] is None
    refused = replace(_record("rage", None), refused="too many")
    assert ranking([new, refused])[0].trace_coefficient == 0.3


def test_coefficients_of_a_run_are_those_of_its_matrices() -> None:
    grid = SMALL.model_copy(update={"rules": ("median",), "attacks": ("alie",), "dims": (5,)})
    (record,) = records(grid)
    there = attacked_population("iso", ALittleIsEnough(), cohort_size=12, dim=5, num_byzantine=3, seed=0)
    update = there.aggregate(Median()).update
    expected = robustness_coefficients(update, there.population.honest)
    assert record.trace_coefficient == pytest.approx(expected.trace, rel=1e-5)
    assert record.spectral_coefficient == pytest.approx(expected.spectral, rel=1e-5)


def test_rage_stays_at_its_constant_in_every_dimension_and_coordinates_do_not() -> None:
    grid = GauntletGrid(
        rules=("rage", "median", "trimmed-mean", "krum"),
        attacks=("alie", "min-max", "optimal-cluster", "optimal-alie", "below-threshold", "nan"),
        populations=("iso",),
        cohort_sizes=(40,),
        dims=(10, 2000),
        byzantine_fractions=(0.25,),
    )
    by_rule = {each.rule: each.worst_by_dim for each in ranking(records(grid))}
    assert max(by_rule["rage"].values()) <= 2.1
    for rule in ("median", "trimmed-mean", "krum"):
        assert by_rule[rule][2000] > 1.5 * by_rule[rule][10]
        assert by_rule[rule][2000] > 1.5 * by_rule["rage"][2000]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"rules": ("krumm",)}, UnknownNameError, "did you mean 'krum'"),
        ({"attacks": ("alei",)}, UnknownNameError, "did you mean 'alie'"),
        ({"attacks": ("label-flip",)}, UnknownNameError, "on a matrix"),
        ({"attacks": ("model-replacement+pixel-trigger",)}, UnknownNameError, "compare it in runs"),
        ({"populations": ("isotropic",)}, UnknownNameError, "known: clusters"),
        ({"rules": ("rage-knwn",)}, UnknownNameError, "did you mean 'rage-known'"),
        ({"rules": ("nnm",)}, ParameterError, "takes another rule inside"),
        ({"attacks": ("optimal",)}, ParameterError, "takes another attack inside"),
        ({"cohort_sizes": (5,), "byzantine_fractions": (0.1,)}, ParameterError, "0.1 of 5 clients is nobody"),
    ],
)
def test_unknown_names_are_refused_before_anything_runs(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        next(run(GauntletGrid(**change)))


@pytest.mark.parametrize(
    "change", [{"dims": ()}, {"dims": (0,)}, {"byzantine_fractions": (0.5,)}, {"rules": ("rage", "rage")}]
)
def test_impossible_grids_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(change))):
        GauntletGrid(**change)


def test_no_cell_has_a_larger_share_than_was_asked_for_and_none_comes_twice() -> None:
    grid = GauntletGrid(
        attacks=("none",), populations=("iso",), cohort_sizes=(6, 10), dims=(5,), byzantine_fractions=(0.25, 0.29)
    )
    assert [(matrix.cohort_size, matrix.num_byzantine) for matrix in grid.matrices()] == [(6, 1), (10, 2)]


def test_a_file_that_another_run_writes_to_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    first = run(SMALL, out=out)
    next(first)
    with pytest.raises(RunError, match="another process is writing to"):
        next(run(SMALL, out=out))
    first.close()  # type: ignore[attr-defined]
    assert len(records(SMALL, out=out)) == 24


def test_records_that_a_file_holds_twice_count_once(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    whole = records(SMALL, out=out)
    out.write_text(2 * out.read_text())
    assert [replace(record, seconds=None) for record in read_records(out)] == whole


def _lost(task: MatrixRules) -> list[GauntletRecord]:
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return try_matrix(task)


def test_a_lost_worker_is_an_error_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauntlet, "try_matrix", _lost)
    with pytest.raises(RunError, match="ended abruptly"):
        records(SMALL, jobs=2)


_ROW = {"attack": "nan", "model": "iso", "cohort_size": 10, "dim": 4, "num_byzantine": 2, "seed": 0}


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"rule": "rage"}',
        '{"what": 3}',
        json.dumps(_ROW | {"rule": ["rage"]}),
        json.dumps(_ROW | {"rule": "rage", "error": "small"}),
        json.dumps(_ROW | {"rule": "rage", "dim": None}),
    ],
)
def test_a_file_of_something_else_is_not_taken_for_records(tmp_path: Path, line: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ParameterError, match=r"other\.jsonl:1"):
        read_records(path)
