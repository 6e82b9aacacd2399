"""Results that were measured long ago are read as they are, and their trials are not tried again."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from steadfed.reports._comparisons import comparison_report
from steadfed.sweeps._store import append_rows
from steadfed.sweeps.matrices import GauntletGrid, GauntletRecord, ranking, read_records, run
from steadfed.sweeps.runs._cells import CellPlanner
from steadfed.sweeps.runs._grid import read_grid
from steadfed.sweeps.runs._results import CellState, read_results

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
COMPARISONS = [path.name for path in sorted(RESULTS.glob("compare-*"))]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[GauntletRecord]:
    path = tmp_path_factory.mktemp("old") / "gauntlet.jsonl"
    path.write_bytes(gzip.decompress((RESULTS / "gauntlet-2026-11-16.jsonl.gz").read_bytes()))
    return read_records(path)


def test_the_gauntlet_of_old_is_ranked_as_it_was(records: list[GauntletRecord]) -> None:
    ranked = {each.rule: each.worst_error for each in ranking(records)}
    assert (len(records), len(ranked)) == (34_728, 30)
    assert ranked["rage"] == pytest.approx(2.12, abs=0.005)
    assert next(iter(ranked)) == "caf"


def test_of_the_gauntlet_of_old_the_coefficient_is_known_that_follows_from_the_error(
    records: list[GauntletRecord],
) -> None:
    ranked = {each.rule: each for each in ranking(records)}
    assert {each.trace_coefficient for each in ranked.values()} == {None}
    assert ranked["rage"].spectral_coefficient == pytest.approx(2.12**2 / 4, rel=0.01)


def test_rules_that_join_do_not_make_old_records_anew(records: list[GauntletRecord], tmp_path: Path) -> None:
    grid = GauntletGrid(
        rules=("rage", "mean", "clustered+median"), attacks=("none", "alie"), populations=("iso",), dims=(10,),
        byzantine_fractions=(0.1,),
    )  # fmt: skip
    old = [each for each in records if each.rule in grid.rules and each.attack in grid.attacks and each.dim == 10
           and (each.model, each.cohort_size, each.num_byzantine) == ("iso", 40, 4)]  # fmt: skip
    out = tmp_path / "gauntlet.jsonl"
    out.touch()
    append_rows(out, (record.row() for record in old))
    found = [record for done in run(grid, out=out) for record in done]
    assert [record for record in found if record.rule in {"rage", "mean"}] == old
    assert [record.rule for record in read_records(out)[4:]] == 2 * ["clustered+median"]


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_of_old_have_their_report(name: str) -> None:
    results = read_results(RESULTS / name / "results.parquet")
    grid = read_grid(str(RESULTS / name / "grid.toml"))
    assert {result.state for result in results} <= set(CellState)
    assert comparison_report(RESULTS / name).title == grid.title


def test_the_cells_of_the_quick_grid_are_those_of_old_but_for_the_rule_that_has_changed() -> None:
    old = {result.key: result.rule for result in read_results(RESULTS / "compare-quick" / "results.parquet")}
    new = {
        cell.key: cell.settings["rule"]
        for cell in CellPlanner(read_grid(str(RESULTS / "compare-quick" / "grid.toml"))).cells()
    }
    assert {key for key, rule in old.items() if rule != "rage"} == {key for key, rule in new.items() if rule != "rage"}
    assert not {key for key, rule in old.items() if rule == "rage"} & new.keys()
