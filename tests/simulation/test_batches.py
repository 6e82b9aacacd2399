"""Mini-batches: uniform subsets, reproducible, independent of the grouping."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from steadfed._core.rng import stream, stream_keys, stream_words
from steadfed.simulation import _batches as module
from steadfed.simulation._batches import batches
from steadfed.theory.paper import variance_without_replacement

Indices = NDArray[np.int64]


def floyd(seed: int, number: int, client: int, size: int, steps: int, batch_size: int) -> list[list[int]]:
    """Return the batches of one client by the literal algorithm."""
    keys = stream_keys(seed, "batches", number, ids=np.array([client]))
    words = iter((stream_words(keys, steps * batch_size)[0] >> np.uint64(32)).tolist())
    drawn = []
    for _ in range(steps):
        taken: list[int] = []
        for j in range(size - batch_size, size):
            t = (next(words) * (j + 1)) >> 32
            taken.append(j if t in taken else t)
        drawn.append(taken)
    return drawn


@pytest.mark.parametrize(("size", "batch_size"), [(1, 1), (5, 2), (5, 5), (40, 32), (32, 32), (600, 32), (9, 8)])
def test_the_batches_are_those_of_the_literal_algorithm(size: int, batch_size: int) -> None:
    clients = np.array([3, 0, 11])
    sizes = np.array([size, size + 4, size])
    drawn = batches(7, 2, clients, sizes, steps=6, batch_size=batch_size)
    for own, client, number in zip(drawn, clients, sizes, strict=True):
        assert own.tolist() == floyd(7, 2, int(client), int(number), 6, batch_size)


@pytest.mark.parametrize(("size", "batch_size"), [(5, 2), (5, 4), (4, 4), (6, 3)])
def test_every_subset_is_equally_frequent(size: int, batch_size: int) -> None:
    number = 4000
    drawn = np.sort(batches(1, 0, np.arange(number), np.full(number, size), steps=5, batch_size=batch_size), axis=2)
    subsets = list(combinations(range(size), batch_size))
    counts = dict.fromkeys(subsets, 0)
    for subset in drawn.reshape(-1, batch_size).tolist():
        counts[tuple(subset)] += 1  # a KeyError if a point is there twice
    expected = 5 * number / len(subsets)
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    freedom = len(subsets) - 1
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom) + 1e-9


def test_a_batch_depends_on_its_client_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, sizes = np.arange(20), np.arange(30, 50)
    together = batches(1, 4, clients, sizes, steps=3, batch_size=8)
    alone = [batches(1, 4, clients[i : i + 1], sizes[i : i + 1], steps=3, batch_size=8)[0] for i in range(20)]
    assert np.array_equal(together, np.stack(alone))
    assert np.array_equal(together[::-1], batches(1, 4, clients[::-1], sizes[::-1], steps=3, batch_size=8))
    monkeypatch.setattr(module, "_TABLE", 400)
    assert np.array_equal(together, batches(1, 4, clients, sizes, steps=3, batch_size=8))


def test_steps_rounds_clients_and_seeds_draw_differently() -> None:
    def draw(seed: int, number: int) -> Indices:
        return batches(seed, number, np.arange(2), np.full(2, 1000), steps=2, batch_size=16)

    seen = {tuple(batch) for drawn in (draw(0, 0), draw(0, 1), draw(1, 0)) for batch in drawn.reshape(-1, 16).tolist()}
    assert len(seen) == 12


def test_batches_have_the_finer_variance_which_is_largest_for_the_client_with_most_points() -> None:
    sizes, rounds, size = np.array([4, 6, 12]), 3000, 4
    points = [stream(0, "points", client).standard_normal((number, 2)) for client, number in enumerate(sizes)]
    spreads = [float(np.square(each - each.mean(0)).sum(1).mean()) for each in points]
    points = [each / np.sqrt(spread) for each, spread in zip(points, spreads, strict=True)]  # σ² = 1 for everybody
    drawn = [batches(0, number, np.arange(3), sizes, steps=2, batch_size=size) for number in range(rounds)]
    found = []
    for client, each in enumerate(points):
        means = np.array([each[chosen[client]].mean(axis=1) for chosen in drawn]) - each.mean(axis=0)
        found.append(float(np.square(means).sum(axis=2).mean()))
        stated = variance_without_replacement(gradient_variance=1.0, batch_size=size, num_points=len(each))
        assert found[-1] == pytest.approx(stated, rel=0.1, abs=1e-12)
        # E[g | past] = ∇F_r: the second batch knows nothing of the first
        assert abs(float((means[:, 0] * means[:, 1]).sum(axis=1).mean())) <= 5.0 * stated / np.sqrt(rounds) + 1e-12
    assert found == sorted(found)


def test_no_clients_have_no_batches() -> None:
    none = np.empty(0, dtype=np.int64)
    assert batches(0, 0, none, none, steps=3, batch_size=8).shape == (0, 3, 8)
