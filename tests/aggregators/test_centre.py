"""Rules that look for a centre, against their iterations in R^d and on small cases worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.oracles import centre as slow
from tests.oracles.clouds import CLOUDS
from tests.oracles.rules import pairwise_squared_distances
from tests.oracles.saddle import Array

from steadfed._core.rng import stream
from steadfed._linalg.norms import clip_factors
from steadfed.aggregators import Aggregator, Claim, GeometricMedian, ServerView, Stop
from steadfed.aggregators._centre.centered_clipping import CenteredClipping
from steadfed.aggregators._centre.median_of_means import MedianOfMeans
from steadfed.aggregators._centre.rfa import Rfa
from steadfed.errors import CohortTooSmallError, ParameterError, ShapeError
from steadfed.testing.contract import check_contract

SEEDS = 6


def cohort(name: str, seed: int) -> tuple[Array, int]:
    """Return rows, the first f of them bad, and f."""
    rng = stream(seed, "centre", name)
    number = int(rng.integers(3, 30))
    bad = int(rng.integers(0, (number - 1) // 2 + 1))
    return CLOUDS[name](rng, number, bad, int(rng.integers(1, 20))), bad


def on_a_line(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def close(found: object, expected: object, rows: Array, rounding: float = 1e-9) -> None:
    """Compare up to rounding, relative to the largest number."""
    room = rounding * float(np.abs(rows).max())
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=0.0, atol=room)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize(("smoothing", "num_iterations"), [(1e-6, 3), (0.5, 1), (3.0, 10)])
def test_rfa_is_the_smoothed_iteration_in_space(name: str, smoothing: float, num_iterations: int) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        found = Rfa(num_byzantine=bad, smoothing=smoothing, num_iterations=num_iterations)(rows)
        update, weights = slow.rfa(rows, smoothing, num_iterations)
        close(found.update, update, rows, 1e-7)
        if name not in {"duplicates", "near duplicates", "mirror images"}:  # a point on a row: its weight is rounding
            np.testing.assert_allclose(found.weights, weights, rtol=0.0, atol=1e-6)
        assert found.num_steps == num_iterations


def test_rfa_weighs_by_inverse_distances() -> None:
    """From the mean 1, inverse distances 1, 1, 1/2."""
    found = Rfa(num_iterations=1)(on_a_line(0.0, 0.0, 3.0))
    np.testing.assert_allclose(found.weights, [0.4, 0.4, 0.2])
    np.testing.assert_allclose(found.scores, [0.6, 0.6, 2.4])
    assert found.stop is Stop.COMBINED
    np.testing.assert_allclose(Rfa(smoothing=10.0, num_iterations=5)(on_a_line(0.0, 0.0, 3.0)).update, [1.0])


@pytest.mark.parametrize(("number", "bad"), [(3, 1), (10, 2), (9, 4)])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_rfa_leaves_what_its_docstring_says_of_two_points(number: int, bad: int, steps: int) -> None:
    rows = on_a_line(*[1e6] * bad, *[0.0] * (number - bad))
    power = (bad / (number - bad)) ** (steps + 1)
    update = Rfa(num_iterations=steps)(rows).update
    np.testing.assert_allclose(update, [1e6 * power / (1.0 + power)], rtol=1e-9)


def test_rfa_goes_to_the_geometric_median() -> None:
    rows = stream(0, "limit").standard_normal((15, 6))
    close(Rfa(num_iterations=500)(rows).update, GeometricMedian()(rows).update, rows, 1e-6)


def groups_of(rule: MedianOfMeans, number: int, k: int, round_number: int = 0) -> list[list[int]]:
    """Deal a permutation out to k groups in turn."""
    order = stream(rule.seed, "groups", round_number).permutation(number).tolist()
    return [order[i::k] for i in range(k)]


@pytest.mark.parametrize("name", CLOUDS)
def test_median_of_means_is_the_geometric_median_of_the_groups_means(name: str) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        rule = MedianOfMeans(num_byzantine=bad, seed=seed)
        groups = groups_of(rule, len(rows), 2 * bad + 1)
        found = rule(rows)
        means = np.array([rows[group].mean(axis=0) for group in groups])
        update = slow.median_of_means(rows, groups)

        def total(point: Array, means: Array = means) -> float:
            return float(np.linalg.norm(means - point, axis=1).sum())

        assert total(found.update.numpy()) <= total(update) * (1.0 + 1e-6) + 1e-12
        assert max(map(len, groups)) - min(map(len, groups)) <= 1
        for group in groups:
            assert len(set(found.weights[group].tolist())) == 1
            assert len(set(found.scores[group].tolist())) == 1


def test_median_of_means_on_a_line_is_the_middle_mean() -> None:
    rows = on_a_line(0.0, 2.0, 4.0, 6.0, 100.0, 200.0)
    rule = MedianOfMeans(num_byzantine=1, seed=3)
    means = sorted(float(rows[group].mean()) for group in groups_of(rule, 6, 3))
    np.testing.assert_allclose(rule(rows).update, [means[1]], atol=1e-3)


def test_median_of_means_draws_new_groups_in_every_round() -> None:
    rows, rule = stream(0, "rounds").standard_normal((12, 4)), MedianOfMeans(num_byzantine=2)
    updates = [rule(rows, ServerView(round=k)).update for k in range(4)]
    assert len({tuple(update.tolist()) for update in updates}) == 4
    assert torch.equal(updates[0], rule(rows).update)
    close(updates[2], slow.median_of_means(rows, groups_of(rule, 12, 5, 2)), rows, 1e-5)


@pytest.mark.parametrize(("k", "same"), [(1, "mean"), (6, "geometric median"), (60, "geometric median")])
def test_median_of_means_lies_between_the_mean_and_the_geometric_median(k: int, same: str) -> None:
    rows = stream(1, "between").standard_normal((6, 4))
    expected = rows.mean(axis=0) if same == "mean" else GeometricMedian()(rows).update
    close(MedianOfMeans(num_byzantine=0, num_groups=k)(rows).update, expected, rows, 1e-6)


def test_median_of_means_wants_a_majority_of_honest_groups() -> None:
    with pytest.raises(ParameterError, match="at least 2 \\* num_byzantine \\+ 1 = 5"):
        MedianOfMeans(num_byzantine=2, num_groups=4)
    with pytest.raises(CohortTooSmallError):
        MedianOfMeans(num_byzantine=2)(torch.zeros((4, 2)))


def most_central(rows: Array) -> Array:
    """Return the mean of the rows with the smallest median distance to all rows."""
    middle = np.median(pairwise_squared_distances(rows), axis=1)
    return np.asarray(rows[middle <= middle.min() * (1.0 + 1e-5)].mean(axis=0))


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("radius", [None, 0.5, 10.0])
@pytest.mark.parametrize("num_iterations", [1, 4])
def test_centered_clipping_is_the_iteration_in_space(name: str, radius: float | None, num_iterations: int) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        rule = CenteredClipping(num_byzantine=bad, radius=radius, num_iterations=num_iterations, start="origin")
        origin = np.zeros(rows.shape[1])
        close(rule(rows).update, slow.centered_clipping(rows, radius, num_iterations, origin), rows, 1e-6)
        if name != "near duplicates":  # far rows that differ by rounding: the medians tie, or do not
            start = most_central(rows)
            rule = CenteredClipping(num_byzantine=bad, radius=radius, num_iterations=num_iterations, start="median")
            close(rule(rows).update, slow.centered_clipping(rows, radius, num_iterations, start), rows, 1e-6)


@pytest.mark.parametrize("name", ["isotropic", "far cluster", "heavy tails", "groups"])
@pytest.mark.parametrize("radius", [None, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_centered_clipping_goes_on_from_its_last_update(name: str, radius: float | None, dtype: torch.dtype) -> None:
    rows, bad = cohort(name, 0)
    rule = CenteredClipping(num_byzantine=bad, radius=radius, num_iterations=2)
    view, point, drift = ServerView(), np.zeros(rows.shape[1]), stream(0, "drift")
    rounding = 1e-5 if dtype is torch.float32 else 1e-8
    for number in range(5):
        sent = rows + drift.standard_normal(rows.shape) + 5.0 * number
        found = rule(torch.from_numpy(sent).to(dtype), view)
        point = slow.centered_clipping(sent, radius, 2, point)
        close(found.update, point, np.append(sent, 20.0), rounding)
        assert torch.equal(found.memory["centre"], found.update)
        assert found.memory["centre"].data_ptr() != found.update.data_ptr()
        view = replace(view, round=number + 1, memory=found.memory)


def test_centered_clipping_moves_by_clipped_differences() -> None:
    def moved(*values: float, **parameters: object) -> float:
        return float(CenteredClipping(start="origin", **parameters)(on_a_line(*values)).update)

    assert moved(1.0, -1.0, 10.0, radius=2.0, num_iterations=1) == pytest.approx(2.0 / 3.0)
    assert moved(1.0, -1.0, 10.0, num_iterations=1) == pytest.approx(1.0 / 3.0)  # the median distance is 1
    assert moved(1.0, 10.0, radius=2.0, num_iterations=2) == pytest.approx(2.25)  # 1.5, then (-0.5 + 2)/2 more


def test_weights_of_centered_clipping_are_the_rows_shares_without_the_start() -> None:
    """Differences 1, -1 and 10 are multiplied by 1, 1 and 1/5."""
    found = CenteredClipping(radius=2.0, num_iterations=1)(on_a_line(1.0, -1.0, 10.0))
    np.testing.assert_allclose(found.weights, np.array([5.0, 5.0, 1.0]) / 11.0)
    np.testing.assert_allclose(found.scores, [1.0 / 3.0, 5.0 / 3.0, 28.0 / 3.0])
    assert found.stop is Stop.COMBINED
    assert found.num_steps == 1


def test_a_row_moves_the_centre_by_no_more_than_its_share_of_the_radius() -> None:
    rows = stream(0, "radius").standard_normal((9, 30))
    rule = CenteredClipping(radius=0.7, num_iterations=5, start="origin")
    before = rule(rows).update
    rows[0] = 1e12
    assert float((rule(rows).update - before).norm()) <= 2.0 * 5 * 0.7 / 9


@pytest.mark.parametrize("far", [1e3, 1e9, 1e15])
def test_without_a_radius_far_rows_pull_no_harder_than_the_median_row(far: float) -> None:
    rows = stream(1, "radius").standard_normal((11, 6))
    rows[:4] = far
    honest = rows[4:]
    farthest = float(np.linalg.norm(honest, axis=1).max())
    for start in ("origin", "median"):
        update = CenteredClipping(num_iterations=10, start=start)(rows).update.numpy()
        assert np.linalg.norm(update) <= 4.0 * farthest


def test_only_the_start_from_the_last_update_remembers() -> None:
    rows = stream(0, "memory").standard_normal((5, 3))
    assert CenteredClipping(start="origin")(rows).memory == {}
    assert CenteredClipping(start="median")(rows).memory == {}
    with pytest.raises(ShapeError, match="centre"):
        CenteredClipping()(rows, ServerView(memory={"centre": torch.zeros(4)}))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1e30), (torch.float32, 3e38), (torch.float64, 1e150)])
def test_a_last_update_too_large_to_be_squared_is_forgotten(
    dtype: torch.dtype, size: float, radius: float | None
) -> None:
    """Distances to it are not numbers, and rows at no distance would not be clipped at all."""
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [500.0, 500.0]], dtype=dtype)
    rule = CenteredClipping(radius=radius, num_byzantine=1)
    found = rule(rows, ServerView(memory={"centre": torch.full((2,), size, dtype=dtype)}))
    torch.testing.assert_close(found.update, rule(rows).update)
    assert found.scores.isfinite().all()
    assert found.memory["centre"].abs().max() < 500.0


@pytest.mark.parametrize("parameters", [{"smoothing": True}, {"tolerance": "0.1"}, {"max_iterations": True}], ids=str)
def test_parameters_of_the_geometric_median_are_numbers(parameters: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="number"):
        GeometricMedian(**parameters)


def test_what_centered_clipping_keeps_depends_on_start_and_radius() -> None:
    moving = {Claim.TRANSLATION, Claim.HULL, Claim.LINEARITY}
    assert CenteredClipping(start="median").breaks() == set()
    assert CenteredClipping(start="median", radius=1.0).breaks() == {Claim.SCALING}
    assert CenteredClipping(start="origin").breaks() == moving
    assert CenteredClipping(radius=1.0).breaks() == moving | {Claim.SCALING, Claim.IDEMPOTENCE}


def test_a_scaled_cohort_with_a_scaled_memory_gives_a_scaled_update() -> None:
    rows = stream(0, "scaled").standard_normal((8, 5))
    memory = {"centre": torch.ones(5, dtype=torch.float64)}
    scaled = {"centre": 8.0 * memory["centre"]}
    first = CenteredClipping()(rows, ServerView(memory=memory)).update
    second = CenteredClipping()(8.0 * rows, ServerView(memory=scaled)).update
    np.testing.assert_allclose(second, 8.0 * first, rtol=1e-12)


@pytest.mark.parametrize(
    "rule",
    [
        Rfa(),
        Rfa(num_byzantine=3, smoothing=1.0, num_iterations=1),
        MedianOfMeans(num_byzantine=3),
        MedianOfMeans(byzantine_fraction=0.2, num_groups=12, seed=5),
        MedianOfMeans(num_byzantine=0),
        CenteredClipping(),
        CenteredClipping(radius=1.0, num_iterations=1),
        CenteredClipping(start="origin", num_byzantine=4),
        CenteredClipping(start="median"),
        CenteredClipping(start="median", radius=2.0),
    ],
    ids=repr,
)
def test_rules_that_look_for_a_centre_keep_the_contract(rule: Aggregator) -> None:
    check_contract(rule)


@pytest.mark.parametrize("rule", [Rfa(), MedianOfMeans(num_byzantine=1), CenteredClipping(), GeometricMedian()])
@pytest.mark.parametrize("rows", [torch.zeros((4, 3)), torch.full((4, 3), 5.0), torch.eye(4)[:3], torch.ones((4, 1))])
def test_rows_that_agree_or_are_zero_are_no_obstacle(rule: Aggregator, rows: torch.Tensor) -> None:
    found = rule(rows)
    assert bool(found.update.isfinite().all())
    assert float(found.weights.sum()) == pytest.approx(1.0)
    if bool((rows == rows[0]).all()):
        np.testing.assert_allclose(found.update, rows[0], rtol=1e-6)


def test_factors_shrink_longer_rows_to_the_radius_and_leave_the_others() -> None:
    norms = np.array([0.0, 1.0, 2.0, 8.0])
    assert clip_factors(norms, 2.0).tolist() == [1.0, 1.0, 1.0, 0.25]
    assert clip_factors(norms, 0.0).tolist() == [1.0, 0.0, 0.0, 0.0], "nothing is left to shrink of a row of zeros"
