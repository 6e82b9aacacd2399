from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest
from tests.cli.commands import ONE_THREAD, PROGRAM
from tests.sweeps.runs.grids import BASE, SMALL, Witness

from steadfed._core.durable import sole_holder
from steadfed.errors import CorruptRunError, RunError
from steadfed.server._folder import RunFolder
from steadfed.sweeps._pool import WorkerProcesses
from steadfed.sweeps.runs._comparison import Comparison
from steadfed.sweeps.runs._figures import read_figures
from steadfed.sweeps.runs._grid import parse_grid
from steadfed.sweeps.runs._ranking import ranking
from steadfed.sweeps.runs._results import CellState, read_results

KILLER = """
import os, signal, torch

def model(dataset):
    os.kill(os.getpid(), signal.SIGKILL)

def harmless(dataset):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

def broken(dataset):
    if not os.path.exists("healed"):
        raise KeyError("nothing")
    return harmless(dataset)
"""


def played(path: Path, text: str = SMALL, **options: int) -> Witness:
    workers = Witness()
    for _ in Comparison(parse_grid(text), path).play(workers, **options):
        pass
    return workers


def content(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path / "results.parquet").drop("seconds")


def stamps(path: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in (path / "cells").rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole")
    played(path)
    return path


def test_every_point_has_a_row_and_every_row_its_figures(whole: Path) -> None:
    results = read_results(whole / "results.parquet")
    assert len(results) == 2 * (2 + 1 + 4 + 1)
    assert {result.state for result in results} == {CellState.FINISHED}
    assert all(result.figures and result.figures.accuracy and len(result.figures.curve) == 4 for result in results)
    assert all((whole / "cells" / result.key / "summary.json").is_file() for result in results)


def test_finished_cells_are_runs_without_checkpoints(whole: Path) -> None:
    for cell in (whole / "cells").iterdir():
        assert not (cell / "checkpoints").exists()
        assert RunFolder.open(cell).num_rounds() == 4


def test_what_is_done_is_not_touched_again(whole: Path) -> None:
    before = stamps(whole)
    assert played(whole).played == []
    assert stamps(whole) == before


def test_a_changed_grid_plays_only_what_is_new(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    more = SMALL.replace('"median"]', '"median", "mean"]').replace("seed = [0, 1]", "seed = [0]")
    assert len(played(tmp_path / "copy", more).played) == 2  # mean: without attack it is the oracle, which is there


def test_what_is_done_stays_done_where_only_the_results_were_kept(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole / "results.parquet", tmp_path)
    more = SMALL.replace("seed = [0, 1]", "seed = [0, 1, 2]")
    assert len(played(tmp_path, more).played) == 8
    kept = [result for result in read_results(tmp_path / "results.parquet") if result.seed != 2]
    assert kept == read_results(whole / "results.parquet")


def test_limits_are_kept_and_the_rest_is_waiting(tmp_path: Path) -> None:
    assert len(played(tmp_path, limit=3).played) == 3
    states = [result.state for result in read_results(tmp_path / "results.parquet")]
    assert states.count(CellState.FINISHED) == 3
    assert states.count(CellState.WAITING) == 13
    assert played(tmp_path, seconds=0).played == []


def test_an_interrupted_comparison_ends_like_one_that_was_not(whole: Path, tmp_path: Path) -> None:
    for number, _ in enumerate(Comparison(parse_grid(SMALL), tmp_path).play(Witness())):
        if number == 5:
            break
    played(tmp_path)
    assert content(tmp_path).equals(content(whole))


@pytest.mark.parametrize("damaged", ["{", "[]", "null", '{"accuracy": 0.5}'])
def test_a_damaged_cell_is_played_anew(whole: Path, tmp_path: Path, damaged: str) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    first, second, third = sorted((tmp_path / "copy" / "cells").iterdir())[:3]
    (first / "figures.json").write_text(damaged)
    (second / "figures.json").unlink()
    (second / "config.toml").write_text("lr = 3")
    (third / "figures.json").unlink()
    (third / "config.toml").unlink()
    (third / "rounds.jsonl").write_text("")
    for name in ("summary.json", "model.safetensors"):
        (third / name).unlink()
    assert sorted(played(tmp_path / "copy").played) == [first.name, second.name, third.name]
    assert content(tmp_path / "copy").equals(content(whole))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("accuracy", "0.9"),
        ("accuracy", float("nan")),
        ("curve", 3),
        ("curve", [0.1]),
        ("skipped", 0.5),
        ("seconds", None),
    ],
)
def test_figures_that_no_run_has_are_not_believed(whole: Path, tmp_path: Path, name: str, value: object) -> None:
    file = next(whole.glob("cells/*/figures.json"))
    (tmp_path / "figures.json").write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    assert read_figures(file.parent) is not None
    assert read_figures(tmp_path) is None


def test_only_one_comparison_works_in_a_folder(tmp_path: Path) -> None:
    with sole_holder(tmp_path / "lock"), pytest.raises(RunError, match="another process is writing to"):
        played(tmp_path)


def test_results_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptRunError, match="there is no comparison"):
        read_results(tmp_path / "results.parquet")
    (tmp_path / "results.parquet").write_bytes(b"nothing")
    with pytest.raises(CorruptRunError, match="not what a comparison writes"):
        read_results(tmp_path / "results.parquet")


def test_a_cell_that_kills_its_worker_or_raises_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    monkeypatch.chdir(tmp_path)
    killing, harmless, broken = (
        f'{{ label = "{name}", name = "import", factory = "killer:{name}" }}'
        for name in ("model", "harmless", "broken")
    )
    text = f"reference = false\n{BASE}\n[grid]\nrule = 'mean'\nmodel = "
    out = tmp_path / "out"
    list(Comparison(parse_grid(f"{text}[{killing}, {harmless}, {broken}]"), out).play(WorkerProcesses(jobs=1)))
    by_model = {str(result.settings["model"]): result for result in read_results(out / "results.parquet")}
    assert by_model["harmless"].state is CellState.FINISHED
    assert by_model["model"].state is CellState.FAILED
    assert "ended abruptly (signal 9)" in str(by_model["model"].reason)
    assert "KeyError: 'nothing'" in str(by_model["broken"].reason)
    (tmp_path / "healed").touch()
    assert len(played(out, f"{text}[{harmless}, {broken}]").played) == 1  # what has failed is tried again
    assert {result.state for result in read_results(out / "results.parquet")} == {CellState.FINISHED}


def test_kill_9_in_the_middle_changes_nothing_in_the_end(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(SMALL.replace("rounds = 4", "rounds = 40").replace("seed = [0, 1]", "seed = [0]"))
    out = tmp_path / "killed"
    command = [*PROGRAM, "compare", str(grid), "--out", str(out), "--jobs", "1"]
    driver = subprocess.Popen(command, env=ONE_THREAD, start_new_session=True, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        end = time.monotonic() + 120
        while len(list(out.glob("cells/*/figures.json"))) < 2 and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    done = [file.parent for file in out.glob("cells/*/figures.json")]
    before = {path: stamp for path, stamp in stamps(out).items() if path.parent in done}
    assert 2 <= len(done) < 8
    played(out, grid.read_text())
    played(tmp_path / "whole", grid.read_text())
    assert content(out).equals(content(tmp_path / "whole"))
    after = stamps(out)
    assert {path: after[path] for path in before} == before


def test_figures_are_plain_json(whole: Path) -> None:
    file = next(whole.glob("cells/*/figures.json"))
    assert set(json.loads(file.read_text())) >= {"accuracy", "curve", "precision", "recall", "seconds"}


LINEAR = """
metric = "METRIC"

[base]
rounds = 4
batch_size = 8
cohort_size = 8
data = { name = "synthetic-linear", num_points = 80, num_test_points = 40, dim = 3, num_groups = 8 }
partition = { name = "natural" }
model = { name = "linear-regression" }

[grid]
rule = ["rage", "mean"]
attack = ["none", "ipm-100"]
byzantine_fraction = 0.25
"""


def test_a_metric_is_looked_at_ranked_by_and_read_again(tmp_path: Path) -> None:
    grid = LINEAR.replace("METRIC", "rmse")
    first = played(tmp_path, grid)
    rows = read_results(tmp_path / "results.parquet")
    assert {row.measure.name for row in rows} == {"rmse"}
    assert rows == Comparison(parse_grid(grid), tmp_path).results()
    assert all(row.value is not None and 'metrics = [\n    "rmse",\n]' in row.config for row in rows)
    assert [each.rule for each in ranking(rows)][-1] == "mean"
    assert len(first.played) > 0
    by_loss = grid.replace('metric = "rmse"', 'metric = "loss"').replace("[base]", '[base]\nmetrics = ["rmse"]')
    assert not played(tmp_path, by_loss).played
    assert {row.measure.title for row in read_results(tmp_path / "results.parquet")} == {"loss"}


def test_a_metric_over_clients_has_clients_scored(tmp_path: Path) -> None:
    played(tmp_path, LINEAR.replace("METRIC", "client_worst"))
    rows = read_results(tmp_path / "results.parquet")
    assert all(row.measure.name == "client_worst" and row.value is not None for row in rows)
    assert all(row.figures is not None and row.figures.most_removed is not None for row in rows)


def test_figures_of_older_versions_are_made_anew_where_a_metric_is_wanted(tmp_path: Path) -> None:
    played(tmp_path)
    for path in (tmp_path / "cells").glob("*/figures.json"):
        known = json.loads(path.read_text())
        old = {key: value for key, value in known.items() if "metric" not in key and key != "most_removed"}
        path.write_text(json.dumps(old))
    assert not played(tmp_path, SMALL).played
    assert not played(tmp_path, f'metric = "loss"\n{SMALL}').played
    assert all(row.value is not None for row in read_results(tmp_path / "results.parquet"))
