"""Bounded gradients and rates in T: measured runs below the bounds, and cases in which they are attained."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from steadfed._core.rng import stream
from steadfed.aggregators import Rage
from steadfed.aggregators._rage.constants import filter_constant
from steadfed.errors import ParameterError
from steadfed.theory import paper, sharp
from steadfed.theory.remarks import (
    bounded_gradient_deviation,
    bounded_gradient_dissimilarity,
    bounded_gradient_drift,
    bounded_gradient_lr,
    distance_bound_in_steps,
    gradient_bound_in_steps,
)

Array = NDArray[np.float64]
CLIENTS, BYZANTINE, DIM = 12, 2, 5
HEIGHTS = np.linspace(0.5, 2.0, DIM)
"""∇F = c sin x: L = 2, and gradients are bounded."""
PULL = filter_constant("auto", BYZANTINE / CLIENTS, num_rows=CLIENTS) ** 2 * BYZANTINE / CLIENTS
"""C²ε̃."""


def shifts(apart: float) -> Array:
    """Return ∇F_r − ∇F of every client: they add up to 0, and the longest is κ long."""
    rows = stream(0, "shifts").standard_normal((CLIENTS, DIM))
    rows -= rows.mean(axis=0)
    return np.asarray(apart * rows / np.linalg.norm(rows, axis=1).max())


def local_steps(x: Array, apart: Array, noise: float, steps: int, lr: float, rng: np.random.Generator) -> Array:
    """Return x_r^0, …, x_r^H of all clients, noise of heavy tails and total variance σ_b²."""
    models = [np.tile(x, (CLIENTS, 1))]
    for _ in range(steps):
        drawn = math.sqrt(noise / (3.0 * DIM)) * rng.standard_t(3, size=(CLIENTS, DIM))
        models.append(models[-1] - lr * (HEIGHTS * np.sin(models[-1]) + apart + drawn))
    return np.array(models)


def reference(x: Array, steps: int, lr: float) -> Array:
    """Return z^0, …, z^H."""
    models = [x]
    for _ in range(steps):
        models.append(models[-1] - lr * HEIGHTS * np.sin(models[-1]))
    return np.array(models)


def mean_square_of_gradients(apart: float, noise: float, steps: int, rounds: int, attack: float, seed: int) -> float:
    """Return (1/T) Σ_k Σ_t ‖∇F(z_k^t)‖² of a run with RAGE, where Byzantine rows push `attack` spreads uphill."""
    x, lr, rng, total = np.full(DIM, 2.8), bounded_gradient_lr(smoothness=2.0), stream(seed, "run"), 0.0
    for _ in range(rounds):
        path = reference(x, steps, lr)
        total += float(np.square(HEIGHTS * np.sin(path[:-1])).sum())
        models = local_steps(x, shifts(apart), noise, steps, lr, rng)
        rows = (models[0] - models[-1]) / lr
        rows[:BYZANTINE] = rows[BYZANTINE:].mean(axis=0) - attack * rows[BYZANTINE:].std(axis=0)
        x = x - lr * Rage(num_byzantine=BYZANTINE)(torch.from_numpy(rows)).update.numpy()
    return total / (rounds * steps)


@pytest.mark.parametrize("attack", [0.0, 1.5, 30.0])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_the_mean_gradient_falls_like_one_over_t_at_a_step_size_without_h(steps: int, attack: float) -> None:
    apart, noise, lr = 0.02, 1e-4, bounded_gradient_lr(smoothness=2.0)
    error = math.sqrt(1.0 + PULL) * sharp.client_deviation(
        local_steps=steps, lr=lr, smoothness=2.0, dissimilarity=apart**2, noise=noise
    )
    gap = float((HEIGHTS * (1.0 - math.cos(2.8))).sum())
    for rounds in (3, 12, 40):
        found = [mean_square_of_gradients(apart, noise, steps, rounds, attack, seed) for seed in range(2)]
        bound = gradient_bound_in_steps(
            gap=gap, error=error, smoothness=2.0, local_steps=steps, total_steps=rounds * steps
        )
        assert np.mean(found) <= bound
        assert bound <= 60.0 * np.mean(found)
    assert bound < 0.3 * float(np.square(HEIGHTS).sum()), "below G²"


def test_the_bound_of_the_mean_gradient_is_attained() -> None:
    # F = Lx²/2 and η = 1/L: the reference is at the minimum after one step, and the error of a round is all there is
    smoothness, error, start = 2.0, 0.3, 5.0
    for steps, rounds in itertools.product((1, 2, 7), (1, 4, 50)):
        squares, x = 0.0, start
        for _ in range(rounds):
            squares += (smoothness * x) ** 2
            x = -error / smoothness
        bound = gradient_bound_in_steps(
            gap=0.5 * smoothness * start**2,
            error=error,
            smoothness=smoothness,
            local_steps=steps,
            total_steps=steps * rounds,
            lr=1.0 / smoothness,
        )
        total = steps * rounds
        assert squares / total == pytest.approx(bound - error**2 / total, rel=1e-12)


def test_the_distance_bound_is_that_of_the_sharp_theorem_at_its_step_size() -> None:
    curved: dict[str, Any] = {"smoothness": 3.0, "strong_convexity": 0.3, "local_steps": 6, "error": 0.7}
    bound = distance_bound_in_steps(distance=4.0, total_steps=30, **curved)
    assert bound == pytest.approx(float(sharp.distance_bound(5, distance=4.0, lr=1.0 / 6.0, **curved)))
    assert distance_bound_in_steps(distance=4.0, total_steps=30, lr=0.01, **curved) > bound
    certain = curved | {"error": 0.0}
    decay = [distance_bound_in_steps(distance=4.0, total_steps=number, **certain) for number in (0, 6, 12)]
    assert decay == pytest.approx([4.0 * (1.0 - 0.3 / 6.0) ** (2 * number) for number in (0, 6, 12)])


def test_strongly_convex_runs_stay_below_the_distance_bound_at_any_number_of_local_steps() -> None:
    curvatures, apart, smoothness = np.linspace(0.5, 2.0, DIM), shifts(0.3), 2.0
    lr = bounded_gradient_lr(smoothness=smoothness)
    for steps in (1, 5, 40):
        error = math.sqrt(1.0 + PULL) * sharp.client_deviation(
            local_steps=steps, lr=lr, smoothness=smoothness, strong_convexity=0.5, dissimilarity=0.09, noise=0.0
        )
        x = np.full(DIM, 3.0)
        start = float(x @ x)
        for number in range(1, 8):
            models = np.tile(x, (CLIENTS, 1))
            for _ in range(steps):
                models = models - lr * (curvatures * models + apart)
            rows = (x - models) / lr
            rows[:BYZANTINE] = rows[BYZANTINE:].mean(axis=0) + 2.0 * rows[BYZANTINE:].std(axis=0)
            x = x - lr * Rage(num_byzantine=BYZANTINE)(torch.from_numpy(rows)).update.numpy()
            bound = distance_bound_in_steps(
                distance=start,
                error=error,
                smoothness=smoothness,
                strong_convexity=0.5,
                local_steps=steps,
                total_steps=number * steps,
            )
            assert float(x @ x) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
@pytest.mark.parametrize("lr", [0.01, 0.25, 3.0])
def test_drift_and_deviation_stay_below_their_bounds_for_every_step_size(steps: int, lr: float) -> None:
    apart, noise = shifts(0.5), 0.4
    norm = float(np.linalg.norm(HEIGHTS)) + 0.5
    drifts, squares, means = [], [], []
    for seed in range(60):
        models = local_steps(np.ones(DIM), apart, noise, steps, lr, stream(seed, "drift"))
        gaps = models[:-1, :, None] - models[:-1, None]
        drifts.append(np.square(gaps).sum(axis=3).sum(axis=0))
        rows = (models[0] - models[-1]) / lr
        path = reference(np.ones(DIM), steps, lr)
        centre = (path[0] - path[-1]) / lr
        squares.append(np.square(rows - centre).sum(axis=1))
        means.append(float(np.square(rows.mean(axis=0) - centre).sum()))
    given: dict[str, Any] = {"noise": noise, "gradient_norm": norm, "local_steps": steps}
    assert np.mean(drifts, axis=0).max() <= bounded_gradient_drift(**given, lr=lr)
    assert np.mean(squares, axis=0).max() <= bounded_gradient_deviation(**given) ** 2
    assert np.mean(means) <= bounded_gradient_deviation(**given, num_honest=CLIENTS) ** 2


def test_clients_that_pull_apart_have_half_of_the_drift_allowed() -> None:
    # F_1 = Gx, F_2 = −Gx without noise: x_1^t − x_2^t = 2Gtη
    for steps in (1, 2, 9):
        drift = sum((2.0 * 3.0 * t * 0.1) ** 2 for t in range(steps))
        assert bounded_gradient_drift(noise=0.0, gradient_norm=3.0, local_steps=steps, lr=0.1) == pytest.approx(
            2.0 * drift
        )


def test_noise_alone_has_half_of_the_drift_allowed() -> None:
    # independent noise of variance σ² at each of two clients: E‖x_1^t − x_2^t‖² = 2tη²σ²
    for steps in (1, 2, 9):
        drift = sum(2.0 * t * 0.01 * 5.0 for t in range(steps))
        assert bounded_gradient_drift(noise=5.0, gradient_norm=0.0, local_steps=steps, lr=0.1) == pytest.approx(
            2.0 * drift
        )


def test_where_the_papers_lemma_holds_bounded_gradients_alone_say_less_or_as_much() -> None:
    # Lemma 2 of the paper with κ = 2G at η = 1/(8HL), against the drift that G gives at the same step size
    for steps in (2, 5, 50):
        lr = paper.minibatch_lr(smoothness=1.0, local_steps=steps)
        apart = bounded_gradient_dissimilarity(gradient_norm=1.0)
        stated = paper.drift(noise=0.0, dissimilarity=apart, smoothness=1.0, local_steps=steps, lr=lr)
        assert bounded_gradient_drift(noise=0.0, gradient_norm=1.0, local_steps=steps, lr=lr) <= stated


def test_with_nothing_but_bounded_gradients_the_floor_is_above_everything_there_is() -> None:
    for norm, steps, strength in itertools.product((0.1, 5.0), (1, 10), (0.1, 1.0)):
        error = bounded_gradient_deviation(noise=0.0, gradient_norm=norm, local_steps=steps)
        gradients = gradient_bound_in_steps(
            gap=0.0, error=error, smoothness=1.0, local_steps=steps, total_steps=10 * steps
        )
        assert gradients >= 4.0 * steps * norm**2 * (1 - 1e-12)
        known = sharp.client_deviation(
            local_steps=steps,
            lr=0.5,
            smoothness=1.0,
            strong_convexity=strength,
            dissimilarity=bounded_gradient_dissimilarity(gradient_norm=norm),
            noise=0.0,
        )
        far = (norm / strength) ** 2
        bound = distance_bound_in_steps(
            distance=far,
            error=known,
            smoothness=1.0,
            strong_convexity=strength,
            local_steps=steps,
            total_steps=10**6 * steps,
        )
        assert bound == pytest.approx(4.0 * far)


def test_without_steps_nothing_is_known_of_the_gradients() -> None:
    given: dict[str, Any] = {"gap": 1.0, "error": 0.0, "smoothness": 1.0, "local_steps": 3}
    assert gradient_bound_in_steps(**given, total_steps=0) == math.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 1.1}, "lr must be above 0 and at most 1/L = 1, got 1.1"),
        ({"total_steps": 7}, "total_steps must be a multiple of local_steps = 3, got 7"),
        ({"gap": -1.0}, "gap must be a finite number of at least 0, got -1.0"),
        ({"error": math.nan}, "error must be a finite number of at least 0, got nan"),
        ({"smoothness": 0.0}, "smoothness must be a finite number above 0, got 0.0"),
    ],
)
def test_numbers_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"gap": 1.0, "error": 0.0, "smoothness": 1.0, "local_steps": 3, "total_steps": 6}
    with pytest.raises(ParameterError, match=message):
        gradient_bound_in_steps(**(given | change))


def test_numbers_of_the_lemmas_are_checked() -> None:
    for function in (bounded_gradient_drift, bounded_gradient_deviation):
        given: dict[str, Any] = {"noise": 1.0, "gradient_norm": 1.0, "local_steps": 2}
        given |= {"lr": 0.1} if function is bounded_gradient_drift else {}
        for name in given:
            with pytest.raises(ParameterError, match=f"{name} must be"):
                function(**(given | {name: -1}))
    with pytest.raises(ParameterError, match="gradient_norm must be"):
        bounded_gradient_dissimilarity(gradient_norm=-1.0)
    with pytest.raises(ParameterError, match="num_honest must be"):
        bounded_gradient_deviation(noise=1.0, gradient_norm=1.0, local_steps=2, num_honest=0)
