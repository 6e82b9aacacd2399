"""The demonstration: the same federation for three servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import run

from steadfed._cli.demonstration import configs
from steadfed._core.wording import percent
from steadfed.server._folder import RunFolder
from steadfed.simulation import Federation


def test_the_servers_differ_in_nothing_but_the_rule_and_what_the_oracle_hears() -> None:
    chosen = configs()
    mean, rage, oracle = (dict(chosen[name]) for name in ("mean", "rage", "oracle"))
    assert {key for key in mean if mean[key] != rage[key]} == {"rule"}
    assert {key for key in mean if mean[key] != oracle[key]} == {"attack"}


def test_the_demonstration_ends_with_a_table_and_the_place_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = run("demo", "--rounds", "12", "--jobs", "1")
    rows = {line.split("│")[1].strip(): line.split("│") for line in output.splitlines() if line.startswith("│")}
    assert list(rows) == ["mean", "rage", "oracle"]
    kept = {name: float(row[4].split("%")[0]) for name, row in rows.items() if name != "oracle"}
    assert kept["rage"] < kept["mean"]
    assert "The runs are in runs/demo-1" in output
    folders = [RunFolder.open(tmp_path / "runs" / "demo-1" / name) for name in rows]
    assert [folder.num_rounds() for folder in folders] == [12, 12, 12]
    cohorts = [[record.cohort for record in folder.records()] for folder in folders]
    assert cohorts[0] == cohorts[1] == cohorts[2]
    assert "last 3 rounds" in output
    for folder, row in zip(folders, rows.values(), strict=True):
        late = [record.test_accuracy or 0.0 for record in folder.records()][-3:]
        assert row[2].strip() == percent(sum(late) / 3)


@pytest.mark.slow
def test_the_mean_loses_what_it_has_learned_and_rage_does_not() -> None:
    found = {}
    for name, config in configs().items():
        with Federation(config) as federation:
            state, seen = federation.start(), []
            while state.round < config.rounds:
                state, record = federation.play(state)
                seen.append(record.test_accuracy or 0.0)
        found[name] = (max(seen), sum(seen[-50:]) / 50)
    assert found["mean"][0] > 0.9
    assert found["mean"][1] < 0.5
    assert found["rage"] == pytest.approx((0.97, 0.97), abs=0.015)
    assert found["oracle"] == pytest.approx((0.98, 0.98), abs=0.015)
