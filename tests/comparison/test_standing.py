from __future__ import annotations

import math

import pytest
from tests.comparison.grids import result

from holdfast.comparison.reading import Verdict, contests, reading
from holdfast.comparison.results import State
from holdfast.comparison.standing import estimate, standings, worst_cases


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
    assert (worst.case.attack, worst.accuracy.mean) == ("y", 0.5)


def test_rules_are_ranked_by_the_mean_of_their_worst_cases_and_those_with_gaps_come_last() -> None:
    rows = [
        *(result("good", attack, 0.8, heterogeneity=kind) for attack in "xy" for kind in "pq"),
        *(result("bad", "x", 0.9, heterogeneity=kind) for kind in "pq"),
        *(result("bad", "y", 0.3, heterogeneity=kind) for kind in "pq"),
        *(result("gap", attack, 1.0, heterogeneity="p") for attack in "xy"),
        *(result("gap", attack, None, heterogeneity="q", state=State.REFUSED) for attack in "xy"),
    ]
    found = standings(rows)
    assert [each.rule for each in found] == ["good", "bad", "gap"]
    assert [each.score.mean for each in found if each.score] == pytest.approx([0.8, 0.3, 1.0])
    assert (found[2].num_settings, found[2].num_wanted, found[2].refused) == (1, 2, 2)


def test_differences_are_paired_by_seed() -> None:
    rows = [result("rage", "x", 0.80 + 0.05 * seed, seed=seed) for seed in range(3)]
    rows += [result("caf", "x", 0.83 + 0.051 * seed, seed=seed) for seed in range(3)]
    (contest,) = contests(rows)
    assert contest.verdict is Verdict.BEATEN  # 3 points with hardly any spread, although each rule spreads by 5
    assert contest.difference.mean == pytest.approx(-0.031)
    assert any("rage is not best" in sentence and "caf" in sentence for sentence in reading(rows))


def test_one_seed_proves_nothing_and_more_may_prove_little() -> None:
    one = [result("rage", "x", 0.5), result("caf", "x", 0.9)]
    assert contests(one)[0].verdict is Verdict.WITHIN_NOISE
    assert any("one seed cannot tell" in sentence for sentence in reading(one))
    noisy = [result("rage", "x", value, seed=seed) for seed, value in enumerate((0.5, 0.9, 0.7))]
    noisy += [result("caf", "x", value, seed=seed) for seed, value in enumerate((0.9, 0.5, 0.75))]
    assert contests(noisy)[0].verdict is Verdict.WITHIN_NOISE


def test_where_rage_is_best_and_what_it_costs_is_said() -> None:
    rows = [result("rage", "x", 0.9 + 0.001 * seed, seed=seed) for seed in range(3)]
    rows += [result("mean", "x", 0.2, seed=seed) for seed in range(3)]
    rows += [result("rage", "none", 0.92, seed=seed) for seed in range(3)]
    rows += [result("mean", "none", 0.95, seed=seed) for seed in range(3)]
    words = " ".join(reading(rows))
    assert "rage is best at" in words
    assert "costs 3.0 points against mean" in words


def test_the_oracle_is_ranked_but_wins_nothing() -> None:
    rows = [result("oracle", "any", 0.99), result("rage", "x", 0.5), result("caf", "x", 0.4)]
    assert standings(rows)[0].rule == "oracle"
    assert contests(rows)[0].other.rule == "caf"
    assert "oracle" not in " ".join(reading(rows))


def test_an_empty_comparison_has_a_reading() -> None:
    waiting = [result("rage", "x", None, state=State.WAITING)]
    assert "nothing to rank" in " ".join(reading(waiting))
    assert standings(waiting)[0].score is None
