"""The coordinate-wise rules against slow, literal versions, and on small cases worked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import coordinatewise as slow
from tests.oracles.clouds import CLOUDS
from tests.oracles.coordinatewise import Array

from steadfed._core.rng import stream
from steadfed.aggregators._base import Aggregator
from steadfed.aggregators._coordinatewise.mean_around_median import MeanAroundMedian
from steadfed.aggregators._coordinatewise.rsa import Rsa
from steadfed.aggregators._coordinatewise.slsgd import Slsgd
from steadfed.aggregators._coordinatewise.trimmed_mean import TrimmedMean
from steadfed.aggregators._coordinatewise.windows import around_median
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._view import ServerView
from steadfed.errors import CohortTooSmallError, MissingKnowledgeError, ParameterError
from steadfed.testing.contract import check_contract

SEEDS = 6
DTYPES = [np.float32, np.float64]


def cohort(name: str, seed: int, dtype: type[np.floating[Any]]) -> tuple[Array, int]:
    """Return rows, the first f of them bad, that the dtype represents exactly, and f."""
    rng = stream(seed, "coordinatewise", name)
    number = int(rng.integers(3, 30))
    bad = int(rng.integers(0, (number - 1) // 2 + 1))
    return CLOUDS[name](rng, number, bad, int(rng.integers(1, 20))).astype(dtype).astype(np.float64), bad


def column(*values: float) -> torch.Tensor:
    """Return rows of one coordinate."""
    return torch.tensor(values, dtype=torch.float64)[:, None]


def assert_update(found: Aggregation, expected: Array, rows: Array, dtype: type[np.floating[Any]]) -> None:
    """Compare up to the rounding of the result, and of float64 inside."""
    assert found.update.numpy().dtype == dtype
    room = 8.0 * np.finfo(np.float64).eps * np.abs(rows).max()
    np.testing.assert_allclose(found.update, expected, rtol=2.0 * float(np.finfo(dtype).eps), atol=room)


def shares(rows: Array, averaged: Callable[[Array], Sequence[float]]) -> Array:
    """Return how many values of each row were averaged; equal values share the places that they have."""
    entered = np.zeros(len(rows))
    for values in rows.T:
        chosen, present = Counter(float(value) for value in averaged(values)), Counter(values.tolist())
        entered += [chosen[value] / present[value] for value in values.tolist()]
    return entered


def middle_values(cut: int, values: Array) -> list[float]:
    return sorted(values.tolist())[cut : len(values) - cut]


def assert_shares(found: Aggregation, entered: Array, num_columns: int) -> None:
    np.testing.assert_allclose(found.weights, entered / entered.sum(), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.scores, 1.0 - entered / num_columns, rtol=1e-12, atol=1e-12)
    assert found.kept.tolist() == (entered > 0.0).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_trimmed_mean_is_the_trimmed_mean_with_loops(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed, dtype)
        found = TrimmedMean(num_byzantine=bad)(rows.astype(dtype))
        assert_update(found, slow.trimmed_mean(rows, bad), rows, dtype)
        entered = shares(rows, partial(middle_values, bad))
        assert_shares(found, entered, rows.shape[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_mean_around_median_is_the_one_with_loops(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed, dtype)
        found = MeanAroundMedian(num_byzantine=bad)(rows.astype(dtype))
        assert_update(found, slow.mean_around_median(rows, bad), rows, dtype)
        entered = shares(rows, partial(slow.nearest_to_the_median, number=len(rows) - bad))
        assert_shares(found, entered, rows.shape[1])


@pytest.mark.parametrize("name", CLOUDS)
def test_any_number_of_values_around_the_median_can_be_averaged(name: str) -> None:
    rows, _ = cohort(name, 7, np.float64)
    for number in range(1, len(rows) + 1):
        means, share, left_out = around_median(number)(rows)
        expected = [slow.average(slow.nearest_to_the_median(values, number)) for values in rows.T]
        np.testing.assert_allclose(means, expected, rtol=1e-13, atol=1e-15 * np.abs(rows).max())
        assert share.sum() == pytest.approx(rows.shape[1])
        assert left_out.sum() == pytest.approx((len(rows) - number) * rows.shape[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_slsgd_is_a_share_of_the_trimmed_mean(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed, dtype)
        found = Slsgd(num_byzantine=bad, moving_average=0.3)(rows.astype(dtype))
        assert_update(found, slow.slsgd(rows, bad, 0.3), rows, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_rsa_is_the_sum_of_signs_with_loops(name: str, dtype: type[np.floating[Any]]) -> None:
    for seed in range(SEEDS):
        rows, _ = cohort(name, seed, dtype)
        model = np.arange(rows.shape[1], dtype=np.float64) / 8.0
        found = Rsa(penalty=0.25, weight_decay=0.5)(rows.astype(dtype), ServerView(model=torch.from_numpy(model)))
        assert_update(found, slow.rsa(rows, 0.25, 0.5, model), np.ones(1), dtype)
        majority = np.sign(np.sign(rows).sum(axis=0))
        np.testing.assert_allclose(found.scores, (np.sign(rows) * majority < 0.0).mean(axis=1))
        np.testing.assert_allclose(found.weights, 1.0 / len(rows))


def test_trimmed_mean_by_hand() -> None:
    rows = torch.tensor([[1.0, 9.0], [2.0, 5.0], [3.0, 6.0], [4.0, -7.0], [100.0, 7.0]])
    found = TrimmedMean(num_byzantine=1)(rows)
    assert found.update.tolist() == [3.0, 6.0]
    assert found.scores.tolist() == [1.0, 0.0, 0.0, 0.5, 0.5]
    np.testing.assert_allclose(found.weights, [0.0, 2 / 6, 2 / 6, 1 / 6, 1 / 6])
    assert found.removed == [0]


def test_equal_values_at_the_ends_divide_their_places() -> None:
    found = TrimmedMean(num_byzantine=1)(column(0.0, 0.0, 0.0, 5.0, 7.0))  # two of three zeros, and the 5
    np.testing.assert_allclose(found.weights, [2 / 9, 2 / 9, 2 / 9, 1 / 3, 0.0])
    assert TrimmedMean(num_byzantine=1)(column(3.0, 3.0, 3.0)).weights.tolist() == pytest.approx([1 / 3] * 3)


def test_mean_around_median_by_hand() -> None:
    assert float(MeanAroundMedian(num_byzantine=1)(column(0.0, 1.0, 5.0)).update) == 0.5
    assert float(MeanAroundMedian(num_byzantine=2)(column(0.0, 6.0, 7.0, 9.0, 90.0)).update) == pytest.approx(22 / 3)
    # the median of four is 2.5; 1 and 4 are equally near, and the smaller one is taken
    assert float(MeanAroundMedian(num_byzantine=1)(column(1.0, 2.0, 3.0, 4.0)).update) == 2.0


@pytest.mark.parametrize(("first", "expected"), [(1.0, 2.0**52), (0.0, 2.0**52), (-1.0, 1.5 * 2.0**53)])
def test_which_value_is_nearer_does_not_depend_on_rounding(first: float, expected: float) -> None:
    # The sum of the outer two rounds to twice the median in all three cases.
    found = MeanAroundMedian(num_byzantine=1)(column(first, 2.0**53, 2.0**54))
    assert float(found.update) == pytest.approx(expected, rel=1e-15)


def test_means_of_many_float32_rows_are_accurate() -> None:
    rows = (1000.0 + stream(0, "many").standard_normal((2001, 5))).astype(np.float32)
    expected = np.sort(rows.astype(np.float64), axis=0)[400:-400].mean(axis=0)
    np.testing.assert_allclose(TrimmedMean(num_byzantine=400)(rows).update, expected, rtol=6.1e-8)


def test_slsgd_with_all_of_the_new_is_the_trimmed_mean() -> None:
    rows = torch.from_numpy(stream(0, "slsgd").standard_normal((9, 4)))
    whole = Slsgd(num_byzantine=2, moving_average=1.0)
    assert torch.equal(whole(rows).update, TrimmedMean(num_byzantine=2)(rows).update)
    assert whole.breaks() == TrimmedMean(num_byzantine=2).breaks()


def test_rsa_by_hand() -> None:
    rows = torch.tensor([[1.0, -1.0, 0.0], [2.0, -9.0, 0.0], [-900.0, 3.0, 0.0]])
    found = Rsa(penalty=0.5)(rows)
    assert found.update.tolist() == [0.5, -0.5, 0.0]
    assert found.scores.tolist() == pytest.approx([0.0, 0.0, 2 / 3])
    assert found.stop is Stop.COORDINATES


def test_rsa_needs_the_model_only_for_weight_decay() -> None:
    with pytest.raises(MissingKnowledgeError, match="the current model"):
        Rsa(weight_decay=0.1)(column(1.0, 2.0, 3.0))
    assert float(Rsa(weight_decay=0.0)(column(1.0, 2.0, 3.0)).update) == pytest.approx(0.015)


@pytest.mark.parametrize("rule", [TrimmedMean(num_byzantine=2), MeanAroundMedian(num_byzantine=2)])
def test_unusable_rows_count_against_the_bound(rule: Aggregator) -> None:
    rows = column(1.0, 2.0, 3.0, 4.0, 100.0, float("nan"))
    without = type(rule)(num_byzantine=1)(rows[:5])  # type: ignore[call-arg]
    found = rule(rows)
    assert float(found.update) == float(without.update)
    assert found.stop is Stop.COORDINATES
    assert rule(torch.cat([rows, rows[5:], rows[5:]])).stop is Stop.TOO_MANY_UNUSABLE


VARIANTS: list[Aggregator] = [
    *(
        kind(**bound)
        for kind in (TrimmedMean, MeanAroundMedian, Slsgd)
        for bound in ({"num_byzantine": 0}, {"num_byzantine": 3}, {"byzantine_fraction": 0.2})
    ),
    Slsgd(num_byzantine=3, moving_average=1.0),
    Rsa(),
    Rsa(num_byzantine=3, penalty=1.0, weight_decay=0.1),
    Rsa(byzantine_fraction=0.2),
]


@pytest.mark.parametrize("rule", VARIANTS, ids=repr)
def test_rule_keeps_the_contract(rule: Aggregator) -> None:
    check_contract(rule)


@pytest.mark.parametrize("kind", [TrimmedMean, MeanAroundMedian, Slsgd])
def test_too_few_rows_and_wrong_parameters_are_refused(kind: Callable[..., Aggregator]) -> None:
    with pytest.raises(CohortTooSmallError, match=r"assumes 2 Byzantine of 4 updates, and needs at least 5"):
        kind(num_byzantine=2)(column(1.0, 2.0, 3.0, 4.0))
    with pytest.raises(ParameterError, match="got neither"):
        kind()


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan"), True])
def test_slsgd_refuses_a_share_outside_its_range(share: float) -> None:
    with pytest.raises(ParameterError, match="moving_average"):
        Slsgd(num_byzantine=1, moving_average=share)


@pytest.mark.parametrize(("name", "value"), [("penalty", 0.0), ("penalty", -1.0), ("weight_decay", -0.1)])
def test_rsa_refuses_parameters_outside_their_range(name: str, value: float) -> None:
    with pytest.raises(ParameterError, match=name):
        Rsa(**{name: value})
