"""Whole reports: real runs, and runs in every sorry state."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests import deployments
from tests.reports.made import folder, four

from steadfed.aggregators import Mean, Rage
from steadfed.attacks import FractionMembers, SignFlip
from steadfed.errors import ParameterError
from steadfed.partitions import DirichletPartition
from steadfed.reports._render.csv import write_tables
from steadfed.reports._render.image import picture_of, write_pictures
from steadfed.reports._reporting import report_of
from steadfed.reports.panels import Bars, HeatMap, Lines, Report, Table, Text
from steadfed.runs import Run
from steadfed.server._history import RunHistory
from steadfed.simulation import NoCompression, RandomK, RunConfig

NAME = "<script>alert(1)</script>&$x$"
"""A client that would like to be more than a name."""


def checked(report: Report) -> Report:
    """Return the report, after looking at what everybody relies on."""
    panels = [panel for section in report.sections for panel in section.panels]
    keys = [panel.key for panel in panels] + [section.key for section in report.sections]
    assert all(re.fullmatch(r"[a-z0-9-]+", key) for key in keys), keys
    assert len({panel.key for panel in panels}) == len(panels)
    assert all(section.panels for section in report.sections)
    for panel in panels:
        if isinstance(panel, Lines):
            assert panel.series
            assert all(len(each.x) == len(each.y) > 0 for each in panel.series)
            assert all(y is None or math.isfinite(y) for each in panel.series for y in each.y)
        if isinstance(panel, HeatMap):
            assert {len(row) for row in (*panel.values, *panel.hover)} == {len(panel.columns)}
            assert all(sorted(order) == list(range(len(panel.rows))) for order in panel.orders.values())
            assert len(set(panel.rows)) == len(panel.rows) == len(panel.values)
        if isinstance(panel, Bars):
            assert {len(values) for values in panel.parts.values()} == {len(panel.categories)}
        if isinstance(panel, Table):
            assert all(len(row) == len(panel.columns) for row in panel.rows)
        if isinstance(panel, Text):
            assert panel.paragraphs
    return report


def digits(path: Path, **changes: object) -> Path:
    """Play a few rounds on the digits."""
    small = RunConfig(
        rounds=3, cohort_size=8, partition=DirichletPartition(num_clients=10, alpha=0.5), rule=Rage(num_byzantine=2),
        byzantine=FractionMembers(fraction=0.2), attack=SignFlip(),
    )  # fmt: skip
    run = Run.start(small.model_copy(update=changes), path)
    list(run.play())
    return path


def test_a_real_run_gives_every_section(tmp_path: Path) -> None:
    history = RunHistory(digits(tmp_path / "rage"))
    report = checked(report_of([history], guarantee=False))
    keys = "verdict learning clients filtering certificate timing partition configuration reproduce"
    assert [section.key for section in report.sections] == keys.split()
    bars = next(panel for section in report.sections for panel in section.panels if panel.key == "partition")
    assert isinstance(bars, Bars)
    assert len(bars.categories) == 10
    assert len(bars.parts) == 10
    assert len(bars.flagged) == 2
    assert history.problems == []


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    paths = [digits(tmp_path / "rage"), digits(tmp_path / "mean", rule=Mean())]
    report = checked(report_of([RunHistory(path) for path in paths], guarantee=False))
    panels = {panel.key: panel for section in report.sections for panel in section.panels}
    accuracy, runs = panels["accuracy"], panels["runs"]
    assert isinstance(accuracy, Lines)
    assert isinstance(runs, Table)
    assert {series.colour for series in accuracy.series} == {0, 1}
    assert [row[0] for row in runs.rows] == ["rage", "mean"]
    assert {"weights-1", "weights-2", "errors", "partition"} <= panels.keys()
    assert report.title == tmp_path.name


def test_the_guarantee_of_a_convex_run_has_conditions_and_bounds(convex_run: Path) -> None:
    report = checked(report_of([RunHistory(convex_run)]))
    panels = {panel.key: panel for section in report.sections for panel in section.panels}
    bound = panels["bound"]
    assert isinstance(bound, Lines)
    assert bound.series[0].name == "measured"
    assert len(bound.series) > 1
    conditions = panels["conditions"]
    assert isinstance(conditions, Table)
    assert {row[0] for row in conditions.rows} == {"assumption", "filter", "guarantee"}


def test_a_report_needs_a_run() -> None:
    with pytest.raises(ParameterError, match="at least one run"):
        report_of([])


def _sorry(path: Path, state: str) -> None:
    """Write a run in some state."""
    nothing = {"test_loss": math.nan, "test_accuracy": None}
    records = {"empty": [], "one-round": [four(0)], "nan": [four(number, **nothing) for number in range(3)]}
    folder(path, records.get(state, [four(0), four(1)]))
    rounds = path / "rounds.jsonl"
    if state == "crashed":
        rounds.write_bytes(rounds.read_bytes()[:-30])
    if state == "damaged":
        rounds.write_bytes(b"{}\n" + rounds.read_bytes())
    if state == "no-config":
        (path / "config.toml").write_text("rounds = ")
    if state == "skipped":
        nobody = {"received": (), "weights": (), "scores": (), "kept": (), "byzantine": (), "absent": (0, 1, 2, 3)}
        rounds.write_text(four(0, skipped=True, reason="nobody came", seconds={}, **nobody, **nothing).to_line())


STATES = ("empty", "crashed", "one-round", "nan", "damaged", "no-config", "skipped")


@pytest.mark.parametrize("state", STATES)
def test_a_run_in_any_state_is_a_report(tmp_path: Path, state: str) -> None:
    _sorry(tmp_path / state, state)
    report = checked(report_of([RunHistory(tmp_path / state)]))
    assert report.headlines
    assert write_pictures(report, tmp_path / "pictures") or state in {"empty", "damaged"}
    write_tables(report, tmp_path / "tables")


def test_runs_in_all_states_are_one_report(tmp_path: Path) -> None:
    for state in STATES:
        _sorry(tmp_path / state, state)
    checked(report_of([*(RunHistory(tmp_path / state) for state in STATES), RunHistory(tmp_path / "nowhere")]))


def test_a_deployment_is_a_report(tmp_path: Path) -> None:
    deployments.deployment(tmp_path / "run")
    report = checked(report_of([RunHistory(tmp_path / "run")]))
    assert "0 Byzantine" not in str(report.headlines)
    assert {section.key for section in report.sections} >= {"guarantee", "partition"}
    assert write_pictures(report, tmp_path / "pictures")


def test_names_of_clients_stay_what_they_are(tmp_path: Path) -> None:
    record = four(0)
    swapped = {
        name: tuple(NAME if client == 3 else client for client in getattr(record, name))
        for name in ("cohort", "received", "byzantine", "kept")
    }
    folder(tmp_path / "run", [four(0, **swapped)])
    report = checked(report_of([RunHistory(tmp_path / "run")], guarantee=False))
    weights = next(panel for section in report.sections for panel in section.panels if panel.key == "weights")
    assert isinstance(weights, HeatMap)
    assert weights.rows[0] == NAME
    assert picture_of(weights) is not None


def test_pictures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(number) for number in range(4)])
    report = report_of([RunHistory(tmp_path / "run")], guarantee=False)
    panels = (*report.sections[1].panels[:1], *(each for each in report.sections[2].panels if each.key == "weights"))
    few = replace(report, sections=(replace(report.sections[1], panels=panels),))
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        first = [path.read_bytes() for path in write_pictures(few, tmp_path / "a", kind=kind)]  # type: ignore[arg-type]
        again = [path.read_bytes() for path in write_pictures(few, tmp_path / "b", kind=kind)]  # type: ignore[arg-type]
        assert first == again
        assert all(each.startswith(start) for each in first)
        assert len(first) == 2


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    folder(tmp_path / "run")
    with pytest.raises(ParameterError, match="pdf or svg or png, got 'gif'"):
        write_pictures(report_of([RunHistory(tmp_path / "run")], guarantee=False), tmp_path, kind="gif")  # type: ignore[arg-type]


def test_tables_hold_every_number_and_no_formula(tmp_path: Path) -> None:
    record = four(0, drops=({"client": "=1+1", "fault": "not asked", "detail": ""},))
    folder(tmp_path / "run", [record])
    paths = {path.stem: path for path in write_tables(report_of([RunHistory(tmp_path / "run")]), tmp_path / "csv")}
    with paths["weights"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["client"] == "client 3"
    assert [float(row["weight (1 = equal share)"]) for row in rows] == pytest.approx([0.0, 4 / 3, 4 / 3, 4 / 3])
    assert rows[0]["marked"] == "yes"
    with paths["suspicion"].open(newline="") as file:
        assert "'=1+1" in [row["client"] for row in csv.DictReader(file)]
    with pytest.raises(ParameterError, match="cannot write"):
        write_tables(report_of([RunHistory(tmp_path / "run")], guarantee=False), tmp_path / "run" / "config.toml")


def test_a_report_says_that_only_some_coordinates_are_sent(tmp_path: Path) -> None:
    said = "only some is sent: the same 25 % of the coordinates from every client, drawn anew in every round."
    for name, sent in {"some": RandomK(coordinates=0.25), "all": NoCompression()}.items():
        folder(tmp_path / name, [four(number) for number in range(4)], compression=sent)
        report = checked(report_of([RunHistory(tmp_path / name)], guarantee=False))
        texts = [panel for section in report.sections for panel in section.panels if isinstance(panel, Text)]
        assert any(said in paragraph for text in texts for paragraph in text.paragraphs) == (name == "some")
