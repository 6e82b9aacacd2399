"""Directions of the largest scatter, against explicit covariances and against rows that hide from the Krylov space."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from tests.oracles.clouds import CLOUDS
from tests.oracles.filtering import top_eigenpair
from tests.oracles.saddle import Array

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.rng import stream
from steadfed._linalg.spectrum import (
    BOUND_SLACK,
    DENSE_UP_TO,
    eigen_directions,
    largest_eigenpairs,
    leading_directions,
    negligible_scatter,
    scatter_is_below,
    scatter_matrix,
)
from steadfed.aggregators._rage.filtering import State, confirmed, run_filter

pytestmark = pytest.mark.portable

SPECTRA = ("isotropic", "power law", "groups", "staircase", "heavy tails", "far cluster")


def cloud(name: str, number: int, dimension: int) -> tuple[Array, Vector]:
    """Return rows and weights, some of them zero."""
    rng = stream(0, "spectrum", name, number)
    rows = CLOUDS[name](rng, number, number // 5, dimension)
    weights = rng.random(number)
    weights[rng.random(number) < 0.1] = 0.0
    return rows, weights


def largest_scatter(gram: Matrix, weights: Vector) -> float:
    return float(np.linalg.eigvalsh(scatter_matrix(gram, weights))[-1])


@pytest.mark.parametrize("name", CLOUDS)
def test_the_scatter_matrix_has_the_eigenvalues_of_the_explicit_covariance(name: str) -> None:
    rows, weights = cloud(name, 15, 6)
    spread, _, _ = top_eigenpair(rows, weights)
    directions = eigen_directions(rows @ rows.T, weights, 1)
    assert directions.top == pytest.approx(spread * weights.sum(), rel=1e-9)
    assert directions.exact


@pytest.mark.parametrize("name", SPECTRA)
def test_coefficients_give_the_unit_eigenvector_and_coordinates_the_rows_along_it(name: str) -> None:
    rows, weights = cloud(name, 15, 6)
    directions = eigen_directions(rows @ rows.T, weights, 3)
    vectors = rows.T @ directions.coefficients
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(rows @ vectors, directions.coordinates, rtol=1e-9, atol=1e-9)
    _, expected, _ = top_eigenpair(rows, weights)
    assert abs(float(expected @ vectors[:, 0])) == pytest.approx(1.0, abs=1e-9)


def test_orthogonal_rows_of_one_length_have_their_largest_eigenpairs() -> None:
    # LAPACK's bisection finds none of them at about every second size
    for size in range(2, DENSE_UP_TO + 1):
        matrix = np.eye(size) - 1.0 / size
        number = min(3, size - 1)
        values, vectors = largest_eigenpairs(matrix, number)
        np.testing.assert_allclose(values, np.ones(number), rtol=1e-12)
        np.testing.assert_allclose(matrix @ vectors, values * vectors, atol=1e-12)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(number), atol=1e-12)


def test_a_solver_that_does_not_converge_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, weights = cloud("isotropic", 20, 5)
    expected = largest_eigenpairs(scatter_matrix(rows @ rows.T, weights), 2)

    def fail(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(scipy.linalg, "eigh", fail)
    values, vectors = largest_eigenpairs(scatter_matrix(rows @ rows.T, weights), 2)
    np.testing.assert_allclose(values, expected[0], rtol=1e-12)
    np.testing.assert_allclose(abs(vectors.T @ expected[1]), np.eye(2), atol=1e-9)


def test_rows_without_weight_do_not_matter_whatever_they_hold() -> None:
    rows, weights = cloud("isotropic", 20, 5)
    gram = rows @ rows.T
    spoiled = gram.copy()
    spoiled[weights == 0.0] = spoiled[:, weights == 0.0] = 1e30
    np.testing.assert_array_equal(scatter_matrix(spoiled, weights), scatter_matrix(gram, weights))
    assert scatter_is_below(spoiled, weights, 1.001 * largest_scatter(gram, weights))
    assert negligible_scatter(spoiled, weights) == negligible_scatter(gram, weights)


@pytest.mark.parametrize("number", [DENSE_UP_TO + 1, 200])
@pytest.mark.parametrize("name", SPECTRA)
def test_the_krylov_space_finds_the_largest_scatter(name: str, number: int) -> None:
    rows, weights = cloud(name, number, 60)
    gram = rows @ rows.T
    directions = leading_directions(gram, weights)
    exact = largest_scatter(gram, weights)
    assert not directions.exact
    assert (1.0 - 1e-3) * exact <= directions.top <= (1.0 + 1e-9) * exact


@pytest.mark.parametrize("name", SPECTRA)
def test_krylov_directions_are_unit_vectors_with_the_scatter_they_claim(name: str) -> None:
    rows, weights = cloud(name, 200, 60)
    directions = leading_directions(rows @ rows.T, weights)
    vectors = rows.T @ directions.coefficients[:, :4]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1.0, rtol=1e-6)
    mean = weights @ rows / weights.sum()
    scatter = float(weights @ ((rows - mean) @ vectors[:, 0]) ** 2)
    assert scatter == pytest.approx(directions.top, rel=1e-6)


@pytest.mark.parametrize("number", [3, DENSE_UP_TO, DENSE_UP_TO + 1])
def test_equal_rows_have_no_direction(number: int) -> None:
    for gram in (np.zeros((number, number)), np.full((number, number), 2.5)):
        directions = leading_directions(gram, np.ones(number))
        assert directions.top <= negligible_scatter(gram, np.ones(number))
        assert not directions.coordinates.any()


@pytest.mark.parametrize("factor", [1.0 - 1e-9, 0.999, 0.5, 0.0])
def test_a_scatter_above_the_bound_is_never_called_below(factor: float) -> None:
    rows, weights = cloud("power law", 150, 40)
    gram = rows @ rows.T
    assert not scatter_is_below(gram, weights, factor * largest_scatter(gram, weights))


@pytest.mark.parametrize("factor", [1.0 + 1e-9, 1.001, 2.0])
def test_a_scatter_below_the_bound_is_called_below(factor: float) -> None:
    rows, weights = cloud("power law", 150, 40)
    gram = rows @ rows.T
    assert scatter_is_below(gram, weights, factor * largest_scatter(gram, weights))


def hidden_rows(number: int, factor: float) -> tuple[Array, float]:
    """Return rows of which three hide their common direction from the Krylov space, and the scatter of the others.

    The start vector is √Q_ii times numbers that depend on the number of rows only, so an adversary can compute it.
    Rows x_i along a direction e of their own, with Σ x_i = 0 and Σ |x_i| x_i z_i = 0 for the numbers z_i, make an
    eigenvector of the scatter that is orthogonal to the start vector, and so to the whole Krylov space up to rounding.
    """
    z = np.random.Generator(np.random.Philox(key=number)).standard_normal(number)
    one, two = (int(i) for i in np.argsort(z)[[number // 4, number // 4 + 1]])
    three = int(np.argmin(np.abs(z - 0.75 * z[one])))
    # With x = (s, 1 − s, −1) the second condition reads s² z_1 + (1 − s)² z_2 = z_3.
    share = float(np.roots([z[one] + z[two], -2.0 * z[two], z[two] - z[three]]).real.min())
    x = np.array([share, 1.0 - share, -1.0])
    bad = [one, two, three]
    rows = stream(0, "hidden", number).standard_normal((number, 100))
    rows[:, -1] = 0.0
    rows -= np.delete(rows, bad, axis=0).mean(axis=0)
    rows[bad] = 0.0
    others = float(np.linalg.norm(rows, 2)) ** 2
    rows[bad, -1] = x / np.linalg.norm(x) * np.sqrt(factor * others)
    return rows, others


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_the_gram_matrix_holds_of_rows_without_weight_does_not_matter(value: float) -> None:
    rows, weights = cloud("isotropic", 20, 6)
    weights[[3, 11]] = 0.0
    gram = rows @ rows.T
    expected = scatter_matrix(gram, weights)
    gram[[3, 11]], gram[:, [3, 11]] = value, value
    np.testing.assert_allclose(scatter_matrix(gram, weights), expected, rtol=1e-12, atol=1e-13)
    assert not expected[[3, 11]].any()
    assert expected[0].any()


@pytest.mark.parametrize(("number", "exact"), [(DENSE_UP_TO, True), (DENSE_UP_TO + 1, False)])
def test_few_rows_are_decomposed_and_many_searched(number: int, exact: bool) -> None:
    rows, weights = cloud("power law", number, 40)
    assert leading_directions(rows @ rows.T, weights).exact is exact
    assert leading_directions(rows @ rows.T, weights, dense=True).exact


@pytest.mark.parametrize("number", [150, 250])
def test_rows_that_hide_from_the_krylov_space_are_caught_by_the_factorisation(number: int) -> None:
    rows, others = hidden_rows(number, 1.2)
    gram = rows @ rows.T
    found = leading_directions(gram, np.ones(number))
    assert found.top < 1.01 * others, "the rows do not hide"
    assert not scatter_is_below(gram, np.ones(number), found.top * (1.0 + BOUND_SLACK))


@pytest.mark.parametrize("number", [150, 250])
def test_the_filter_does_not_stop_before_rows_that_hide(number: int) -> None:
    rows, others = hidden_rows(number, 1.2)
    gram = rows @ rows.T
    limit = 1.1 * others
    run = run_filter(gram, number - 40.0, lambda _: limit)
    assert run.steps
    assert run.below_limit
    assert largest_scatter(gram, run.last.weights) <= run.last.scatter <= limit * (1.0 + BOUND_SLACK)


@pytest.mark.parametrize("number", [150, 250])
def test_a_state_is_confirmed_with_the_scatter_of_the_rows_that_hide(number: int) -> None:
    rows, others = hidden_rows(number, 1.2)
    gram, weights = rows @ rows.T, np.ones(number)
    found = leading_directions(gram, weights)
    state = State(weights, found.top, found.top, found.coefficients[:, 0], 3, confirmed=False)
    exact = confirmed(gram, state)
    assert state.scatter < 1.01 * others, "the rows do not hide"
    assert exact.found == exact.scatter == pytest.approx(largest_scatter(gram, weights), rel=1e-9)
    assert (exact.confirmed, exact.num_steps) == (True, 3)
    assert confirmed(gram, exact) is exact


@pytest.mark.parametrize("name", SPECTRA)
def test_where_the_filter_stops_a_full_eigendecomposition_agrees(name: str) -> None:
    rows, _ = cloud(name, 180, 50)
    gram = rows @ rows.T
    limit = 0.5 * largest_scatter(gram, np.ones(180))
    run = run_filter(gram, 180 - 2.0 * 36, lambda _: limit)
    exact = largest_scatter(gram, run.last.weights)
    assert exact * (1.0 - 1e-9) <= run.last.scatter <= exact * (1.0 + 2.0 * BOUND_SLACK)
    assert exact <= limit * (1.0 + BOUND_SLACK) or run.last.weights.sum() == pytest.approx(180 - 2.0 * 36)


@pytest.mark.parametrize("name", ["power law", "heavy tails", "staircase"])
def test_directions_are_found_anew_where_the_scatter_along_them_has_fallen_too_low(name: str) -> None:
    rows, _ = cloud(name, 180, 50)
    never, half = (
        run_filter(rows @ rows.T, 180 - 2.0 * 36, lambda _: -np.inf, confirm="none", reuse_down_to=share)
        for share in (0.0, 0.5)
    )
    assert never.num_eigensolves <= 3 < len(never.steps)
    assert half.num_eigensolves > never.num_eigensolves
    for number, step in enumerate(half.steps):
        found = half.solved[max(each for each in half.solved if each <= number)]
        assert step.scatter >= 0.5 * found.top
