from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.sweeps.runs.grids import BASE, result

from steadfed.errors import CorruptRunError
from steadfed.reports._comparison_tables import ranking_table
from steadfed.reports._comparisons import comparison_report
from steadfed.reports.panels import HeatMap, Lines, Panel, Report, Table, Text
from steadfed.sweeps.runs._ranking import ranking
from steadfed.sweeps.runs._results import CellState, Result, write_results

GRID = f"""
title = "Mine"
note = "A note."
{BASE}
[grid]
rule = ["rage", "median"]
[[published]]
rule = "median"
percent = {{ alie = 78.9, "<b>" = 12.0 }}
"""
SETTINGS = [("iid", 0.1), ("iid", 0.2), ("dirichlet alpha=0.1", 0.1), ("dirichlet alpha=0.1", 0.2)]


def rows() -> list[Result]:
    return [
        result(rule, attack, base + 0.01 * seed - fraction / 2, seed=seed, fraction=fraction, heterogeneity=kind,
               precision=0.9 if rule == "rage" else None)
        for kind, fraction in SETTINGS
        for rule, base in (("rage", 0.8), ("median", 0.9), ("oracle", 0.95))
        for attack in (("any",) if rule == "oracle" else ("none", "alie", "<b>"))
        for seed in (0, 1, 2)
    ]  # fmt: skip


def written(path: Path, results: list[Result], grid: str = GRID) -> Report:
    write_results(path / "results.parquet", results)
    (path / "grid.toml").write_text(grid, encoding="utf-8")
    return comparison_report(path)


def panels(report: Report) -> dict[str, Panel]:
    found = {panel.key: panel for section in report.sections for panel in section.panels}
    assert len(found) == sum(len(section.panels) for section in report.sections), "keys are unique"
    assert all(re.fullmatch("[a-z0-9-]+", key) for key in found)
    return found


def test_the_report_has_a_map_per_rule_of_heterogeneity_and_share(tmp_path: Path) -> None:
    found = panels(written(tmp_path, rows()))
    worst = found["worst-rage"]
    assert isinstance(worst, HeatMap)
    assert worst.rows == ("iid", "dirichlet alpha=0.1")
    assert worst.columns == ("10 %", "20 %")
    assert worst.values[0] == pytest.approx((0.76, 0.71))
    assert "under none" in worst.hover[0][0]


def test_the_ranking_has_intervals_and_the_best_rule_first(tmp_path: Path) -> None:
    ranking = panels(written(tmp_path, rows()))["ranking"]
    assert isinstance(ranking, Table)
    assert [row[0] for row in ranking.rows] == ["oracle", "median", "rage"]
    assert ranking.rows[1][1:3] == pytest.approx((0.835, 4.302653 * 0.01 / 3**0.5), rel=1e-5)
    assert ranking.flagged == (2,)


def test_attacks_have_maps_and_curves_in_which_the_oracle_is_always_there(tmp_path: Path) -> None:
    found = panels(written(tmp_path, rows()))
    attacks, curves = found["attacks-1"], found["curves-2"]
    assert isinstance(attacks, HeatMap)
    assert isinstance(curves, Lines)
    assert attacks.rows == ("oracle", "median", "rage")
    assert attacks.columns == ("none", "alie", "<b>")
    assert len(set(attacks.values[0])) == 1
    assert [series.name for series in curves.series] == ["oracle", "median", "rage"]


def test_the_reading_says_that_rage_is_not_best(tmp_path: Path) -> None:
    report = written(tmp_path, rows())
    words = panels(report)["reading"]
    assert isinstance(words, Text)
    assert words.paragraphs[0] == "A note."
    assert any("rage is not best at" in paragraph for paragraph in words.paragraphs)
    assert any(headline.value == "4 of 4 settings" for headline in report.headlines)


def test_published_figures_stand_beside_ours(tmp_path: Path) -> None:
    table = panels(written(tmp_path, rows()))["published"]
    assert isinstance(table, Table)
    assert len(table.rows) == 8
    rule, attack, _, published, ours, _, difference, seeds = table.rows[0]
    assert (rule, attack, published, seeds) == ("median", "alie", 0.789, 3)
    assert (ours, difference) == pytest.approx((0.86, 0.071))


def test_precision_and_recall_are_those_of_rules_that_remove(tmp_path: Path) -> None:
    table = panels(written(tmp_path, rows()))["filter"]
    assert isinstance(table, Table)
    assert {row[0] for row in table.rows} == {"rage"}
    assert table.rows[0][3:] == pytest.approx((0.9, 0.9, 0.1))


def test_a_rule_that_removed_nobody_under_an_attack_is_shown_there_too(tmp_path: Path) -> None:
    some = [result("rage", "alie", 0.8, precision=0.9), result("rage", "ipm", 0.8), result("median", "alie", 0.7)]
    table = panels(written(tmp_path, some))["filter"]
    assert isinstance(table, Table)
    assert [(row[:2], row[3]) for row in table.rows] == [(("rage", "alie"), 0.9), (("rage", "ipm"), None)]


def test_maps_show_the_seeds_that_the_ranking_rests_on(tmp_path: Path) -> None:
    some = [result(rule, "alie", 0.5 + 0.1 * seed, seed=seed) for rule in ("rage", "krum") for seed in (0, 1)]
    some[-1] = result("krum", "alie", None, seed=1, state=CellState.WAITING)
    found = panels(written(tmp_path, some))
    by_attack, worst = found["attacks-1"], found["worst-rage"]
    assert isinstance(by_attack, HeatMap)
    assert isinstance(worst, HeatMap)
    assert by_attack.values == ((0.5,), (0.5,))
    assert worst.values == ((0.5,),)


@pytest.mark.parametrize("state", [CellState.FAILED, CellState.REFUSED, CellState.WAITING])
def test_a_comparison_without_figures_has_a_report(tmp_path: Path, state: CellState) -> None:
    found = panels(written(tmp_path, [result("rage", "alie", None, state=state)], grid="[broken"))
    assert ("failures" in found) == (state is not CellState.WAITING)
    assert "reproduce" not in found


def test_a_folder_without_results_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(CorruptRunError, match="there is no comparison"):
        comparison_report(tmp_path)


def test_the_line_of_a_table_tells_the_mean_worst_case_from_the_lowest() -> None:
    rows = [
        *(result("a", "x", 0.6, heterogeneity=kind, precision=0.5) for kind in "pq"),
        result("a", "y", 0.5, heterogeneity="p", precision=1.0),
        result("a", "y", 0.9, heterogeneity="q", precision=1.0),
        *(result("a", "none", 0.95, heterogeneity=kind) for kind in "pq"),
        result("absent", "x", None, heterogeneity="p", state=CellState.FAILED),
    ]
    found, absent = ranking(rows)
    table = ranking_table([found, absent])
    lines = [dict(zip((column.title for column in table.columns), row, strict=True)) for row in table.rows]
    shares = {"worst case": 0.55, "lowest": 0.5, "without attack": 0.95, "precision": 0.75, "recall": 0.75}
    assert {name: lines[0][name] for name in shares} == pytest.approx(shares)
    assert lines[0]["honest removed"] == pytest.approx(0.4 / 6)
    assert (lines[0]["rule"], lines[0]["under"], lines[0]["settings"]) == ("a", "y", "2/2")
    assert lines[1].pop("settings") == "0/2"
    assert lines[1].pop("rule") == "absent"
    assert set(lines[1].values()) == {None}
