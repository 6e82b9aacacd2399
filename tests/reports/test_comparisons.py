from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sweeps.runs.grids import BASE, result

from steadfed.errors import CorruptRunError, ParameterError
from steadfed.reports._comparison_tables import ranking_table
from steadfed.reports._comparisons import comparison_report
from steadfed.reports.panels import HeatMap, Lines, Panel, Report, Table, Text
from steadfed.sweeps.runs._grid import parse_grid
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
    by_attack, worst = found["attacks-1"], found["worst-cases-of-rules"]
    assert isinstance(by_attack, HeatMap)
    assert isinstance(worst, Lines)
    assert by_attack.values == ((0.5,), (0.5,))
    assert worst.series[0].y == (0.5, 0.5)


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


def named_rows() -> list[Result]:
    accuracies = {("rage", "A"): 0.8, ("rage", "B"): 0.6, ("median", "A"): 0.5, ("median", "B"): 0.7}
    return [
        result(rule, attack, value - (0.2 if attack == "alie" else 0.0) + 0.01 * seed, seed=seed, setting=setting,
               fraction={"A": 0.1, "B": 0.2}[setting])
        for (rule, setting), value in accuracies.items()
        for attack in ("none", "alie")
        for seed in (0, 1, 2)
    ] + [result("oracle", "any", 0.9, seed=seed, setting="A", fraction=0.1) for seed in (0, 1, 2)]  # fmt: skip


def test_settings_that_have_names_are_compared_one_by_one(tmp_path: Path) -> None:
    found = panels(written(tmp_path, named_rows()))
    duels, every = found["duels"], found["standings"]
    assert isinstance(duels, Table)
    assert isinstance(every, Table)
    assert [(row[0], row[2], row[5]) for row in duels.rows] == [("A", "median", "best"), ("B", "median", "beaten")]
    assert duels.rows[1][1] == pytest.approx(0.41)
    assert duels.rows[1][3:5] == pytest.approx((0.51, -0.1))
    assert duels.rows[1][6:8] == pytest.approx((0.61, 0.71))
    assert duels.rows[0][8] == pytest.approx(0.9)
    assert duels.rows[1][8] is None
    assert duels.flagged == (1,), "losses stand out"
    wanted = ["A rage", "A median", "A oracle", "B rage", "B median"]
    assert [f"{row[0]} {row[1]}" for row in every.rows] == wanted
    assert every.rows[0][2:7] == (*map(pytest.approx, (0.61, 0.6, 0.62)), "alie", pytest.approx(0.81))


def test_the_picture_of_the_settings_has_a_point_with_its_band_for_every_rule(tmp_path: Path) -> None:
    found = panels(written(tmp_path, named_rows()))
    worst, unattacked = found["worst-by-setting"], found["unattacked-by-setting"]
    assert isinstance(worst, Lines)
    assert isinstance(unattacked, Lines)
    assert worst.places == unattacked.places == ("A", "B")
    series = {each.name: each for each in worst.series}
    assert series["rage"].y == pytest.approx((0.61, 0.41))
    assert series["rage"].bands[1] == pytest.approx((0.4, 0.42))
    assert [round(x) for x in series["rage"].x] == [0, 1]
    assert [each.name for each in worst.series if each.strong] == ["rage"]
    assert [round(x) for x in series["oracle"].x] == [0]
    assert len({x for each in worst.series for x in each.x}) == 5, "rules stand side by side"
    assert {each.name: each.y for each in unattacked.series}["median"] == pytest.approx((0.51, 0.71))


def test_named_settings_have_one_map_and_settings_without_names_no_section_of_their_own(tmp_path: Path) -> None:
    named = panels(written(tmp_path, named_rows()))
    assert "overview" in named
    assert "worst-rage" not in named
    assert not {"duels", "standings", "worst-by-setting"} & panels(written(tmp_path, rows())).keys()


def close_rows(seeds: tuple[int, ...] = (0, 1, 2), kind: str = "iid") -> list[Result]:
    """Return two rules that differ by chance, seed by seed, and one that is worse beyond it, in one setting."""
    chance = (0.01, -0.01, 0.002)
    return [
        result(
            rule,
            attack,
            value + 0.1 * seed + (chance[seed] if rule == "median" else 0.0),
            seed=seed,
            heterogeneity=kind,
        )
        for rule, value in (("median", 0.6), ("rage", 0.6), ("krum", 0.3))
        for attack in ("none", "alie")
        for seed in seeds
    ]


def test_a_tie_is_called_a_tie(tmp_path: Path) -> None:
    report = written(tmp_path, close_rows())
    best = report.headlines[0]
    assert (best.title, best.value) == ("best worst case: a tie", "median, rage")
    assert "3 seeds" in best.note
    ranked = panels(report)["ranking"]
    assert isinstance(ranked, Table)
    place = [column.title for column in ranked.columns].index("against the best")
    assert [row[place] for row in ranked.rows] == ["tie", "tie", "−30.1 ± 2.5"]
    words = panels(report)["reading"]
    assert isinstance(words, Text)
    assert "nobody leads" in " ".join(words.paragraphs)


def test_seeds_that_are_easy_for_both_do_not_hide_a_difference(tmp_path: Path) -> None:
    report = written(tmp_path, [row for row in close_rows() if row.rule != "median"])
    assert (report.headlines[0].title, report.headlines[0].value) == ("best worst case", "rage")


def test_one_seed_names_a_winner_only_with_a_warning(tmp_path: Path) -> None:
    best = written(tmp_path, close_rows(seeds=(0,))).headlines[0]
    assert best.title == "best worst case"
    assert "one seed" in best.note


def test_bold_are_the_best_of_an_attack_and_what_cannot_be_told_from_it(tmp_path: Path) -> None:
    attacks = panels(written(tmp_path, close_rows()))["attacks-1"]
    assert isinstance(attacks, HeatMap)
    assert {attacks.rows[row] for row, _ in attacks.strong} == {"median", "rage"}
    assert len(attacks.strong) == 4
    assert attacks.widths[0][0] == pytest.approx(attacks.widths[0][1] or 0.0)


def test_one_setting_is_named_and_has_no_map_of_one_cell(tmp_path: Path) -> None:
    report = written(tmp_path, close_rows(kind="dirichlet alpha=0.1"))
    found = panels(report)
    attacks = found["attacks-1"]
    assert isinstance(attacks, HeatMap)
    assert attacks.title == "Every attack: byzantine fraction 0.2, dirichlet alpha=0.1"
    assert not any(isinstance(panel, HeatMap) and len(panel.rows) * len(panel.columns) < 4 for panel in found.values())
    assert "the one setting" not in repr(report)


def test_curves_are_means_with_bands_and_the_number_of_seeds(tmp_path: Path) -> None:
    curves = panels(written(tmp_path, close_rows()))["curves-1"]
    assert isinstance(curves, Lines)
    assert "3 seeds" in curves.note
    krum = next(series for series in curves.series if series.name == "krum")
    assert krum.y[1] == pytest.approx(0.4)
    assert krum.bands[1] == pytest.approx((0.3, 0.5))


def test_a_report_is_about_the_rule_that_the_grid_names_or_ones_own(tmp_path: Path) -> None:
    grid = f"""subject = "median"\n{BASE}\n[grid]\nrule = ["rage", "median", "krum"]\nattack = ["none", "alie"]"""
    assert any(each.title == "median beaten in" for each in written(tmp_path, close_rows(), grid).headlines)
    own = replace(close_rows()[-1], config='[rule]\nimport = "mine:Rule"')
    report = written(tmp_path, [*close_rows()[:-1], own], grid="[broken")
    assert not any(each.title == "krum beaten in" for each in report.headlines), "another cell tells it first"
    rows = [replace(row, config='[rule]\nimport = "mine:Rule"') if row.rule == "krum" else row for row in close_rows()]
    report = written(tmp_path, rows, grid="[broken")
    assert [each.title for each in report.headlines[1:3]] == ["krum", "krum beaten in"]
    flagged = panels(report)["ranking"]
    assert isinstance(flagged, Table)
    assert [flagged.rows[place][0] for place in flagged.flagged] == ["krum"]


def test_a_rule_that_is_not_in_the_grid_is_no_subject() -> None:
    with pytest.raises(ParameterError, match=r"subject should be a rule of the grid, got 'medain'.*median"):
        parse_grid(f"""subject = "medain"\n{BASE}\n[grid]\nrule = ["rage", "median"]""")


def test_backdoors_have_a_table_whatever_rules_are_ranked_by(tmp_path: Path) -> None:
    found = []
    for rule, rate in (("krum", 0.02), ("rage", 0.8)):
        row = result(rule, "pixel-trigger", 0.9)
        assert row.figures is not None
        curves: dict[str, list[float | None]] = {"attack_success_rate": [0.1, rate]}
        figures = replace(
            row.figures, metrics={"attack_success_rate": rate}, metric_curves=curves, metric_rounds=[1, 2]
        )
        found += [replace(row, figures=figures), result(rule, "sign-flip", 0.8)]
    table = panels(written(tmp_path, found))["backdoors"]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["rage", "krum"]
    assert table.rows[0][3:6] == (0.8, 0.8, 0.9)
    assert "backdoors" not in panels(written(tmp_path, rows()))
