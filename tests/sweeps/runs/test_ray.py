"""Cells on a Ray cluster of two workers on this machine."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from tests.sweeps.runs.grids import BASE, Witness

from steadfed.errors import RunError
from steadfed.sweeps._ray import RayCluster
from steadfed.sweeps.runs._comparison import Comparison
from steadfed.sweeps.runs._grid import parse_grid
from steadfed.sweeps.runs._results import CellState, read_results

pytest.importorskip("ray", reason="Ray is not installed")

GRID = (
    f"reference = false\n{BASE}\n[grid]\nrule = ['rage', 'median', 'mean']\nattack = 'nan'\nbyzantine_fraction = 0.25"
)
KILLER = "import os, signal\n\ndef model(dataset):\n    os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.mark.filterwarnings("ignore")  # Ray's own warnings are not ours
def test_a_cluster_gives_what_this_machine_gives_and_survives_a_killed_worker(cluster: object, tmp_path: Path) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    models = '[{ name = "softmax-regression" }, { label = "killer", name = "import", factory = "killer:model" }]'
    pool = RayCluster(address=cluster.address)  # type: ignore[attr-defined]
    list(Comparison(parse_grid(f"{GRID}\nmodel = {models}"), tmp_path / "ray").play(pool))
    list(Comparison(parse_grid(GRID), tmp_path / "here").play(Witness()))
    there = {result.key: result for result in read_results(tmp_path / "ray" / "results.parquet")}
    here = read_results(tmp_path / "here" / "results.parquet")
    assert len(here) == 3
    for result in here:
        figures = there[result.key].figures
        assert result.figures is not None
        assert figures is not None
        assert figures.curve == result.figures.curve
        assert (tmp_path / "ray" / "cells" / result.key / "rounds.jsonl").is_file()
    killed = [result for result in there.values() if result.settings["model"] == "killer"]
    assert {result.state for result in killed} == {CellState.FAILED}
    assert "lost on the cluster" in str(killed[0].reason)


def test_an_address_where_nobody_is_is_one_line(tmp_path: Path) -> None:
    grid = parse_grid(GRID)
    with pytest.raises(RunError, match=r"cannot reach a Ray cluster at '127\.0\.0\.1:1': .*refused"):
        list(Comparison(grid, tmp_path).play(RayCluster(address="127.0.0.1:1")))
