"""The rules that choose rows against slow, literal versions, and on small cases worked by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from tests.oracles import selection as slow
from tests.oracles.clouds import CLOUDS
from tests.oracles.coordinatewise import Array, average, nearest_to_the_median
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.aggregators._base import Aggregator
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._selection import minimum_diameter, smallest_spread
from steadfed.aggregators._selection.bulyan import Bulyan, iterated_krum
from steadfed.aggregators._selection.krum import Krum, MultiKrum
from steadfed.aggregators._selection.minimum_diameter import MinimumDiameter
from steadfed.aggregators._selection.norm_filter import NormFilter
from steadfed.aggregators._selection.smallest_spread import SmallestSpread, num_subsets, smallest_scatter
from steadfed.aggregators._selection.zeno import Zeno
from steadfed.aggregators._view import ServerView
from steadfed.errors import CohortTooSmallError, MissingKnowledgeError, ParameterError, TooManySubsetsError
from steadfed.testing.contract import check_contract, example_updates

SEEDS = 5
DTYPES = [np.float32, np.float64]
TIED = {"duplicates", "mirror images", "grid", "near duplicates"}
"""Clouds in which choices are equally good up to rounding."""


def cohort(name: str, seed: int, dtype: type[np.floating[Any]], per_bad: int = 2, most: int = 12) -> tuple[Array, int]:
    """Return few rows that the dtype represents exactly, and an f such that `per_bad` f + 3 rows are enough."""
    rng = stream(seed, "selection", name)
    number = int(rng.integers(3, most + 1))
    bad = int(rng.integers(0, (number - 3) // per_bad + 1))
    return CLOUDS[name](rng, number, bad, int(rng.integers(1, 12))).astype(dtype).astype(np.float64), bad


def column(*values: float) -> Tensor:
    """Return rows of one coordinate."""
    return torch.tensor(values, dtype=torch.float64)[:, None]


def squared_distances(rows: Array) -> Array:
    return np.array([[slow.squared_distance(left, right) for right in rows] for left in rows])


def kept_rows(found: Aggregation, rows: Array, dtype: type[np.floating[Any]]) -> list[int]:
    """Return who was kept, after a check that the update is their average."""
    kept = [int(i) for i in found.kept.nonzero().flatten()]
    np.testing.assert_allclose(found.weights[found.kept], 1.0 / len(kept), rtol=1e-12)
    room = 4.0 * float(np.finfo(dtype).eps) * np.abs(rows[kept]).max()
    np.testing.assert_allclose(found.update, rows[kept].mean(axis=0), rtol=0.0, atol=room)
    return kept


def room_for(rows: Array, kept: list[int], dtype: type[np.floating[Any]]) -> float:
    """Return by how much squared distances between kept rows may be wrong in the Gram matrix."""
    return 200.0 * float(np.finfo(dtype).eps) * float((rows[kept] ** 2).sum(axis=1).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_multi_krum_averages_rows_with_the_best_scores(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed, dtype)
        for number in {1, len(rows) - bad, len(rows)}:
            found = MultiKrum(num_byzantine=bad, num_selected=number)(rows.astype(dtype))
            kept = kept_rows(found, rows, dtype)
            scores = slow.krum_scores(rows, bad)
            _, best = slow.multi_krum(rows, bad, number)
            assert len(kept) == number
            room = len(rows) * room_for(rows, best, dtype)
            assert max(scores[i] for i in kept) <= max(scores[i] for i in best) + room
            np.testing.assert_allclose(found.scores[best], [scores[i] for i in best], rtol=0.0, atol=room)
        default = MultiKrum(num_byzantine=bad)(rows.astype(dtype))
        assert int(default.kept.sum()) == len(rows) - bad


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(set(CLOUDS) - TIED))
def test_bulyan_is_bulyan_with_loops(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(2 * SEEDS):
        rows, bad = cohort(name, seed, dtype, per_bad=4, most=30)
        found = Bulyan(num_byzantine=bad)(rows.astype(dtype))
        chosen = iterated_krum(squared_distances(rows), bad)
        if bad not in {1, 2}:  # else the last choice is between two rows, each the one neighbour of the other
            assert sorted(chosen) == slow.bulyan(rows, bad)[1]
        nearest = [nearest_to_the_median(values, len(chosen) - 2 * bad) for values in rows[chosen].T]
        expected = [average(values) for values in nearest]
        room = 8.0 * float(np.finfo(dtype).eps) * np.abs(rows[chosen]).max()
        np.testing.assert_allclose(found.update, expected, rtol=0.0, atol=room)
        assert set(found.kept.nonzero().flatten().tolist()) <= set(chosen)
        assert all(found.scores[i] == 1.0 for i in range(len(rows)) if i not in chosen)
        left_out = found.scores[chosen].sum().item()  # of θ rows, all but β enter in every coordinate
        assert left_out == pytest.approx(min(len(chosen) - 1, 2 * bad))


@pytest.mark.parametrize("name", CLOUDS)
def test_iterated_krum_chooses_the_best_of_what_is_left_every_time(name: str) -> None:
    for seed in range(SEEDS):
        rows, _ = cohort(name, seed, np.float64)
        for bad in range((len(rows) - 1) // 2 + 1):
            left = list(range(len(rows)))
            for choice in iterated_krum(squared_distances(rows), bad):
                scores = slow.krum_scores(rows[left], bad)
                assert scores[left.index(choice)] <= min(scores) * (1.0 + 1e-12)
                left.remove(choice)
            assert len(left) == 2 * bad


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_minimum_diameter_is_the_best_of_all_subsets(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed, dtype)
        found = MinimumDiameter(num_byzantine=bad)(rows.astype(dtype))
        kept = kept_rows(found, rows, dtype)
        _, best = slow.minimum_diameter(rows, bad)
        squared = squared_distances(rows)
        room = room_for(rows, best, dtype)
        assert len(kept) == len(rows) - bad
        assert squared[np.ix_(kept, kept)].max() <= squared[np.ix_(best, best)].max() + room
        if dtype is np.float64 or name == "grid":
            limit = squared[np.ix_(best, best)].sum() + len(rows) ** 2 * room
            assert squared[np.ix_(kept, kept)].sum() <= limit
        np.testing.assert_allclose(found.scores[kept].max() ** 2, squared[np.ix_(kept, kept)].max(), atol=room)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_smallest_spread_is_the_best_of_all_subsets(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed, dtype)
        found = SmallestSpread(num_byzantine=bad)(rows.astype(dtype))
        kept = kept_rows(found, rows, dtype)
        _, best = slow.smallest_spread(rows, bad)
        room = room_for(rows, best, dtype)
        smallest = float(np.linalg.norm(rows[best] - rows[best].mean(axis=0), 2)) ** 2 / len(best)
        reached = float(np.linalg.norm(rows[kept] - rows[kept].mean(axis=0), 2)) ** 2 / len(kept)
        assert len(kept) == len(rows) - bad
        assert reached <= smallest + room
        assert found.spread == pytest.approx(reached, rel=1e-6, abs=room)


def test_smallest_spread_looks_at_many_batches() -> None:
    rows = stream(0, "batches").standard_normal((17, 4))
    gram = rows @ rows.T
    kept, scatter, solved = smallest_scatter(gram, 8)  # 24,310 subsets in four batches
    tops = {}
    for subset in itertools.islice(itertools.combinations(range(17), 9), 0, None, 37):
        part = rows[list(subset)]
        tops[subset] = np.linalg.norm(part - part.mean(axis=0), 2) ** 2
    assert scatter <= min(tops.values()) * (1.0 + 1e-12)
    assert scatter == pytest.approx(np.linalg.norm(rows[kept] - rows[kept].mean(axis=0), 2) ** 2)
    assert solved <= math.comb(17, 8)


def test_smallest_spread_is_within_its_bound() -> None:
    for seed in range(20):
        rows = stream(seed, "bound").standard_normal((12, 6))
        rows[:4] += 1.5
        honest = rows[4:]
        spread = np.linalg.norm(honest - honest.mean(axis=0), 2) / math.sqrt(8)
        error = np.linalg.norm(SmallestSpread(num_byzantine=4)(rows).update.numpy() - honest.mean(axis=0))
        assert error <= 2.0 * math.sqrt(4 / 4) * spread


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_norm_filter_drops_the_longest_rows(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed, dtype)
        found = NormFilter(num_byzantine=bad)(rows.astype(dtype))
        kept = kept_rows(found, rows, dtype)
        _, best = slow.norm_filter(rows, bad)
        norms = [slow.norm(row) for row in rows]
        np.testing.assert_allclose(found.scores, norms, rtol=8.0 * float(np.finfo(dtype).eps))
        assert len(kept) == len(best)
        assert max(norms[i] for i in kept) <= max(norms[i] for i in best) * (1.0 + 8.0 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_zeno_averages_rows_with_the_best_descent(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed, dtype)
        model, target = np.zeros(rows.shape[1]), np.full(rows.shape[1], -0.5)

        def array_loss(point: Array, target: Array = target) -> float:
            return 0.5 * float(((point - target) ** 2).sum())

        def loss(point: Tensor, loss: Callable[[Array], float] = array_loss) -> float:
            return loss(point.double().numpy())

        view = ServerView(model=torch.from_numpy(model), trusted_loss=loss)
        found = Zeno(num_byzantine=bad, rho=0.01, lr=0.25)(rows.astype(dtype), view)
        kept = kept_rows(found, rows, dtype)
        scores = np.array(slow.zeno_scores(rows, 0.01, 0.25, model, array_loss))
        _, best = slow.zeno(rows, bad, 0.01, 0.25, model, array_loss)
        room = 32.0 * float(np.finfo(dtype).eps) * (1.0 + np.abs(scores))
        assert (np.abs(found.scores.numpy() + scores) <= room).all()
        assert len(kept) == len(best)
        assert min(scores[kept] + room[kept]) >= min(scores[best])


def test_multi_krum_by_hand() -> None:
    rows = column(0.0, 1.0, 3.0, 3.5, 100.0)  # two neighbours each: 1+9, 1+4, 0.25+4, 0.25+6.25, far
    found = MultiKrum(num_byzantine=1, num_selected=2)(rows)
    assert found.scores.tolist()[:4] == [10.0, 5.0, 4.25, 6.5]
    assert float(found.update) == 2.0
    assert found.removed == [0, 3, 4]
    assert torch.equal(MultiKrum(num_byzantine=1, num_selected=1)(rows).update, Krum(num_byzantine=1)(rows).update)


def test_bulyan_by_hand() -> None:
    found = Bulyan(num_byzantine=1)(column(1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 900.0))
    # Five are chosen, 900 and one of the ends not; the median of 1, 2, 2.5, 3, 4 is 2.5, its three nearest 2, 2.5, 3.
    assert float(found.update) == 2.5
    assert found.scores.tolist() == [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert found.stop is Stop.SUBSET
    assert found.usable.all()


def test_bulyan_does_not_depend_on_the_order_of_rows() -> None:
    for bad in (1, 2, 3):
        rows = torch.from_numpy(stream(bad, "order").standard_normal((4 * bad + 3, 5)))
        for seed in range(5):
            order = torch.from_numpy(stream(seed, "order").permutation(len(rows)))
            found, again = Bulyan(num_byzantine=bad)(rows), Bulyan(num_byzantine=bad)(rows[order])
            torch.testing.assert_close(found.update, again.update)
            torch.testing.assert_close(found.weights[order], again.weights)


def test_minimum_diameter_by_hand() -> None:
    found = MinimumDiameter(num_byzantine=1)(column(0.0, 3.0, 4.0))
    assert float(found.update) == 3.5
    assert found.scores.tolist() == [4.0, 1.0, 1.0]


@pytest.mark.parametrize(("fourth", "removed"), [(2.0, [5, 6]), (4.0, [0, 1])])
def test_minimum_diameter_breaks_ties_by_the_sum(fourth: float, removed: list[int]) -> None:
    # Without the last or the first two the diameter is 5, and the sums of squares are 86 and 110, or 110 and 86.
    found = MinimumDiameter(num_byzantine=2)(column(0.0, 0.0, 1.0, fourth, 5.0, 6.0, 6.0))
    assert found.removed == removed


def test_minimum_diameter_finds_planted_rows_among_many() -> None:
    for number, bad in ((40, 10), (100, 10), (100, 30)):
        rng = stream(number, "planted", bad)
        rows = rng.standard_normal((number, 50))
        rows[:bad] += 10.0 * rng.standard_normal((bad, 50))
        assert MinimumDiameter(num_byzantine=bad)(rows).removed == list(range(bad))


def test_minimum_diameter_stays_exact_where_rows_are_copies_of_a_few() -> None:
    for seed in range(20):
        rng = stream(seed, "copies")
        rows = rng.standard_normal((4, 3))[rng.integers(0, 4, 12)]
        found = MinimumDiameter(num_byzantine=4)(rows)
        squared = squared_distances(rows)
        kept = [int(i) for i in found.kept.nonzero().flatten()]
        _, best = slow.minimum_diameter(rows, 4)
        for merit in (np.max, np.sum):
            assert merit(squared[np.ix_(kept, kept)]) <= merit(squared[np.ix_(best, best)]) * (1.0 + 1e-12) + 1e-12


def test_too_large_searches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = stream(0, "large").standard_normal((40, 5))
    with pytest.raises(TooManySubsetsError, match=r"200000 subsets of 40 usable updates without 10 .*'caf'"):
        SmallestSpread(num_byzantine=10)(rows)
    monkeypatch.setattr(minimum_diameter, "MOST_NODES", 5)
    with pytest.raises(TooManySubsetsError, match=r"5 nodes .* 30 of 40 usable updates; assume fewer"):
        MinimumDiameter(num_byzantine=10)(rows)


def test_subsets_that_are_dear_to_solve_are_refused_before_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[int] = []
    monkeypatch.setattr(smallest_spread, "_tops", lambda centred: solved.append(len(centred)))
    for number, bad in ((150, 2), (110, 2), (60, 3), (41, 4), (308, 1)):
        with pytest.raises(TooManySubsetsError, match=f"of {number} usable updates without {bad} of them.*'caf'"):
            SmallestSpread(num_byzantine=bad)(np.zeros((number, 1)))
    with pytest.raises(TooManySubsetsError, match=r"11175 subsets of 150 .* 4.6e\+10 units of work; at most 1e\+10"):
        SmallestSpread(num_byzantine=2)(stream(0, "dear").standard_normal((150, 2)))
    assert not solved


def test_rows_of_which_no_bound_spares_a_subset_cost_no_more_than_was_reckoned_with() -> None:
    for number, bad in ((14, 6), (60, 1), (24, 2)):
        rows = np.stack([np.cos(angles := 2 * np.pi * np.arange(number) / number), np.sin(angles)], axis=1)
        found = SmallestSpread(num_byzantine=bad)(rows)
        assert 0 < found.num_eigensolves <= math.comb(number, bad)


@given(st.integers(1, 60), st.data())
def test_subsets_are_counted_up_to_a_limit(number: int, data: st.DataObject) -> None:
    left_out, most = data.draw(st.integers(0, number)), data.draw(st.integers(1, 10**7))
    expected = math.comb(number, left_out)
    assert num_subsets(number, left_out, most) == (expected if expected <= most else None)
    assert num_subsets(10**6 + number, 10**5, most) is None


def test_more_rows_are_granted_fewer_nodes_because_each_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = stream(0, "large").standard_normal((40, 5))
    assert MinimumDiameter(num_byzantine=10)(rows).num_steps > 6
    monkeypatch.setattr(minimum_diameter, "CHEAP_ROWS", 10)
    monkeypatch.setattr(minimum_diameter, "MOST_NODES", 96)
    with pytest.raises(TooManySubsetsError, match=r"6 nodes .* 30 of 40 usable updates; assume fewer"):
        MinimumDiameter(num_byzantine=10)(rows)


def test_minimum_diameter_has_the_smallest_diameter_even_if_ties_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimum_diameter, "MOST_TIED_NODES", 1)
    for seed in range(SEEDS):
        rows, bad = cohort("grid", seed, np.float64)
        kept = kept_rows(MinimumDiameter(num_byzantine=bad)(rows), rows, np.float64)
        _, best = slow.minimum_diameter(rows, bad)
        squared = squared_distances(rows)
        assert len(kept) == len(best)
        assert squared[np.ix_(kept, kept)].max() == squared[np.ix_(best, best)].max()


def test_norm_filter_by_hand() -> None:
    found = NormFilter(num_byzantine=1)(torch.tensor([[3.0, 4.0], [-1.0, 0.0], [0.0, 2.0]]))
    assert found.scores.tolist() == [5.0, 1.0, 2.0]
    assert found.update.tolist() == [-0.5, 1.0]
    assert found.stop is Stop.SUBSET


def test_zeno_by_hand() -> None:
    view = ServerView(model=torch.tensor([2.0]), trusted_loss=lambda model: float(model @ model))
    found = Zeno(num_byzantine=1, rho=0.5, lr=1.0)(torch.tensor([[1.0], [2.0], [-1.0]]), view)
    # 4 - 1 - 0.5, 4 - 0 - 2, 4 - 9 - 0.5
    assert found.scores.tolist() == [-2.5, -2.0, 5.5]
    assert found.update.tolist() == [1.5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e307])
def test_zeno_keeps_rows_away_after_which_the_loss_is_not_finite(value: float) -> None:
    view = ServerView(model=torch.zeros(1), trusted_loss=lambda model: value if float(model) > 0.0 else 1.0)
    found = Zeno(num_byzantine=1)(torch.tensor([[-1.0], [-2.0], [3.0], [-4.0]]), view)
    assert found.update.tolist() == [3.0]
    assert found.scores.tolist()[:2] == [math.inf, math.inf]


def test_zeno_averages_the_shortest_rows_if_no_loss_is_finite() -> None:
    view = ServerView(model=torch.zeros(1), trusted_loss=lambda _: math.nan)
    found = Zeno(num_byzantine=1)(torch.tensor([[1.0], [8.0], [3.0]]), view)
    assert found.update.tolist() == [2.0]


def test_zeno_needs_a_model_and_a_loss() -> None:
    with pytest.raises(MissingKnowledgeError, match="trusted_loss"):
        Zeno(num_byzantine=0)(column(1.0))
    with pytest.raises(MissingKnowledgeError, match="the current model"):
        Zeno(num_byzantine=0)(column(1.0), ServerView(trusted_loss=lambda _: 0.0))


BOUNDS: list[dict[str, Any]] = [{"num_byzantine": 0}, {"num_byzantine": 3}, {"byzantine_fraction": 0.2}]
RULES: list[Callable[..., Aggregator]] = [MultiKrum, Bulyan, NormFilter, Zeno]
SEARCHES: list[Callable[..., Aggregator]] = [MinimumDiameter, SmallestSpread]
VARIANTS: list[Aggregator] = [
    *(kind(**bound) for kind in RULES for bound in BOUNDS),
    MultiKrum(num_byzantine=3, num_selected=1),
    Zeno(num_byzantine=3, rho=0.0, lr=1.0),
]


@pytest.mark.parametrize("rule", VARIANTS, ids=repr)
def test_rule_keeps_the_contract(rule: Aggregator) -> None:
    check_contract(rule)


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
@pytest.mark.parametrize("kind", SEARCHES)
def test_search_keeps_the_contract(kind: Callable[..., Aggregator], bound: dict[str, Any]) -> None:
    rule = kind(**bound)
    check_contract(rule, example_updates(rule, cohort_size=13))


@pytest.mark.parametrize("kind", [*RULES, *SEARCHES])
def test_unusable_rows_count_against_the_bound(kind: Callable[..., Aggregator]) -> None:
    rows = torch.from_numpy(stream(0, "unusable").standard_normal((12, 3)))
    view = ServerView(model=torch.zeros(3), trusted_loss=lambda model: float((model - 1.0).square().sum()))
    spoilt = torch.cat([rows, torch.full((1, 3), math.nan)])
    found, without = kind(num_byzantine=2)(spoilt, view), kind(num_byzantine=1)(rows, view)
    assert torch.equal(found.update, without.update)
    assert found.weights.tolist()[:12] == without.weights.tolist()
    assert found.usable.tolist() == [True] * 12 + [False]
    assert found.stop is Stop.SUBSET


@pytest.mark.parametrize("kind", [*RULES, *SEARCHES])
def test_few_usable_rows_are_enough(kind: Callable[..., Aggregator]) -> None:
    view = ServerView(model=torch.zeros(1), trusted_loss=lambda model: float(model.square().sum()))
    for number in (1, 2, 3):
        rows = column(*([math.nan] * (13 - number)), *range(1, number + 1))
        found = kind(num_byzantine=2)(rows, view)
        assert found.stop is Stop.TOO_MANY_UNUSABLE
        assert 1.0 <= float(found.update) <= number


@pytest.mark.parametrize(("kind", "needed"), [(MultiKrum, 7), (Bulyan, 11), *((kind, 5) for kind in SEARCHES)])
def test_too_few_rows_and_wrong_parameters_are_refused(kind: Callable[..., Aggregator], needed: int) -> None:
    with pytest.raises(CohortTooSmallError, match=rf"assumes 2 Byzantine of 4 updates, and needs at least {needed}"):
        kind(num_byzantine=2)(column(1.0, 2.0, 3.0, 4.0))
    with pytest.raises(ParameterError, match="got neither"):
        kind()


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="num_selected"):
        MultiKrum(num_byzantine=1, num_selected=0)
    with pytest.raises(CohortTooSmallError, match="at least 9 updates"):
        MultiKrum(num_byzantine=1, num_selected=9)(column(1.0, 2.0, 3.0, 4.0, 5.0))
    with pytest.raises(ParameterError, match="rho"):
        Zeno(num_byzantine=1, rho=-1.0)
    with pytest.raises(ParameterError, match="lr"):
        Zeno(num_byzantine=1, lr=0.0)
