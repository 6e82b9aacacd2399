"""Crafted attacks against hand-worked values, the papers' own searches, and input that leaves nothing to craft from."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.attacks.views import ONLY_OWN, drawn, view_of
from tests.oracles import attacks as oracle

from steadfed._core.rng import stream
from steadfed.aggregators import Median
from steadfed.attacks._base import Attack
from steadfed.attacks._crafted import (
    PERTURBATIONS,
    ALittleIsEnough,
    Duplicates,
    InnerProductManipulation,
    Mimic,
    MinMax,
    MinSum,
    largest_z,
)
from steadfed.attacks._view import AdversaryView, Knowledge
from steadfed.errors import MissingKnowledgeError, ParameterError

ATTACKS: dict[str, Attack] = {
    "alie": ALittleIsEnough(),
    "alie z=1.5": ALittleIsEnough(z=1.5),
    "ipm": InnerProductManipulation(),
    "mimic": Mimic(),
    "mimic 3": Mimic(warm_up=3),
    "duplicates": Duplicates(),
    **{f"min-max {name}": MinMax(direction=name) for name in ("unit", "std", "sign")},
    **{f"min-sum {name}": MinSum(direction=name) for name in ("unit", "std", "sign")},
}
SIZES = [(1, 1), (1, 4), (2, 1), (5, 3), (9, 40), (30, 7)]


@pytest.mark.parametrize(("cohort", "bad"), [(50, 24), (50, 20), (25, 11), (11, 5), (100, 40), (11, 3)])
def test_z_is_the_largest_of_the_paper(cohort: int, bad: int) -> None:
    assert largest_z(cohort, bad) == pytest.approx(oracle.largest_z(cohort, bad), abs=1e-9)
    assert largest_z(cohort, bad) > 0.0


@pytest.mark.parametrize(("cohort", "bad"), [(1, 1), (2, 1), (4, 1), (10, 1), (100, 1), (3, 3), (2, 2)])
def test_z_is_zero_where_the_formula_has_no_positive_one(cohort: int, bad: int) -> None:
    assert largest_z(cohort, bad) == 0.0


def test_z_of_a_majority_is_finite() -> None:
    assert largest_z(10, 8) == pytest.approx(0.6745, abs=1e-4)  # half a client short of 2: Φ(z) = 3/4


@pytest.mark.parametrize(("number", "dim"), SIZES)
def test_a_little_is_enough_is_the_mean_minus_deviations(number: int, dim: int) -> None:
    rows = drawn("alie", number, dim)
    expected = oracle.a_little_is_enough(rows.numpy(), 1.5)
    np.testing.assert_allclose(ALittleIsEnough(z=1.5)(view_of(rows)).rows, np.tile(expected, (2, 1)), atol=1e-12)


def test_a_little_is_enough_hides_among_honest_rows_and_moves_the_median() -> None:
    rows = drawn("alie", 26, 300, mean=0.0)
    forged = ALittleIsEnough()(view_of(rows, 24)).rows
    from_mean = (rows - rows.mean(0)).norm(dim=1)
    assert float((forged[0] - rows.mean(0)).norm()) < 1.5 * float(from_mean.max())
    update = Median(num_byzantine=24)(torch.cat([forged, rows])).update
    assert float((update - rows.mean(0)).norm()) > 0.9 * float((forged[0] - rows.mean(0)).norm())


def test_inner_product_manipulation_can_turn_the_mean_around() -> None:
    rows = drawn("ipm", 6, 20, mean=1.0)
    view = view_of(rows, 4)
    mean = torch.cat([InnerProductManipulation(epsilon=3.0)(view).rows, rows]).mean(0)
    assert float(mean @ rows.mean(0)) < 0.0
    np.testing.assert_allclose(InnerProductManipulation()(view).rows[0], -0.1 * rows.mean(0), atol=1e-12)


def test_mimic_copies_the_row_farthest_out() -> None:
    rows = drawn("mimic", 12, 8)
    centred = (rows - rows.mean(0)).numpy()
    projections = np.abs(centred @ oracle.spread_of(rows.numpy())[1])
    forged = Mimic()(view_of(rows)).rows
    assert torch.equal(forged, rows[int(projections.argmax())].repeat(2, 1))


def test_mimic_learns_its_direction_as_the_paper_says() -> None:
    scale = torch.tensor([5.0, 1.0, 1.0, 1.0, 0.5], dtype=torch.float64)
    view = view_of(drawn("mimic 0", 9, 5) * scale)
    memory: dict[str, torch.Tensor] = {}
    mean, direction = np.zeros(5), stream(0, "attack", "mimic", 0).standard_normal(5)
    direction /= np.linalg.norm(direction)
    for t in range(6):
        rows = drawn(f"mimic {t}", 9, 5) * scale
        view = view_of(rows, round=t, memory=memory)
        forged = Mimic(warm_up=4)(view)
        memory = dict(forged.memory)
        if t < 4:
            mean, direction, _ = oracle.mimic_step(rows.numpy(), mean, direction, t)
        np.testing.assert_allclose(memory["direction"], direction, atol=1e-10)
        np.testing.assert_allclose(memory["mean"], mean, atol=1e-12)
        assert torch.equal(forged.rows[0], rows[int((rows.numpy() @ direction).argmax())])
    assert abs(direction[0]) > 0.95


def test_mimic_stays_with_its_client_if_clients_are_the_same() -> None:
    memory: dict[str, torch.Tensor] = {}
    chosen = []
    for t in range(8):
        rows = drawn(f"same {t}", 9, 3)
        forged = Mimic(warm_up=2, same_clients=True)(view_of(rows, round=t, memory=memory))
        memory = dict(forged.memory)
        chosen.append(int((rows == forged.rows[0]).all(1).nonzero()))
    assert len(set(chosen[1:])) == 1


def test_duplicates_copy_different_rows_and_begin_anew_when_there_are_no_more() -> None:
    rows = drawn("duplicates", 3, 2)
    forged = Duplicates()(view_of(rows, 5)).rows
    assert len({tuple(row) for row in forged[:3].tolist()}) == 3
    assert torch.equal(forged[3:], forged[:2])
    assert torch.equal(forged[0], Mimic()(view_of(rows, 5)).rows[0])


@pytest.mark.parametrize("name", PERTURBATIONS)
@pytest.mark.parametrize(("number", "dim"), SIZES)
def test_min_max_and_min_sum_are_what_the_halving_search_finds(name: str, number: int, dim: int) -> None:
    rows = drawn("distances", number, dim)
    towards = PERTURBATIONS[name](rows).numpy()
    towards = towards / (np.linalg.norm(towards) or 1.0)
    for attack, search in ((MinMax, oracle.min_max), (MinSum, oracle.min_sum)):
        expected = search(rows.numpy(), towards, 100.0, 1e-9)
        found = attack(direction=name)(view_of(rows)).rows[1]
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_min_max_touches_its_bound_in_float32_far_from_the_origin(name: str) -> None:
    rows = (drawn("float32", 12, 500) + 300.0).float()
    forged = MinMax(direction=name)(view_of(rows)).rows[0].double()
    farthest = float((forged - rows.double()).norm(dim=1).max())
    assert farthest == pytest.approx(float(torch.cdist(rows.double(), rows.double()).max()), rel=1e-4)


def test_distances_worked_by_hand() -> None:
    view = view_of([[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]])  # mean (2, 1), largest distance 4
    # towards the origin, (2 − 2g, 1 − g): 5g² + 6g + 5 ≤ 16 from (4, 0) allows g = 1, which is 5g² + 4g + 4 ≤ 16
    np.testing.assert_allclose(MinMax(direction="unit")(view).rows[0], [0.0, 0.0], atol=1e-12)
    # the rows are √5, √5 and 2 away from the mean
    np.testing.assert_allclose(MinSum(direction="unit")(view).rows[0], [0.0, 0.0], atol=1e-12)
    step = math.sqrt(5.0 / 2.0)
    np.testing.assert_allclose(MinSum(direction="sign")(view).rows[0], [2.0 - step, 1.0 - step], atol=1e-12)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("bad", [1, 3])
@pytest.mark.parametrize(
    "rows",
    [
        torch.ones(1, 1),
        torch.full((4, 6), 2.5),
        torch.zeros(5, 3),
        torch.tensor([[1.0, -2.0], [-1.0, 2.0]]),
        torch.tensor([[math.nan, 1.0], [math.inf, 0.0], [1.0, 2.0], [1e30, 0.0]]),
        torch.full((3, 2), math.nan),
        torch.full((3, 2), 1e-30),
        torch.tensor([[1e15, 0.0], [-1e15, 1.0], [3.0, 4.0]]),
    ],
    ids=["one", "equal", "zero", "zero mean", "broken", "nothing", "tiny", "huge"],
)
def test_degenerate_rows_give_finite_rows(name: str, bad: int, rows: torch.Tensor) -> None:
    forged = ATTACKS[name](view_of(rows, bad))
    assert forged.rows.shape == (bad, rows.shape[1])
    assert forged.rows.dtype == rows.dtype
    assert bool(forged.rows.isfinite().all())
    assert not bool(forged.silent.any())


@pytest.mark.parametrize("name", ATTACKS)
def test_equal_rows_leave_the_mean_or_a_multiple_of_it(name: str) -> None:
    forged = ATTACKS[name](view_of(torch.full((4, 6), 2.5))).rows
    expected = -0.25 if name == "ipm" else 2.5
    assert torch.allclose(forged, torch.full((2, 6), expected))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_adversary_without_the_honest_rows_uses_its_own(name: str) -> None:
    own, honest = drawn("own", 4, 5), drawn("honest", 7, 5, mean=-3.0)
    alone = ATTACKS[name](view_of(honest, 4, own=own, granted=ONLY_OWN)).rows
    told = ATTACKS[name](
        AdversaryView(num_byzantine=4, cohort_size=11, own_rows=torch.zeros_like(own), honest_rows=own)
    ).rows
    assert torch.equal(alone, told)
    with pytest.raises(MissingKnowledgeError, match="must know OWN"):
        ATTACKS[name](view_of(honest, 4, granted=frozenset({Knowledge.RULE})))


@pytest.mark.parametrize(
    ("attack", "parameters", "message"),
    [
        (ALittleIsEnough, {"z": -1.0}, r"z: input should be greater than or equal to 0, got -1\.0"),
        (
            InnerProductManipulation,
            {"epsilon": -0.1},
            r"epsilon: .* greater than or equal to 0, got -0\.1",
        ),
        (Mimic, {"warm_up": -1}, "warm_up: input should be greater than or equal to 0, got -1"),
        (MinMax, {"direction": "up"}, "direction: input should be 'unit', 'std' or 'sign', got 'up'"),
    ],
)
def test_parameters_out_of_range_are_refused(attack: type[Attack], parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        attack(**parameters)
