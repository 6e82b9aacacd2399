"""Rules and attacks of the user's own in sweeps: found by workers, and known by the source behind their names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.own_code import HERE
from tests.sweeps.runs.grids import BASE

from steadfed._core.own_code import loaded
from steadfed.errors import ParameterError, UnknownNameError
from steadfed.sweeps._pool import ThisProcess, WorkerProcesses
from steadfed.sweeps.matrices import GauntletGrid, ranking, read_records, run
from steadfed.sweeps.matrices._catalogue import code_of, digest_of, rule_for, with_bound
from steadfed.sweeps.runs._comparison import Comparison
from steadfed.sweeps.runs._grid import parse_grid

GRID = (
    BASE.replace("rounds = 4", "rounds = 1")
    + """
[grid]
rule = ["mean", { import = "swept:mine", share = 0.5, label = "half" }, "nnm+swept:mine"]
attack = ["sign-flip"]
byzantine_fraction = 0.25
"""
)
MODULE = """
def mine(updates, num_byzantine, share=1.0):
    cut = int(share * num_byzantine)
    return updates.sort(0).values[cut : len(updates) - cut].mean(0)

def turned(honest_updates):
    return -honest_updates.mean(0)
"""
MATRICES = {"cohort_sizes": (8,), "dims": (3,), "byzantine_fractions": (0.25,), "populations": ("iso",)}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand in a folder with the user's module in it."""
    (tmp_path / "swept.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "swept", raising=False)
    yield tmp_path / "swept.py"
    sys.modules.pop("swept", None)


def test_a_comparison_plays_them_in_worker_processes_and_again_only_if_their_source_changes(module: Path) -> None:
    grid = parse_grid(GRID)
    comparison = Comparison(grid, Path("ours"))
    assert [progress.failed for progress in comparison.play(WorkerProcesses(jobs=1))][-1] == 0
    results = comparison.results()
    assert {row.rule for row in results} == {"oracle", "mean", "half", "nnm+swept:mine"}
    assert {row.assumed for row in results if row.rule == "half"} == {2}
    assert all(row.value is not None for row in results)
    assert next(row for row in results if row.rule == "half").figures.recall is None  # type: ignore[union-attr]
    module.write_text(MODULE.replace("def turned", "# said of it\n\n\ndef turned"))
    assert Comparison(grid, Path("ours")).progress(0).finished == len(comparison.runs)
    module.write_text(MODULE.replace("int(share", "round(share"))
    again = Comparison(grid, Path("ours"))
    assert again.progress(0).finished == 2, "the oracle and that of the mean"


def test_a_worker_with_another_source_refuses_the_cell(module: Path) -> None:
    comparison = Comparison(parse_grid(GRID), Path("ours"))
    module.write_text(MODULE.replace("int(share", "round(share"))
    assert [progress.failed for progress in comparison.play(ThisProcess(), limit=3)][-1] == 1
    (said,) = {row.reason for row in comparison.results() if row.reason}
    assert "the source of swept:mine here is not that where the comparison was started" in str(said)


def test_the_gauntlet_ranks_them_and_knows_their_source(module: Path) -> None:
    grid = GauntletGrid(
        rules=("mean", "swept:mine", "nnm+swept:mine", f"{HERE}:heaviest"),
        attacks=("none", "swept:turned", "optimal+swept:turned"),
        **MATRICES,
    )
    out = Path("out.jsonl")
    records = [record for matrix in run(grid, out=out) for record in matrix]
    assert {record.code is None for record in records if record.rule == "mean" and record.attack == "none"} == {True}
    assert all(record.code is not None for record in records if "swept" in record.rule + record.attack)
    ranked = {each.rule: each for each in ranking(records)}
    assert ranked["swept:mine"].byzantine_weight is None
    assert ranked[f"{HERE}:heaviest"].byzantine_weight is not None
    number = len(out.read_text().splitlines())
    assert [len(matrix) for matrix in run(grid, out=out)] == [4, 4, 4]
    assert len(out.read_text().splitlines()) == number, "nothing is run twice"
    assert len(read_records(out)) == number


def test_a_changed_rule_is_another_one_whose_last_results_count(module: Path) -> None:
    grid = GauntletGrid(rules=("mean", "swept:mine"), attacks=("sign-flip",), **MATRICES)
    out = Path("out.jsonl")
    ((_, first),) = run(grid, out=out)
    module.write_text(MODULE.replace("int(share", "0 * round(share"))
    digest_of.cache_clear()
    sys.modules.pop("swept")
    ((mean, second),) = run(grid, out=out)
    assert first.code != second.code
    assert second.error == pytest.approx(mean.error) != first.error
    assert [record.error for record in read_records(out)] == [mean.error, second.error]
    assert len(out.read_text().splitlines()) == 3
    digest_of.cache_clear()


def test_what_cannot_be_tried_on_a_matrix_is_refused_before_the_first() -> None:
    for changes, error, said in [
        ({"rules": (f"{HERE}:too_short",)}, ParameterError, "tried on random numbers, .*one number for each"),
        ({"attacks": (f"{HERE}:words",)}, ParameterError, "tried on random numbers"),
        ({"attacks": (f"{HERE}:classes",)}, ParameterError, "changes data, and a matrix has none"),
        ({"rules": (f"{HERE}:nobody",)}, ParameterError, "has no 'nobody'"),
        ({"attacks": (f"sleper+{HERE}:turned",)}, UnknownNameError, "unknown attack"),
    ]:
        with pytest.raises(error, match=said):
            GauntletGrid(**changes).check()


def test_every_rule_is_told_the_bound_unless_it_has_one() -> None:
    assert with_bound({"import": "a:b"}, 3) == {"import": "a:b", "num_byzantine": 3}
    assert with_bound({"name": "nnm+a:b"}, 3) == {"name": "nnm+a:b", "num_byzantine": 3}
    assert with_bound({"import": "a:b", "byzantine_fraction": 0.1}, 3) == {"import": "a:b", "byzantine_fraction": 0.1}
    assert loaded(rule_for(f"{HERE}:First", 2, 1.0)).assumed_byzantine(9) == 2
    assert code_of("rage", "alie") is None
    assert code_of("rage", f"optimal+{HERE}:turned") == code_of("mean", f"{HERE}:turned")
