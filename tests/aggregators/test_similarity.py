"""Rules that compare directions, against slow code and by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.oracles import similarity
from tests.oracles.clouds import CLOUDS
from tests.oracles.coordinatewise import Array
from tests.oracles.selection import norm

from steadfed._core.rng import stream
from steadfed._linalg.columns import DenseColumns
from steadfed._linalg.mixtures import ScaledColumns
from steadfed._linalg.norms import row_norms
from steadfed.aggregators import Aggregator, Claim, ServerView, Stop
from steadfed.aggregators._similarity.directions import cosine_distances
from steadfed.aggregators._similarity.flame import Flame, smallest_majority
from steadfed.aggregators._similarity.fltrust import FlTrust
from steadfed.aggregators._similarity.foolsgold import FoolsGold
from steadfed.aggregators._similarity.sign_guard import SignGuard
from steadfed.errors import MissingKnowledgeError, ShapeError
from steadfed.testing.contract import check_contract

SEEDS = 8
DTYPES = (torch.float64, torch.float32)


def cohort(name: str, seed: int, dtype: torch.dtype, smallest_dim: int = 1) -> tuple[torch.Tensor, Array]:
    """Return rows of the dtype, and the same numbers as float64 for slow code."""
    rng = stream(seed, "similarity", name)
    number = int(rng.integers(1, 25))
    rows = CLOUDS[name](rng, number, int(rng.integers(0, (number - 1) // 2 + 1)), int(rng.integers(smallest_dim, 30)))
    updates = torch.from_numpy(rows).to(dtype)
    return updates, updates.double().numpy()


def precision(dtype: torch.dtype) -> float:
    return 1e-9 if dtype == torch.float64 else 1e-4


def agree(found: torch.Tensor, expected: Array | list[float], size: float = 1.0, *, within: float = 1e-9) -> None:
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=0.0, atol=within * max(size, 1e-300))


def on_a_line(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def at_angles(*degrees: float) -> torch.Tensor:
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([angles.cos(), angles.sin()], dim=1)


# ------------------------------------------------------------------ contract

VARIANTS: dict[str, Aggregator] = {
    "fltrust": FlTrust(),
    "fltrust f=3": FlTrust(num_byzantine=3),
    "foolsgold": FoolsGold(),
    "foolsgold 20%": FoolsGold(byzantine_fraction=0.2),
    "foolsgold f=3": FoolsGold(num_byzantine=3, confidence=0.5),
    "signguard": SignGuard(),
    "signguard f=3": SignGuard(num_byzantine=3, share=1.0, lower=0.5, upper=1.5, seed=7),
    "flame": Flame(),
    "flame f=3": Flame(num_byzantine=3),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_rule_keeps_the_contract(variant: str) -> None:
    check_contract(VARIANTS[variant])


@pytest.mark.parametrize("rule", [FlTrust(), FoolsGold()], ids=str)
def test_rule_that_assumes_one_honest_row_stands_all_other_rows_unusable(rule: Aggregator) -> None:
    rows = torch.full((5, 3), math.nan)
    rows[2] = torch.tensor([1.0, 2.0, 3.0])
    found = rule(rows, ServerView(trusted_row=torch.tensor([1.0, 2.0, 3.0])))
    assert not found.assumption_violated
    assert found.weights.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    agree(found.update, [1.0, 2.0, 3.0], within=1e-6)


# ---------------------------------------------------------------- directions


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_cosine_distances_are_those_of_the_rows(name: str, dtype: torch.dtype) -> None:
    for seed in range(SEEDS):
        updates, rows = cohort(name, seed, dtype)
        columns = DenseColumns(updates)
        found = cosine_distances(columns, *row_norms(columns))
        expected = np.array([[1.0 - similarity.cosine(a, b) for b in rows] for a in rows])
        np.fill_diagonal(expected, 0.0)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=100.0 * torch.finfo(dtype).eps)


def test_directions_that_nearly_agree_keep_their_digits() -> None:
    """Angles of a thousandth between rows a million times as long as one of them."""
    rng = stream(0, "nearly")
    rows = np.ones(50) + 1e-3 * rng.standard_normal((9, 50))
    rows[4] *= 1e-6
    columns = DenseColumns(torch.from_numpy(rows.astype(np.float32)))
    units = columns.tensor.double().numpy()
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    expected = ((units[:, None] - units) ** 2).sum(axis=2) / 2.0
    np.testing.assert_allclose(cosine_distances(columns, *row_norms(columns)), expected, rtol=2e-3)


def test_norms_of_tiny_rows_do_not_underflow() -> None:
    rows = torch.tensor([[3e-30, 4e-30], [0.0, 0.0], [3.0, 4.0], [math.nan, 0.0], [1e-42, 0.0]])
    norms, usable = row_norms(DenseColumns(rows))
    assert usable.tolist() == [True, True, True, False, True]
    np.testing.assert_allclose(norms, [5e-30, 0.0, 5.0, 0.0], rtol=1e-6)


def test_scaled_columns_are_the_scaled_rows() -> None:
    rows = torch.from_numpy(stream(0, "scaled").standard_normal((4, 7)))
    chosen, factors = np.array([True, False, True, True]), np.array([2.0, -1.0, 0.0])
    columns = ScaledColumns(DenseColumns(rows), chosen, factors)
    expected = rows[[0, 2, 3]] * torch.from_numpy(factors)[:, None]
    block = torch.empty((3, 4), dtype=torch.float64)
    columns.centred(2, 6, rows[1], block)
    torch.testing.assert_close(block, (expected - rows[1])[:, 2:6])
    torch.testing.assert_close(columns.row(1), expected[1])
    torch.testing.assert_close(
        columns.combine(np.array([1.0, 2.0, 3.0])), expected.T @ torch.tensor([1.0, 2, 3]).double()
    )


# ------------------------------------------------------------------- FLTrust


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_fltrust_is_the_sum_of_equations_2_to_4(name: str, dtype: torch.dtype) -> None:
    for seed in range(SEEDS):
        updates, rows = cohort(name, seed, dtype)
        trusted = torch.from_numpy(np.median(rows, axis=0) + 0.1).to(dtype)
        update, trust = similarity.fltrust(rows, trusted.double().numpy())
        found = FlTrust()(updates, ServerView(trusted_row=trusted))
        agree(found.update, update, float(trusted.abs().max()), within=precision(dtype))
        agree(found.weights, np.array(trust) / (sum(trust) or 1.0), within=precision(dtype))


def test_fltrust_by_hand() -> None:
    rows = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [0.0, 0.0], [math.nan, 1.0]])
    found = FlTrust()(rows, ServerView(trusted_row=torch.tensor([1.0, 1.0])))
    agree(found.weights, [0.5, 0.5, 0.0, 0.0, 0.0], within=1e-7)
    agree(found.update, [math.sqrt(0.5), math.sqrt(0.5)], within=1e-6)
    half = 1.0 - math.sqrt(0.5)
    np.testing.assert_allclose(found.scores, [half, half, 2.0 - half, 1.0, math.inf], atol=1e-7)
    assert found.stop is Stop.SUBSET


@pytest.mark.parametrize(("rows", "trusted"), [((-1.0, 0.0), (2.0,)), ((1.0, 2.0), (0.0,))])
def test_fltrust_trusts_itself_if_nobody_else(rows: tuple[float, ...], trusted: tuple[float, ...]) -> None:
    row = torch.tensor(trusted, dtype=torch.float64)
    found = FlTrust()(on_a_line(*rows), ServerView(trusted_row=row))
    assert found.stop is Stop.NOBODY_TRUSTED
    assert found.weights.tolist() == [0.0, 0.0]
    assert torch.equal(found.update, row)
    assert found.update.data_ptr() != row.data_ptr()


def test_fltrust_scales_up_what_is_tiny_and_not_what_is_nothing() -> None:
    view = ServerView(trusted_row=torch.tensor([3.0, 4.0]))
    assert FlTrust()(torch.tensor([[3e-25, 4e-25]]), view).update.tolist() == pytest.approx([3.0, 4.0], rel=1e-6)
    assert FlTrust()(torch.tensor([[3e-41, 4e-41]]), view).stop is Stop.NOBODY_TRUSTED


def test_no_row_takes_fltrust_against_the_trusted_row_or_beyond_its_length() -> None:
    rng = stream(0, "fltrust bound")
    trusted = rng.standard_normal(6)
    rows = 1e8 * rng.standard_normal((15, 6))
    update = FlTrust()(rows, ServerView(trusted_row=torch.from_numpy(trusted))).update.numpy()
    assert float(update @ trusted) > 0.0
    assert np.linalg.norm(update) <= np.linalg.norm(trusted) * (1.0 + 1e-12)


def test_fltrust_says_what_it_misses() -> None:
    with pytest.raises(MissingKnowledgeError, match="trusted_row"):
        FlTrust()(on_a_line(1.0, 2.0))
    with pytest.raises(ShapeError, match="squared norm overflows"):
        FlTrust()(torch.ones(2, 1), ServerView(trusted_row=torch.tensor([1e30])))


# ----------------------------------------------------------------- FoolsGold


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_foolsgold_is_algorithm_1_over_rounds_with_changing_clients(name: str, dtype: torch.dtype) -> None:
    for seed in range(SEEDS):
        rng = stream(seed, "clients", name)
        history: dict[str, Array] = {}
        updates, _ = cohort(name, seed, dtype, smallest_dim=2)
        view = ServerView()
        for number_of_round in range(3):
            updates = updates.roll(1, 1)
            rows = updates.double().numpy()
            clients = [f"client {k}" for k in rng.choice(40, len(rows), replace=False)]
            for client, row in zip(clients, rows, strict=True):
                history[client] = history.get(client, np.zeros(rows.shape[1])) + row
            view = replace(view, round=number_of_round, clients=clients)
            found = FoolsGold()(updates, view)
            view = replace(view, memory=found.memory)
            _agree_if_decided(found.update, found.weights, rows, np.array([history[k] for k in clients]), dtype)
        assert set(view.memory) == set(history)
        for client, row in history.items():
            agree(view.memory[client], row, float(np.abs(row).max()), within=precision(dtype))


def _agree_if_decided(
    update: torch.Tensor, weights: torch.Tensor, rows: Array, sums: Array, dtype: torch.dtype
) -> None:
    """Compare unless all dissimilarities are rounding errors, of which the largest would be divided by itself."""
    cosines = np.array([[similarity.cosine(a, b) for b in sums] for a in sums]) - 2.0 * np.eye(len(sums))
    if len(sums) > 1 and (1.0 - cosines.max(axis=1)).max() < 1e-3:
        return
    expected, shares = similarity.foolsgold(rows, sums, 1.0)
    agree(weights, shares, within=precision(dtype))
    agree(update, expected, float(np.abs(rows).max()), within=precision(dtype))


def test_foolsgold_by_hand() -> None:
    """Cosines 3/5 and 0: α = 2/5, 2/5, 1, so ln(2/3) + 1/2 of the third's weight."""
    rows = torch.tensor([[5.0, 0.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    found = FoolsGold()(rows)
    low = math.log(2.0 / 3.0) + 0.5
    agree(found.weights, np.array([low, low, 1.0]) / (2.0 * low + 1.0))
    agree(found.scores, [0.6, 0.6, 0.0])
    low = 3.0 * low
    agree(FoolsGold(confidence=3.0)(rows).weights, np.array([low, low, 1.0]) / (2.0 * low + 1.0))


def test_foolsgold_pardons_whoever_resembles_a_sybil_a_little() -> None:
    """v = 1, 1, 1/2: the third's similarity becomes 1/4, α = 0, 0, 3/4."""
    found = FoolsGold()(at_angles(0.0, 0.0, 60.0))
    agree(found.scores, [1.0, 1.0, 0.25])
    assert found.weights.tolist() == [0.0, 0.0, 1.0]
    assert found.stop is Stop.SUBSET


def test_sybils_that_vary_their_rows_are_seen_in_their_sums() -> None:
    rng = stream(0, "sybils")
    honest = np.eye(4, 12)
    target = np.full(12, 0.3)
    view = ServerView()
    for number_of_round in range(8):
        noise = rng.standard_normal((3, 12)) * (-1.0) ** number_of_round
        view = replace(view, round=number_of_round, clients=list(range(7)))
        rows = np.concatenate([honest + 0.1 * rng.standard_normal((4, 12)), target + noise - noise.mean(axis=0)])
        found = FoolsGold()(rows, view)
        view = replace(view, memory=found.memory)
    sums = np.stack([view.memory[str(k)].numpy() for k in range(7)])
    _, shares = similarity.foolsgold(rows, sums, 1.0)
    agree(found.weights, shares)


@pytest.mark.parametrize("rows", [at_angles(30.0, 30.0, 30.0), at_angles(0.0, 0.0, 90.0, 90.0), on_a_line(7.0)])
def test_foolsgold_weighs_everybody_alike_if_everybody_has_a_twin(rows: torch.Tensor) -> None:
    found = FoolsGold()(rows)
    agree(found.weights, [1.0 / len(rows)] * len(rows))
    assert found.stop is Stop.COMBINED


def test_foolsgold_weighs_silent_clients_alike() -> None:
    found = FoolsGold()(torch.zeros(3, 2))
    agree(found.weights, [1.0 / 3.0] * 3)
    assert found.update.tolist() == [0.0, 0.0]


def test_foolsgold_forgets_no_absent_client_and_counts_no_unusable_row() -> None:
    before = {"7": torch.tensor([1.0, 1.0]), "1": torch.tensor([5.0, 0.0])}
    rows = torch.tensor([[1.0, 0.0], [math.nan, 1.0], [0.0, 1.0]])
    found = FoolsGold()(rows, ServerView(clients=[0, 1, 7], memory=before))
    assert {name: row.tolist() for name, row in found.memory.items()} == {
        "0": [1.0, 0.0],
        "1": [5.0, 0.0],
        "7": [1.0, 2.0],
    }
    assert before["7"].tolist() == [1.0, 1.0]
    assert found.memory["0"].data_ptr() != rows.data_ptr()


def test_a_sum_too_large_to_be_squared_starts_again() -> None:
    rows = torch.tensor([[1e19, 0.0], [0.0, 1.0]])
    first = FoolsGold()(rows)
    second = FoolsGold()(rows, ServerView(memory=first.memory))
    assert second.memory["0"].tolist() == rows[0].tolist()
    assert second.memory["1"].tolist() == [0.0, 2.0]
    assert bool(second.update.isfinite().all())


# --------------------------------------------------------------------- FLAME


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CLOUDS)
def test_flame_is_algorithm_1(name: str, dtype: torch.dtype) -> None:
    compared = 0
    for seed in range(2 * SEEDS):
        updates, rows = cohort(name, seed, dtype)
        if not _is_decided(rows, 1e-12 if dtype == torch.float64 else 1e-5):
            continue
        update, admitted = similarity.flame(rows)
        found = Flame()(updates)
        assert found.kept.nonzero().flatten().tolist() == admitted
        agree(found.update, update, float(np.abs(rows).max()), within=precision(dtype))
        compared += 1
    assert compared > 0


def _is_decided(rows: Array, gap: float) -> bool:
    """Tell whether no two different distances are equal up to rounding, and at most one row is 0."""
    if sum(norm(row) == 0.0 for row in rows) > 1:
        return False
    pairs = sorted(1.0 - similarity.cosine(a, b) for a, b in itertools.combinations(rows, 2))
    steps = np.diff(pairs)
    return bool(((steps == 0.0) | (steps > gap)).all())


def test_flame_by_hand() -> None:
    rows = torch.tensor([[4.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, -3.0]])  # median norm 2
    found = Flame()(rows)
    assert found.kept.tolist() == [True, True, False, True, False]
    agree(found.update, [5.0 / 3.0, 0.0], within=1e-6)
    agree(found.scores, [0.0, 0.0, 1.0, 0.0, 1.0], within=1e-6)


def test_flame_admits_the_smallest_majority() -> None:
    assert Flame()(at_angles(0.0, 10.0, 20.0, 90.0, 180.0)).removed == [3, 4]
    assert Flame()(at_angles(0.0, 1.0, 90.0, 91.0)).removed == []  # two halves are no majority
    assert Flame()(on_a_line(7.0)).removed == []
    assert Flame()(on_a_line(7.0, -7.0)).removed == []


def test_flame_joins_equal_distances_at_once() -> None:
    """Steps of 10° from 0° to 40°: no three of the five are nearer to each other than the rest."""
    assert Flame()(at_angles(0.0, 10.0, 20.0, 30.0, 40.0)).removed == []
    assert Flame()(at_angles(0.0, 10.0, 20.0, 30.0, 40.0).float()).removed == []


def test_flame_puts_rows_of_zeros_together_and_far_from_all_others() -> None:
    rows = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    found = Flame()(rows)
    assert found.removed == [1, 3]
    assert found.update.tolist() == [0.0, 0.0]
    assert Flame()(torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.1], [1.0, 0.2]])).removed == [0]


def test_runs_of_prim_are_the_components() -> None:
    for seed in range(60):
        rng = stream(seed, "prim")
        n = int(rng.integers(1, 14))
        values = rng.integers(1, 6, (n, n)) if seed % 2 else rng.random((n, n))
        distances = np.triu(values, 1).astype(float)
        distances += distances.T
        admitted, joined_at = smallest_majority(distances, 0.0)
        threshold = float(joined_at.min())
        linked = distances <= threshold
        for _ in range(n):
            linked = (linked.astype(int) @ linked.astype(int)) > 0
        assert admitted.tolist() == linked[int(np.argmax(admitted))].tolist()
        assert 2 * int(admitted.sum()) > n
        below = distances < threshold
        np.fill_diagonal(below, val=True)
        for _ in range(n):
            below = (below.astype(int) @ below.astype(int)) > 0
        assert n == 1 or 2 * int(below.sum(axis=1).max()) <= n


def test_claims_are_those_of_the_definitions() -> None:
    assert Claim.SCALING in FlTrust().claims()
    assert Claim.HULL in FoolsGold().claims()
    assert Claim.IDEMPOTENCE in SignGuard().claims() & Flame().claims()


def test_who_copies_an_honest_client_of_foolsgold_has_it_left_out() -> None:
    honest = torch.eye(4, dtype=torch.float64) + 0.1
    view, names = ServerView(), ["victim", "b", "c", "d", "copy"]
    for number in range(5):
        view = replace(view, round=number, clients=names)
        found = FoolsGold()(torch.vstack([honest, honest[:1]]), view)
        view = replace(view, memory=found.memory)
    alone = FoolsGold()(honest, ServerView(clients=names[:4])).weights
    assert alone[0] == pytest.approx(0.25)
    assert found.weights[0] == found.weights[4] == 0.0  # framed: its memory is a weapon, as its docstring says
