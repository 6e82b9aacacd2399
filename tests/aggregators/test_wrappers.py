"""Wrappers against what they do to the rows, done row by row, and on small cases worked by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import wrappers as slow
from tests.oracles.centre import centered_clipping, rfa
from tests.oracles.clouds import CLOUDS
from tests.oracles.coordinatewise import trimmed_mean
from tests.oracles.rules import coordinate_median, krum_choice
from tests.oracles.saddle import Array
from tests.oracles.selection import norm

from steadfed._core.rng import stream
from steadfed.aggregators import (
    Aggregator,
    Claim,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    NearestNeighborMixing,
    Rage,
    ServerView,
    Stop,
)
from steadfed.aggregators._centre.centered_clipping import CenteredClipping
from steadfed.aggregators._centre.rfa import Rfa
from steadfed.aggregators._coordinatewise.trimmed_mean import TrimmedMean
from steadfed.aggregators._similarity.foolsgold import FoolsGold
from steadfed.aggregators._wrappers.bucketing import Bucketing
from steadfed.aggregators._wrappers.clipping import AdaptiveClipping, Clipping
from steadfed.errors import CohortTooSmallError, ParameterError
from steadfed.testing.contract import check_contract

SEEDS = 6
Literal = Callable[[Array], Array]


def cohort(name: str, seed: int) -> tuple[Array, int]:
    """Return rows, the first f of them bad, and f, for which a rule finds a majority of buckets of two."""
    rng = stream(seed, "wrappers", name)
    number = int(rng.integers(3, 30))
    bad = int(rng.integers(0, (number + 1) // 2 // 2 + (number + 1) // 2 % 2))
    return CLOUDS[name](rng, number, bad, int(rng.integers(1, 20))), bad


def rules(f: int) -> list[tuple[Aggregator, Literal]]:
    """Return rules with their slow versions, told a bound of f."""

    def mean(rows: Array) -> Array:
        return np.asarray(rows.mean(axis=0))

    def median(rows: Array) -> Array:
        return np.array(coordinate_median(rows))

    def trimmed(rows: Array) -> Array:
        return np.array(trimmed_mean(rows, f))

    def clipped(rows: Array) -> Array:
        return centered_clipping(rows, None, 3, np.zeros(rows.shape[1]))

    return [
        (Mean(num_byzantine=f), mean),
        (Median(num_byzantine=f), median),
        (TrimmedMean(num_byzantine=f), trimmed),
        (Rfa(num_byzantine=f), lambda rows: rfa(rows, 1e-6, 3)[0]),
        (CenteredClipping(num_byzantine=f, start="origin"), clipped),
    ]


def close(found: torch.Tensor, expected: Array, rows: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6 * float(np.abs(rows).max()))


def on_a_line(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def permutation(rule: Bucketing, number: int, round_number: int = 0) -> list[int]:
    return [int(i) for i in stream(rule.seed, "buckets", round_number).permutation(number)]


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_rule_inside_bucketing_sees_the_means_of_the_buckets(name: str, size: int) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        for inner, literal in rules(bad):
            rule = Bucketing(rule=inner, size=size, seed=seed)
            if len(rows) >= rule.smallest_cohort(bad):
                expected = slow.bucketing(rows, size, permutation(rule, len(rows)), literal)
                close(rule(rows).update, expected, rows)


def test_krum_in_buckets_chooses_a_bucket() -> None:
    rows = stream(0, "buckets").standard_normal((21, 4))
    rule = Bucketing(rule=Krum(num_byzantine=2), size=2, seed=3)
    buckets = slow.buckets(rows, 2, permutation(rule, 21))
    choice, scores = krum_choice(buckets, 2)
    found = rule(rows)
    np.testing.assert_allclose(found.update, buckets[choice])
    members = permutation(rule, 21)[2 * choice : 2 * choice + 2]
    assert found.kept.nonzero().flatten().tolist() == sorted(members)
    assert found.weights[members].tolist() == [1.0 / len(members)] * len(members)
    for number, client in enumerate(permutation(rule, 21)):
        assert float(found.scores[client]) == pytest.approx(scores[number // 2])


def test_a_smaller_bucket_counts_as_much_as_any_other() -> None:
    rule = Bucketing(rule=Mean(), size=2)
    last = permutation(rule, 3)[2]
    assert float(rule(on_a_line(*(6.0 * (i == last) for i in range(3)))).update) == 3.0


def test_buckets_are_drawn_anew_in_every_round() -> None:
    rows, rule = stream(0, "rounds").standard_normal((12, 4)), Bucketing(rule=Median())
    updates = {tuple(rule(rows, ServerView(round=k)).update.tolist()) for k in range(5)}
    assert len(updates) == 5
    expected = slow.buckets(rows, 2, permutation(rule, 12, 4))
    np.testing.assert_allclose(rule(rows, ServerView(round=4)).update, coordinate_median(expected))


@pytest.mark.parametrize(("size", "f", "needed"), [(1, 2, 5), (2, 2, 9), (3, 2, 13), (2, 0, 1)])
def test_bucketing_needs_enough_buckets(size: int, f: int, needed: int) -> None:
    rule = Bucketing(rule=Median(num_byzantine=f), size=size)
    assert rule.smallest_cohort(f) == needed
    assert math.ceil(needed / size) == 2 * f + 1
    rule(torch.ones((needed, 2)))
    if needed > 1:
        with pytest.raises(CohortTooSmallError, match=f"at least {needed} updates"):
            rule(torch.ones((needed - 1, 2)))


def test_a_rule_told_nothing_assumes_a_minority_of_the_buckets() -> None:
    assert Bucketing(rule=Median()).assumed_byzantine(12) == 2
    assert Bucketing(rule=Bucketing(rule=Median())).assumed_byzantine(12) == 1
    assert Bucketing(rule=NearestNeighborMixing(rule=Median())).assumed_byzantine(13) == 3
    assert Bucketing(rule=Median(byzantine_fraction=0.25)).assumed_byzantine(12) == 3
    assert Bucketing(rule=Median(num_byzantine=1)).assumed_byzantine(12) == 1
    assert Bucketing(rule=Mean()).assumed_byzantine(12) == 0


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e6])
def test_clipping_shrinks_before_the_rule_sees_the_rows(name: str, radius: float) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        for inner, literal in rules(bad):
            found = Clipping(rule=inner, radius=radius)(rows).update
            room = 1e-6 * min(float(np.abs(rows).max()), radius)
            np.testing.assert_allclose(found, slow.clipping(rows, radius, literal), rtol=0.0, atol=room)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_adaptive_clipping_shrinks_to_one_of_the_norms(name: str, offset: float) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        rows = rows + offset
        for inner, literal in rules(bad):
            found = AdaptiveClipping(rule=inner)(rows).update
            expected = slow.adaptive_clipping(rows, bad, literal)
            close(found, expected, rows)


def test_clipping_shrinks_long_rows_only() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.5], [0.0, 0.0]])
    found = Clipping(rule=Mean(), radius=1.0)(rows)
    np.testing.assert_allclose(found.update, [0.2, 1.3 / 3.0], rtol=1e-6)
    np.testing.assert_allclose(found.weights, np.array([0.2, 1.0, 1.0]) / 2.2)


@pytest.mark.parametrize(("number", "f", "rank"), [(3, 1, 1), (6, 3, 3), (10, 2, 3), (5, 0, 0), (9, 4, 4)])
def test_adaptive_clipping_takes_the_next_norm(number: int, f: int, rank: int) -> None:
    """⌊2 f (n − f) / n⌋ rows are longer than the threshold."""
    rows = on_a_line(*np.arange(1.0, number + 1.0))
    found = AdaptiveClipping(rule=Mean(num_byzantine=f))(rows).update
    np.testing.assert_allclose(found, [np.minimum(np.arange(1.0, number + 1.0), number - rank).mean()])


def test_an_update_of_clipped_rows_is_no_longer_than_the_longest_honest_row() -> None:
    rows = stream(0, "long").standard_normal((15, 8))
    rows[:4] *= 1e8
    longest = max(norm(row) for row in rows[4:])
    assert norm(AdaptiveClipping(rule=Mean(num_byzantine=4))(rows).update.numpy()) <= longest


def test_rows_that_are_shrunk_to_nothing_keep_the_weight_of_their_mixed_row() -> None:
    """All rows but one are zero, and so is the second largest norm: all become zero, and Krum takes the first."""
    rows = on_a_line(5.0, 0.0, 0.0, 0.0, 0.0)
    found = AdaptiveClipping(rule=Krum(num_byzantine=1))(rows)
    assert found.update.tolist() == [0.0]
    assert found.weights.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    found = AdaptiveClipping(rule=Median(num_byzantine=1))(rows)
    assert found.update.tolist() == [0.0]
    np.testing.assert_allclose(found.weights, [0.0, 0.25, 0.25, 0.25, 0.25])


def test_scores_and_shares_go_back_to_the_clients() -> None:
    """Mixed with one neighbour, rows 0, 1, 5, 6 become 1/2, 1/2, 11/2, 11/2; a NaN row is left out."""
    rows = on_a_line(0.0, math.nan, 1.0, 5.0, 6.0)
    found = NearestNeighborMixing(rule=Mean(num_byzantine=3))(rows)
    np.testing.assert_allclose(found.weights, [0.25, 0.0, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(found.scores, [0.25, math.inf, 0.25, 121 / 4, 121 / 4])
    assert found.usable.tolist() == [True, False, True, True, True]
    assert found.num_byzantine == 3


def test_the_rule_inside_knows_the_clients_by_name() -> None:
    """FoolsGold sums histories by client; here client b is unusable in one round and back in the next."""
    rows = stream(0, "names").standard_normal((5, 6))
    rule = NearestNeighborMixing(rule=FoolsGold(num_byzantine=1))
    view = ServerView(clients=list("abcde"))
    first = rule(rows, view)
    rows[1] = np.nan
    second = rule(rows, replace(view, round=1, memory=first.memory))
    assert bool(second.update.isfinite().all())
    assert not bool(second.usable[1])
    assert set(second.memory) == set(first.memory)


def test_more_unusable_rows_than_assumed_are_reported() -> None:
    rows = stream(0, "broken").standard_normal((9, 3))
    rows[:3] = np.inf
    for wrap in (partial(Bucketing, size=2), partial(Clipping, radius=1.0), AdaptiveClipping):
        found = wrap(rule=Median(num_byzantine=2))(rows)
        assert found.stop is Stop.TOO_MANY_UNUSABLE
        assert bool(found.update.isfinite().all())


def test_what_wrappers_destroy_adds_up() -> None:
    assert Claim.PERMUTATION not in Bucketing(rule=Mean()).claims()
    assert Claim.IDEMPOTENCE in AdaptiveClipping(rule=Mean()).claims()
    assert Claim.SCALING in AdaptiveClipping(rule=Mean()).claims()
    both = Bucketing(rule=Clipping(rule=Median(), radius=1.0))
    assert both.claims() == {Claim.ROTATION} - Median().breaks()


@pytest.mark.parametrize("parameters", [{"radius": 0.0}, {"radius": -1.0}, {"radius": math.inf}, {}])
def test_a_radius_must_be_positive_and_finite(parameters: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="radius"):
        Clipping(rule=Mean(), **parameters)


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_the_size_of_a_bucket_is_a_positive_whole_number(size: Any) -> None:
    with pytest.raises(ParameterError, match="size"):
        Bucketing(rule=Mean(), size=size)


@pytest.mark.parametrize(
    "rule",
    [
        Bucketing(rule=Median()),
        Bucketing(rule=Median(num_byzantine=3), size=3, seed=2),
        Bucketing(rule=Krum(num_byzantine=3)),
        Bucketing(rule=GeometricMedian(num_byzantine=3), size=1),
        Bucketing(rule=Rage(byzantine_fraction=0.2)),
        Bucketing(rule=CenteredClipping()),
        Clipping(rule=Mean(num_byzantine=3), radius=3.0),
        Clipping(rule=Rage(num_byzantine=3), radius=1e-9),
        Clipping(rule=Krum(num_byzantine=3), radius=1e9),
        AdaptiveClipping(rule=Mean(num_byzantine=3)),
        AdaptiveClipping(rule=Krum(num_byzantine=3)),
        AdaptiveClipping(rule=Rage(num_byzantine=3)),
        AdaptiveClipping(rule=Median()),
        NearestNeighborMixing(rule=AdaptiveClipping(rule=Rage(num_byzantine=3))),
        Bucketing(rule=AdaptiveClipping(rule=NearestNeighborMixing(rule=TrimmedMean(num_byzantine=3)))),
    ],
    ids=repr,
)
def test_wrapped_rules_keep_the_contract(rule: Aggregator) -> None:
    check_contract(rule)


@pytest.mark.parametrize("gram", ["exact", "fast"])
def test_clipping_around_a_rule_that_estimates_cuts_rows_by_estimates_of_their_norms(gram: Any) -> None:
    rows = torch.from_numpy(stream(0, "wide").standard_normal((16, 131_008), dtype=np.float32))
    found = Clipping(radius=1.0, rule=Krum(num_byzantine=1, gram=gram))(rows)
    off = abs(float(found.update.norm()) - 1.0)
    assert (off < 1e-5) if gram == "exact" else (1e-5 < off < 0.05)
