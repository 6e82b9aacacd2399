"""Rules that see the rows through a sketch: what they decide, what is certified of it, and when they look again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from tests.oracles.saddle import Array

from steadfed._core.rng import stream
from steadfed._linalg import sketch
from steadfed._linalg.columns import DenseColumns
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.sketch import SketchedColumns
from steadfed._linalg.spectrum import scatter_bound, scatter_matrix
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators import (
    RULES,
    Aggregation,
    Aggregator,
    Bucketing,
    GeometricMedian,
    Krum,
    Mean,
    NearestNeighborMixing,
    Rage,
    ServerView,
)
from steadfed.aggregators._base import GramAggregator
from steadfed.aggregators._rage import second_key
from steadfed.aggregators._rage.certificate import Certificate
from steadfed.aggregators._rage.second_key import certify_spread, shortfall
from steadfed.errors import ParameterError

FAILURE = 0.05
"""A probability that so narrow a sketch can give."""
NUM_ROWS, NUM_COLUMNS, NUM_BYZANTINE, BUCKETS = 50, 12_000, 10, 2000
SEEN = ServerView(secret=1)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small matrices be sketched."""
    monkeypatch.setattr(sketch, "BUCKETS", BUCKETS)
    monkeypatch.setattr(sketch, "FEWEST_ROWS", {1: 5, 2: 5})
    monkeypatch.setattr(second_key, "FAILURE", FAILURE)


def cohort(name: str = "cohort", spectrum: float = 0.0) -> Array:
    """Return rows of which the first ten are a cluster far from the others; the spectrum falls with a power."""
    rng = stream(0, "second key", name)
    rows = rng.standard_normal((NUM_ROWS, NUM_COLUMNS)) * np.arange(1.0, NUM_COLUMNS + 1.0) ** -spectrum
    far = rng.standard_normal(NUM_COLUMNS)
    length = 6.0 * np.linalg.norm(rows[NUM_BYZANTINE:]) / math.sqrt(NUM_ROWS)
    rows[:NUM_BYZANTINE] = 0.1 * rows[:NUM_BYZANTINE] + far / np.linalg.norm(far) * length
    return rows.astype(np.float32)


def certificate_of(outcome: Aggregation) -> Certificate:
    assert outcome.certificate is not None
    return outcome.certificate


def true_spread(rows: Array, outcome: Aggregation) -> float:
    """Return λ_max of the covariance of the rows, weighted as in the update."""
    weights = outcome.weights.numpy()
    centred = rows.astype(np.float64) - weights @ rows
    return float(
        np.linalg.eigvalsh((np.sqrt(weights)[:, None] * centred) @ (np.sqrt(weights)[:, None] * centred).T)[-1]
    )


def test_a_matrix_that_is_not_wide_is_computed_exactly_whatever_is_asked() -> None:
    rows = cohort()
    exact = Rage(num_byzantine=NUM_BYZANTINE, gram="exact")(rows)
    for gram in ("certified", "fast"):
        found = Rage(num_byzantine=NUM_BYZANTINE, gram=gram)(rows)
        assert torch.equal(found.update, exact.update)
        assert found.sketch is None
        assert certificate_of(found).proved
        assert certificate_of(found).failure_probability == 0.0


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("mode", ["auto", "known"])
@pytest.mark.parametrize("spectrum", [0.0, 0.5])
def test_the_filter_finds_a_far_cluster_through_a_sketch(mode: str, spectrum: float) -> None:
    rows = cohort(spectrum=spectrum)
    honest = rows[NUM_BYZANTINE:].astype(np.float64)
    sigma0 = float(np.linalg.norm(honest - honest.mean(axis=0), 2)) / math.sqrt(len(honest))
    given = {} if mode == "auto" else {"sigma0": sigma0}
    rule = Rage(num_byzantine=NUM_BYZANTINE, mode=mode, gram="certified", **given)
    found = rule(rows, SEEN)
    assert found.sketch is not None
    assert found.sketch.num_buckets == BUCKETS
    assert float(found.weights[:NUM_BYZANTINE].sum()) <= 0.02
    error = float(np.linalg.norm(found.update.numpy() - honest.mean(axis=0)))
    certificate = certificate_of(found)
    assert error <= certificate.error_bound(sigma0) < 6.0 * sigma0 * math.sqrt(0.2)
    assert true_spread(rows, found) <= certificate.spread
    assert certificate.failure_probability == FAILURE
    assert not certificate.proved
    assert certificate.worst_case() == math.inf
    assert certificate.smallest_sigma0() == 0.0, "what a sketch shows contradicts nothing"


@pytest.mark.usefixtures("narrow")
def test_an_estimate_says_that_it_is_one() -> None:
    found = Rage(num_byzantine=NUM_BYZANTINE, gram="fast")(cohort(), SEEN)
    certificate = certificate_of(found)
    assert certificate.failure_probability == 1.0
    assert not certificate.proved
    assert certificate.worst_case() == math.inf
    again = Certificate.from_evidence(certificate.evidence())
    assert again.failure_probability == 1.0
    assert again.error_bound() == certificate.error_bound()


@pytest.mark.usefixtures("narrow")
def test_evidence_holds_the_secret_and_the_secret_gives_the_same_bits() -> None:
    rows, rule = cohort(), Rage(num_byzantine=NUM_BYZANTINE)
    found = rule(rows)
    told = found.evidence()["sketch"]
    assert told["num_buckets"] == BUCKETS
    again = rule(rows, ServerView(secret=int(told["secret"], 16)))
    assert torch.equal(found.update, again.update)
    assert found.evidence() == again.evidence()


@pytest.mark.usefixtures("narrow")
def test_without_a_view_every_call_draws_its_own_secret() -> None:
    rows, rule = cohort(), Rage(num_byzantine=NUM_BYZANTINE, gram="fast")
    secrets = {(outcome := rule(rows)).sketch and outcome.sketch.secret for _ in range(4)}
    assert len(secrets) == 4
    assert max(secret or 0 for secret in secrets).bit_length() > 64


@pytest.mark.parametrize("secret", [-1, 1.5, True, "7"])
def test_a_secret_is_a_whole_number(secret: object) -> None:
    with pytest.raises(ParameterError, match="secret must be a whole number from 0 on, got"):
        ServerView(secret=secret)  # type: ignore[arg-type]


@pytest.mark.usefixtures("narrow")
def test_an_old_record_of_an_estimate_or_a_proof_keeps_its_meaning() -> None:
    written = certificate_of(Rage(num_byzantine=NUM_BYZANTINE, gram="exact")(cohort())).evidence()
    del written["failure_probability"]
    assert Certificate.from_evidence(written).proved
    assert Certificate.from_evidence(written | {"proved": False}).failure_probability == 1.0


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("name", sorted(name for name, rule in RULES.items() if issubclass(rule, GramAggregator)))
def test_every_rule_that_decides_by_inner_products_may_do_so_through_a_sketch(name: str) -> None:
    rows = cohort(spectrum=0.5)[:15] if name in {"mda", "smea"} else cohort(spectrum=0.5)
    rows[:2] = rows[0]
    kind = RULES[name]
    exact, fast = (_with_bound(kind, 2, gram=gram)(rows, SEEN) for gram in ("exact", "fast"))
    assert exact.sketch is None
    assert fast.sketch is not None
    honest = rows[NUM_BYZANTINE:].astype(np.float64)
    typical = float(np.linalg.norm(honest - honest.mean(axis=0))) / math.sqrt(len(honest))
    assert float((fast.update - exact.update).norm()) <= 0.3 * typical or name == "krum", "Krum may take another row"
    assert fast.kept[NUM_BYZANTINE:].any()


def _with_bound(kind: type[Aggregator], number: int, **fields: object) -> Aggregator:
    bound = {"num_byzantine": number} if "num_byzantine" in kind.model_fields else {}
    return kind(**bound, **fields)


@pytest.mark.usefixtures("narrow")
def test_a_wrapped_rule_is_sketched_if_it_asks_for_estimates_only() -> None:
    rows = cohort()
    assert NearestNeighborMixing(rule=Krum(num_byzantine=3, gram="fast"))(rows, SEEN).sketch is not None
    assert Bucketing(rule=Rage(num_byzantine=3, gram="fast"), size=2)(rows, SEEN).sketch is not None
    assert Bucketing(rule=Rage(num_byzantine=3), size=2)(rows, SEEN).sketch is None
    assert NearestNeighborMixing(rule=Mean(num_byzantine=3))(rows, SEEN).sketch is None


@pytest.mark.usefixtures("narrow")
def test_rows_that_do_not_fit_a_sketch_are_computed_exactly() -> None:
    moved = cohort() + np.float32(1e7) * stream(0, "offset").standard_normal(NUM_COLUMNS, dtype=np.float32)
    for rule in (Rage(num_byzantine=NUM_BYZANTINE), GeometricMedian(gram="fast")):
        found = rule(moved, SEEN)
        assert found.sketch is not None
        assert not found.sketch.fits
        expected = rule.model_copy(update={"gram": "exact"})(moved)
        assert torch.equal(found.update, expected.update)
    assert certificate_of(Rage(num_byzantine=NUM_BYZANTINE)(moved, SEEN)).proved


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_bad_rows_are_removed_as_they_are_without_a_sketch(value: float) -> None:
    rows = cohort()
    rows[3, 5000] = value
    exact, found = (Rage(num_byzantine=NUM_BYZANTINE, gram=gram)(rows, SEEN) for gram in ("exact", "certified"))
    assert found.usable.tolist() == exact.usable.tolist()
    assert found.sketch is not None
    assert torch.isfinite(found.update).all()


HARD: dict[str, Callable[[np.random.Generator], Array]] = {
    "flat": lambda rng: rng.standard_normal((12, 800)),
    "two heavy columns": lambda rng: 0.01 * rng.standard_normal((12, 800)) + 5.0 * np.eye(12, 800, 300),
    "one direction on two columns": lambda rng: np.outer(
        rng.standard_normal(12), np.eye(1, 800, 3) + np.eye(1, 800, 700)
    ),
}


@pytest.mark.portable
@pytest.mark.parametrize("name", HARD)
def test_a_fresh_key_hides_the_largest_spread_no_more_often_than_proved(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sketch, "BUCKETS", 40)
    rows = torch.from_numpy(np.asarray(HARD[name](stream(0, "hard", name)), dtype=np.float64))
    weights = stream(0, "weights").uniform(0.2, 1.0, 12)
    keys, columns = 1500, DenseColumns(rows)
    with one_blas_thread():
        true = float(np.linalg.eigvalsh(scatter_matrix(pivoted_gram(columns).matrix, weights))[-1])
        seen = np.array(
            [scatter_bound(pivoted_gram(SketchedColumns(columns, secret, 1)).matrix, weights) for secret in range(keys)]
        )
    for failure in (0.3, 0.1, 0.06):
        hidden = int((seen <= (1.0 - shortfall(40, failure)) * true).sum())
        assert hidden <= failure * keys + 4.0 * math.sqrt(failure * keys), (name, failure)
    assert shortfall(40, 0.06) < 1.0


def test_the_shortfall_is_cantellis() -> None:
    for num_buckets, failure in [(32_752, 1e-3), (16_368, 1e-2), (500, 0.2)]:
        variance, lost = 2.0 / num_buckets, shortfall(num_buckets, failure)
        assert math.isclose(variance / (variance + lost**2), failure, rel_tol=1e-12)


def test_the_smallest_matrix_that_is_sketched_has_a_spread_that_holds_but_for_one_in_a_thousand() -> None:
    rows = stream(0, "smallest").standard_normal((40, 131_008), dtype=np.float32)
    found = Rage(num_byzantine=4)(rows, SEEN)
    assert found.sketch is not None
    certificate = certificate_of(found)
    assert certificate.failure_probability == 1e-3
    true = true_spread(rows.astype(np.float64), found)
    assert true <= certificate.spread
    assert certificate.spread * (1.0 - shortfall(32_752, 1e-3)) == pytest.approx(true, rel=0.05)


@pytest.mark.usefixtures("narrow")
def test_a_row_that_hides_from_one_key_does_not_hide_from_the_next() -> None:
    rows = cohort()
    columns = SketchedColumns(DenseColumns(torch.from_numpy(rows)), 1)
    with one_blas_thread():
        gram = pivoted_gram(columns)
        estimate = certificate_of(Rage(num_byzantine=NUM_BYZANTINE, gram="fast")(rows, SEEN))
        weights = np.ones(NUM_ROWS)
        checked = certify_spread(estimate, columns, gram.usable, weights)
    centred = rows.astype(np.float64) - rows.mean(axis=0)
    assert checked.spread >= float(np.linalg.norm(centred, 2)) ** 2 / NUM_ROWS


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("mode", ["exact", "lazy"])
def test_algorithm_2_sees_the_rows_themselves_unless_estimates_are_asked_for(mode: Literal["exact", "lazy"]) -> None:
    rows = cohort()[:20]
    rule = Rage(num_byzantine=3, mode=mode, sigma0=120.0)
    assert rule(rows, SEEN).sketch is None
    assert rule.model_copy(update={"gram": "fast"})(rows, SEEN).sketch is not None


@pytest.mark.usefixtures("narrow")
def test_a_sketch_never_contradicts_the_assumption() -> None:
    rows = stream(0, "flat").standard_normal((NUM_ROWS, NUM_COLUMNS)).astype(np.float32)
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    sigma0 = 1.001 * float(np.linalg.norm(centred, 2)) / math.sqrt(NUM_ROWS)
    rule = Rage(num_byzantine=0, mode="known", sigma0=sigma0)
    with one_blas_thread():
        seen = pivoted_gram(SketchedColumns(DenseColumns(torch.from_numpy(rows)), 1)).matrix
    assert scatter_bound(seen, np.ones(NUM_ROWS)) / NUM_ROWS > 1.01 * sigma0**2, "the sketch overestimates the spread"
    found = rule(rows, SEEN)
    assert found.sketch is not None
    assert not found.sketch.fits
    assert not found.assumption_violated
    assert certificate_of(found).proved
    violated = Rage(num_byzantine=0, mode="known", sigma0=0.5 * sigma0)(rows, SEEN)
    assert violated.assumption_violated
    assert not certificate_of(violated).is_consistent()


@pytest.mark.usefixtures("narrow")
def test_rows_at_the_limit_of_their_dtype_without_weight_do_not_keep_a_spread_from_being_certified() -> None:
    rows = cohort()
    size = math.sqrt(0.98 * 4.0 * float(np.finfo(np.float32).max) / NUM_COLUMNS)
    rows[:4] = size * np.sign(rows[:4])
    found = Rage(num_byzantine=NUM_BYZANTINE)(rows, SEEN)
    assert found.sketch is not None
    assert found.sketch.fits
    assert float(found.weights[:4].sum()) == 0.0


@pytest.mark.usefixtures("narrow")
def test_rows_whose_sums_overflow_are_looked_at_themselves() -> None:
    rows = cohort() * np.float32(3e18 / NUM_COLUMNS**0.5)
    exact, found = (Rage(num_byzantine=NUM_BYZANTINE, gram=gram)(rows, SEEN) for gram in ("exact", "certified"))
    assert found.usable.sum() >= exact.usable.sum() - NUM_BYZANTINE
    assert torch.isfinite(found.update).all()
