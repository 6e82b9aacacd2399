"""DnC against singular vectors of the sampled coordinates, and on small cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.oracles import selection as slow
from tests.oracles.clouds import CLOUDS
from tests.oracles.saddle import Array

from steadfed._core.rng import stream
from steadfed.aggregators import ServerView, Stop
from steadfed.aggregators._selection.dnc import Dnc
from steadfed.aggregators._wrappers.nnm import NearestNeighborMixing
from steadfed.errors import CohortTooSmallError
from steadfed.testing.contract import check_contract

SEEDS = 6
TIED = {"duplicates", "near duplicates", "mirror images", "grid", "on a line"}
"""Clouds in which scores tie or nearly do, so that rounding decides who is removed."""


def cohort(name: str, seed: int, width: int = 40) -> tuple[Array, int]:
    """Return rows, the first f of them bad, and f."""
    rng = stream(seed, "dnc", name)
    number = int(rng.integers(3, 25))
    bad = int(rng.integers(0, (number - 1) // 2 + 1))
    return CLOUDS[name](rng, number, bad, width), bad


def drawn(rule: Dnc, width: int, round_number: int = 0) -> list[list[int]]:
    """Return the coordinates of every iteration."""
    return [
        sorted(
            stream(rule.seed, "dnc", round_number, iteration)
            .choice(width, min(rule.subsample, width), replace=False)
            .tolist()
        )
        for iteration in range(rule.num_iterations)
    ]


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize(("subsample", "num_iterations", "removed_share"), [(10_000, 1, 1.0), (8, 5, 1.0), (5, 3, 2.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dnc_is_the_literal_rule(
    name: str, subsample: int, num_iterations: int, removed_share: float, dtype: type[np.floating]
) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        sent = rows.astype(dtype)
        rule = Dnc(
            num_byzantine=bad,
            subsample=subsample,
            num_iterations=num_iterations,
            removed_share=removed_share,
            seed=seed,
        )
        if removed_share * bad >= len(rows):
            continue
        found = rule(sent)
        update, chosen = slow.dnc(sent.astype(np.float64), bad, removed_share, drawn(rule, 40))
        assert found.kept.sum() >= 1
        if name not in TIED:
            assert found.kept.nonzero().flatten().tolist() == chosen
            room = 1e-5 if dtype is np.float32 else 1e-12
            np.testing.assert_allclose(found.update, update, rtol=0.0, atol=room * float(np.abs(rows).max()))


@pytest.mark.parametrize("name", CLOUDS)
def test_scores_are_shares_of_the_squared_projections(name: str) -> None:
    for seed in range(SEEDS):
        rows, bad = cohort(name, seed)
        rule = Dnc(num_byzantine=bad, subsample=7, num_iterations=1)
        scores = np.array(slow.dnc_scores(rows, drawn(rule, 40)[0]))
        np.testing.assert_allclose(rule(rows).scores, scores / (scores.sum() or 1.0), rtol=0.0, atol=1e-6)


def test_dnc_keeps_who_survives_every_iteration() -> None:
    """Rows 0 and 1 stand out in one coordinate each."""
    rows = torch.tensor([[0.0, 10.0], [10.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    rule = Dnc(num_byzantine=1, subsample=1, num_iterations=20)
    assert {tuple(each) for each in drawn(rule, 2)} == {(0,), (1,)}
    found = rule(rows)
    assert found.removed == [0, 1]
    assert found.update.tolist() == [1.0, 1.0]
    assert found.stop is Stop.SUBSET


def test_the_number_of_removed_rows_is_rounded_up() -> None:
    rows = stream(0, "rounded").standard_normal((30, 5))

    def removed(share: float, f: int) -> int:
        return len(Dnc(num_byzantine=f, removed_share=share, num_iterations=1)(rows).removed)

    assert removed(0.5, 1) == 1
    assert removed(1.5, 3) == 5
    assert removed(0.1, 10) == 1  # 0.1 · 10 lies a little above 1 in binary
    assert removed(1.0, 0) == 0
    assert removed(50.0, 3) == 29


def test_without_survivors_the_smallest_shares_are_averaged() -> None:
    rows = 3.0 * torch.eye(3)
    rule = Dnc(num_byzantine=1, subsample=1, num_iterations=30)
    times = [sum(each == [k] for each in drawn(rule, 3)) for k in range(3)]
    assert min(times) > 0
    found = rule(rows)
    np.testing.assert_allclose(found.scores, [(4.0 * k + sum(times) - k) / 6.0 / 30.0 for k in times], rtol=1e-6)
    assert found.kept.sum() == 2
    assert [times[i] for i in found.removed] == [max(times)]


def test_coordinates_are_drawn_anew_in_every_round() -> None:
    rows = stream(0, "rounds").standard_normal((12, 40))
    rule = Dnc(num_byzantine=3, subsample=4, num_iterations=1)
    kept = [tuple(rule(rows, ServerView(round=k)).kept.tolist()) for k in range(8)]
    assert len(set(kept)) > 1
    assert kept[3] == tuple(bool(i in slow.dnc(rows, 3, 1.0, drawn(rule, 40, 3))[1]) for i in range(12))


def test_a_nan_outside_the_sample_makes_a_row_unusable() -> None:
    rows = stream(0, "outside").standard_normal((9, 3_000))
    rule = Dnc(num_byzantine=2, subsample=10)
    hidden = next(k for k in range(3_000) if all(k not in each for each in drawn(rule, 3_000)))
    rows[4, hidden] = np.nan
    found = rule(rows)
    assert found.usable.tolist() == [i != 4 for i in range(9)]
    assert bool(found.update.isfinite().all())


def test_dnc_works_on_mixtures() -> None:
    rows = stream(0, "mixed").standard_normal((9, 60))
    rows[:2] += 5.0
    rows[8] = np.nan
    found = NearestNeighborMixing(rule=Dnc(num_byzantine=3, subsample=20))(rows)
    assert bool(found.update.isfinite().all())
    assert float(found.weights[:2].sum()) < 0.1
    assert found.removed[-1] == 8


def test_dnc_needs_an_honest_majority() -> None:
    with pytest.raises(CohortTooSmallError):
        Dnc(num_byzantine=2)(torch.zeros((4, 2)))


@pytest.mark.parametrize("rows", [torch.zeros((5, 3)), torch.full((5, 3), 7.0)])
def test_equal_rows_give_that_row(rows: torch.Tensor) -> None:
    np.testing.assert_allclose(Dnc(num_byzantine=2)(rows).update, rows[0], rtol=1e-6)


@pytest.mark.parametrize(
    "rule",
    [
        Dnc(num_byzantine=3),
        Dnc(byzantine_fraction=0.2, subsample=7),
        Dnc(num_byzantine=3, subsample=3, num_iterations=12, removed_share=1.5, seed=4),
        Dnc(num_byzantine=0),
    ],
    ids=repr,
)
def test_dnc_keeps_the_contract(rule: Dnc) -> None:
    check_contract(rule)
