from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.sweeps.runs.grids import result

from steadfed.sweeps._measure import ACCURACY, Measure
from steadfed.sweeps._ranking import DuelVerdict, estimate, on_common_seeds, worst_cases
from steadfed.sweeps.runs._commentary import commentary
from steadfed.sweeps.runs._ranked_by import measure_named, ranked_by
from steadfed.sweeps.runs._ranking import duels, in_words, ranking, standings, varied_keys
from steadfed.sweeps.runs._results import CellState, Result


def test_the_interval_is_students() -> None:
    found = estimate([0.90, 0.92, 0.94])
    assert found.mean == pytest.approx(0.92)
    assert found.half_width == pytest.approx(4.302653 * 0.02 / math.sqrt(3), rel=1e-6)
    assert estimate([0.9]).half_width is None
    assert str(found) == "92.0 ± 5.0 %"


def test_the_worst_case_is_the_smallest_mean_over_seeds_not_the_smallest_number() -> None:
    rows = [result("a", "x", value, seed=seed) for seed, value in enumerate((0.1, 0.9, 0.9))]
    rows += [result("a", "y", 0.5, seed=seed) for seed in range(3)]
    (worst,) = worst_cases(rows)
    assert (worst.case.attack, worst.value.mean) == ("y", 0.5)


def test_rules_are_ranked_by_the_mean_of_their_worst_cases_and_those_with_gaps_come_last() -> None:
    rows = [
        *(result("good", attack, 0.8, heterogeneity=kind) for attack in "xy" for kind in "pq"),
        *(result("bad", "x", 0.9, heterogeneity=kind) for kind in "pq"),
        *(result("bad", "y", 0.3, heterogeneity=kind) for kind in "pq"),
        *(result("gap", attack, 1.0, heterogeneity="p") for attack in "xy"),
        *(result("gap", attack, None, heterogeneity="q", state=CellState.REFUSED) for attack in "xy"),
    ]
    found = ranking(rows)
    assert [each.rule for each in found] == ["good", "bad", "gap"]
    assert [each.score.mean for each in found if each.score] == pytest.approx([0.8, 0.3, 1.0])
    assert (found[2].num_settings, found[2].num_wanted, found[2].refused) == (1, 2, 2)


def test_a_ranked_rule_has_the_mean_of_every_figure_in_its_column() -> None:
    rows = [
        *(result("a", "x", value, seed=seed, precision=0.5) for seed, value in enumerate((0.7, 0.8))),
        *(result("a", "y", value, seed=seed, precision=1.0) for seed, value in enumerate((0.8, 0.9))),
        *(result("a", "none", value, seed=seed) for seed, value in enumerate((0.92, 0.96))),
    ]
    (found,) = ranking(rows)
    assert found.without_attack == pytest.approx(0.94)
    assert (found.precision, found.recall) == (0.75, 0.75)
    assert found.honest_removed == pytest.approx(0.4 / 6)  # 0.1 in each of the four cells with an attack
    assert found.seconds == 1.0


def test_rules_are_compared_on_the_seeds_that_they_have_in_common() -> None:
    rows = [result("ahead", attack, 0.5 + 0.4 * seed, seed=seed) for attack in "xy" for seed in range(2)]
    rows += [result("behind", "x", value, seed=seed) for seed, value in enumerate((0.6, 0.1))]  # one of y is lacking
    rows += [result("behind", "y", 0.7), result("behind", "y", None, seed=1, state=CellState.WAITING)]
    rows += [result("late", "x", 0.9, seed=1)]
    assert {each.rule: each.value.mean for each in worst_cases(rows)} == {"ahead": 0.5, "behind": 0.6}
    assert [each.rule for each in ranking(rows)] == ["behind", "ahead", "late"]
    assert on_common_seeds(on_common_seeds(rows)) == on_common_seeds(rows)


def test_without_a_common_seed_every_rule_keeps_its_own() -> None:
    rows = [result("first", "x", 0.5, seed=0), result("second", "x", 0.6, seed=1)]
    assert on_common_seeds(rows) == rows
    assert [each.rule for each in ranking(rows)] == ["second", "first"]


def test_differences_are_paired_by_seed() -> None:
    rows = [result("rage", "x", 0.80 + 0.05 * seed, seed=seed) for seed in range(3)]
    rows += [result("caf", "x", 0.83 + 0.051 * seed, seed=seed) for seed in range(3)]
    (duel,) = duels(rows)
    assert duel.verdict is DuelVerdict.BEATEN  # 3 points with hardly any spread, although each rule spreads by 5
    assert duel.difference.mean == pytest.approx(-0.031)
    assert any("rage is not best" in sentence and "caf" in sentence for sentence in commentary(rows))


def test_one_seed_proves_nothing_and_more_may_prove_little() -> None:
    one = [result("rage", "x", 0.5), result("caf", "x", 0.9)]
    assert duels(one)[0].verdict is DuelVerdict.WITHIN_NOISE
    assert any("one seed cannot tell" in sentence for sentence in commentary(one))
    noisy = [result("rage", "x", value, seed=seed) for seed, value in enumerate((0.5, 0.9, 0.7))]
    noisy += [result("caf", "x", value, seed=seed) for seed, value in enumerate((0.9, 0.5, 0.75))]
    assert duels(noisy)[0].verdict is DuelVerdict.WITHIN_NOISE


def test_where_rage_is_best_and_what_it_costs_is_said() -> None:
    rows = [result("rage", "x", 0.9 + 0.001 * seed, seed=seed) for seed in range(3)]
    rows += [result("mean", "x", 0.2, seed=seed) for seed in range(3)]
    rows += [result("rage", "none", 0.92, seed=seed) for seed in range(3)]
    rows += [result("mean", "none", 0.95, seed=seed) for seed in range(3)]
    words = " ".join(commentary(rows))
    assert "rage is best at" in words
    assert "costs 3.0 points against mean" in words


def test_the_oracle_is_ranked_but_wins_nothing() -> None:
    rows = [result("oracle", "any", 0.99), result("rage", "x", 0.5), result("caf", "x", 0.4)]
    assert ranking(rows)[0].rule == "oracle"
    assert duels(rows)[0].other.rule == "caf"
    assert "oracle" not in " ".join(commentary(rows))


def test_an_empty_comparison_has_a_commentary() -> None:
    waiting = [result("rage", "x", None, state=CellState.WAITING)]
    assert "nothing to rank" in commentary(waiting)[-1]  # and nothing about seeds
    assert ranking(waiting)[0].score is None


def test_a_rule_that_was_spared_an_attack_has_not_met_all_of_them() -> None:
    rows = [result("rage", attack, value) for attack, value in (("x", 0.8), ("y", 0.7))] + [result("spared", "x", 0.9)]
    assert {each.rule: each.complete for each in worst_cases(rows)} == {"rage": True, "spared": False}
    assert [each.rule for each in ranking(rows)] == ["rage", "spared"]
    assert duels(rows) == []


def test_a_noisy_winner_does_not_hide_a_rule_that_surely_beats_the_subject() -> None:
    rows = [result("rage", "x", 0.80 + 0.001 * seed, seed=seed) for seed in range(3)]
    rows += [result("noisy", "x", value, seed=seed) for seed, value in enumerate((1.0, 0.7, 0.98))]
    rows += [result("steady", "x", 0.85 + 0.001 * seed, seed=seed) for seed in range(3)]
    (duel,) = duels(rows)
    assert (duel.other.rule, duel.verdict) == ("steady", DuelVerdict.BEATEN)


def test_what_is_said_of_two_rules_rests_on_the_seeds_that_both_have() -> None:
    rows = [result("rage", "x", value, seed=seed) for seed, value in enumerate((0.9, 0.9, 0.1))]
    rows += [result("caf", "x", value, seed=seed) for seed, value in enumerate((0.80, 0.801))]
    (duel,) = duels(rows)
    assert duel.verdict is DuelVerdict.BEST
    assert duel.own.value.mean - duel.other.value.mean == pytest.approx(duel.difference.mean)
    assert any("caf 80.0" in sentence and "rage 90.0" in sentence for sentence in commentary(rows))


def test_runs_without_attack_are_compared_on_the_same_seeds_and_with_what_is_removed_there() -> None:
    rows = [result("rage", "none", value, seed=seed) for seed, value in enumerate((0.9, 0.5))]
    rows += [result("mean", "none", 0.89, seed=0), result("rage", "x", 0.8, precision=0.5)]
    (sentence,) = [each for each in commentary(rows) if each.startswith("Where nobody attacks")]
    assert "rage costs nothing: 90.0 %" in sentence
    assert "removes" not in sentence  # 10 % of the honest ones under x do not count here


def test_runs_without_accuracy_are_said_to_have_none() -> None:
    assert "no accuracy" in " ".join(commentary([result("rage", "x", None)]))


def test_rankings_that_do_not_cover_all_settings_say_so() -> None:
    rows = [
        result("rage", "x", 0.9, heterogeneity="p"),
        result("rage", "x", None, heterogeneity="q", state=CellState.FAILED),
    ]
    assert "Over the 1 of 2 settings" in " ".join(commentary(rows))


def test_a_name_stands_for_all_that_its_setting_has_in_common() -> None:
    rows = [
        result("rage", "x", 0.9, fraction=0.1, setting="one", data="digits"),
        result("rage", "x", 0.9, fraction=0.2, setting="two", data="mnist", local_steps=1.0),
        result("rage", "x", 0.9, fraction=0.2, setting="two", data="mnist", local_steps=5.0),
    ]
    keys = varied_keys(rows)
    assert keys == {"setting", "local_steps"}
    assert [in_words(row.setting, keys) for row in rows] == ["one", "two, local steps 1", "two, local steps 5"]


def test_a_rule_stands_in_a_setting_by_its_worst_case_and_the_case_without_attack() -> None:
    rows = [result("a", attack, value + 0.1 * seed, seed=seed, setting="s")
            for attack, value in (("none", 0.8), ("x", 0.4)) for seed in (0, 1)]  # fmt: skip
    rows += [result("oracle", "any", 0.85, seed=seed, setting="s") for seed in (0, 1)]
    own, oracle = standings(rows)
    assert (own.rule, own.worst.case.attack, own.worst.case.span) == ("a", "x", (0.4, 0.5))
    assert own.without_attack is not None
    assert own.without_attack.span == pytest.approx((0.8, 0.9))
    assert oracle.without_attack is oracle.worst.case


MAE = Measure(name="mae", title="mean absolute error", is_share=False, higher_is_better=False)


def by_error(rule: str, attack: str, error: float, seed: int = 0) -> Result:
    """Return a result whose error is ranked, the smaller the better."""
    row = result(rule, attack, None, seed=seed)
    assert row.figures is not None
    return replace(row, figures=replace(row.figures, metrics={"mae": error}), measure=MAE)


def test_errors_are_ranked_the_other_way_round() -> None:
    rows = [
        *(by_error("rage", attack, error, seed) for attack, error in (("x", 0.2), ("y", 0.5)) for seed in range(2)),
        *(by_error("mean", attack, error, seed) for attack, error in (("x", 0.1), ("y", 9.0)) for seed in range(2)),
    ]
    best, worst = ranking(rows)
    assert (best.rule, worst.rule) == ("rage", "mean")
    assert best.lowest is not None
    assert (best.lowest.case.attack, best.lowest.value.mean) == ("y", 0.5)
    (duel,) = duels(rows)
    assert (duel.verdict, duel.difference.mean) == (DuelVerdict.BEST, -8.5)
    assert str(best.score) == "0.5 ± 0"
    assert any("best worst case by mean absolute error" in each for each in commentary(rows))


def test_runs_without_classes_are_ranked_by_what_they_have() -> None:
    rows = [replace(by_error("rage", "x", 0.2), measure=ACCURACY)]
    (found,) = ranked_by(rows, None)
    assert (found.measure.name, found.value, found.measure.higher_is_better) == ("mae", 0.2, False)
    (accurate,) = ranked_by([result("rage", "x", 0.9)], None)
    assert accurate.measure == ACCURACY


def by_success(rule: str, attack: str, rate: float | None, accuracy: float = 0.9) -> Result:
    """Return a result whose attack has a goal, and succeeds this often; or has none."""
    row = result(rule, attack, accuracy)
    assert row.figures is not None
    metrics = {} if rate is None else {"attack_success_rate": rate}
    return replace(row, figures=replace(row.figures, metrics=metrics))


def test_ranked_by_the_success_of_attacks_those_without_a_goal_are_left_out() -> None:
    rows = [
        *(by_success("rage", attack, rate) for attack, rate in (("trigger", 0.8), ("flip", 0.1), ("ones", None))),
        *(by_success("krum", attack, rate, 0.6) for attack, rate in (("trigger", 0.1), ("flip", 0.2), ("ones", None))),
        result("oracle", "any", 0.95),
    ]
    found = ranked_by(rows, "attack_success_rate")
    assert {row.attack for row in found} == {"trigger", "flip"}
    best, worst = ranking(found)
    assert (best.rule, worst.rule) == ("krum", "rage")
    assert best.score is not None
    assert best.score.mean == 0.2
    assert best.coverage == "1/1"
    assert any("Accuracy in the same runs" in each and "krum 60.0 %, rage 90.0 %" in each for each in commentary(found))
    assert len(ranked_by(rows, None)) == len(rows)


def test_figures_over_clients_have_the_direction_of_their_metric() -> None:
    assert measure_named("client_worst", {}).higher_is_better
    scored = {"evaluation": {"client_metric": "mae"}}
    assert not measure_named("client_worst", scored).higher_is_better
    assert not measure_named("client_worst", scored).is_share
