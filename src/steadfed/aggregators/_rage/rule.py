"""RAGE as a rule: one class, four modes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.values import real_number
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import Gram, pivoted_gram
from steadfed._linalg.sketch import SketchedColumns, SketchFailsError
from steadfed._linalg.spectrum import eigen_directions, negligible_scatter
from steadfed.aggregators._base import (
    BoundedAggregator,
    Claim,
    aggregation_of,
    scatter_usable,
    stop_or_too_many,
    usable_bound,
)
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._rage.certificate import SLACK, Certificate
from steadfed.aggregators._rage.constants import ALGORITHM_2, EXACT_LIMIT, KAPPA, REUSE, theta
from steadfed.aggregators._rage.exact import ExactFiltering, run_exact, run_lazy
from steadfed.aggregators._rage.filtering import Filtering, Step, confirmed, run_filter, scatter_along
from steadfed.aggregators._rage.point import SaddlePoint, last_point
from steadfed.aggregators._rage.rounding import row_rounding, update_rounding
from steadfed.aggregators._rage.second_key import certify_spread
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView


@RULES.register("rage")
@final
class Rage(BoundedAggregator):
    r"""The paper's robust accumulated gradient estimation: a spectral filter whose error does not grow with d.

    Clients that cause the largest spread of the updates in some direction lose weight until no direction has more
    spread than honest clients can explain. Under the assumption that n − f of the n rows have a covariance with
    λ_max ≤ σ₀², the error ‖update − their mean‖ is at most C σ₀ √(f/n), with C below 3 for f/n ≤ 1/4 in mode "known"
    (Lemma "poly-time_grad-est" of the paper states O(σ₀ √ε̃) for Algorithm 2).

    Modes:
        auto: needs no σ₀. Filters down to mass n − 2f to learn the smallest spread λ_min seen on the way, then starts
            again and stops as soon as the spread is at most κ λ_min. Above 128 rows its C rests on Ritz values being
            within 1 %, which is assumed, not proved.
        known: the weighted-mean filter with threshold θ(ε) n σ₀², θ(ε) = (1 − ε)/(1/2 − ε).
        exact: Algorithm 2 as printed: the saddle point of its line 3 is solved to a relative gap of 1e-3, and is in the
            certificate (`saddle_point`).
        lazy: Algorithm 2 with line 3 decided by certificates instead of solved: it may filter with another Y, and so
            may keep other clients, under the same guarantee and in a fraction of the time.

    Deviations from the paper: R reads K in Algorithm 2, whose sampled cohort it is given; "known" and "auto" replace
    the saddle point by the weighted mean, which has better proved and measured constants (docs/theory/filter.md);
    unusable rows are dropped and counted against f. From 40 rows of 131,008 numbers on, "auto" and "known" see the rows
    through a sketch unless `gram` is "exact": C is proved for the rows themselves only, the certificate also then.

    >>> import torch
    >>> updates = torch.tensor([[1.0, 0.0], [1.2, 0.1], [0.9, -0.1], [1.1, 0.0], [-50.0, 60.0]])
    >>> result = Rage(byzantine_fraction=0.2)(updates)
    >>> result.removed
    [4]
    >>> result.stop.name
    'SPREAD_IS_SMALL'
    """

    citation: ClassVar[str] = "Data, Diggavi 2020, Algorithm 2"

    mode: Literal["auto", "known", "exact", "lazy"] = "auto"
    """Whether σ₀ is learned ("auto") or given; "exact" is Algorithm 2 as printed, "lazy" with its line 3 decided."""
    sigma0: Annotated[float, Field(gt=0.0, lt=1e100), BeforeValidator(real_number)] | None = None
    """σ₀, the honest spread as a standard deviation; for all modes but "auto"."""
    kappa: Annotated[float, Field(ge=1.0), BeforeValidator(real_number)] = KAPPA
    """κ of mode "auto". Larger keeps more honest clients, smaller removes more attackers."""
    gram: Literal["exact", "certified", "fast"] = "certified"
    """How the inner products of the rows are found: computed, or estimated from a sketch where that is cheaper.

    Modes "exact" and "lazy" compute them unless "fast" is said. With "certified" a second sketch, by a key that the
    weights do not depend on, bounds the spread of the kept rows: the certificate then holds but for a small
    probability, which it states. With "fast" it is an estimate."""

    @model_validator(mode="after")
    def _mode_has_its_parameters(self) -> Rage:
        if (self.mode == "auto") != (self.sigma0 is None):
            allowed = "sigma0 > 0 is needed" if self.sigma0 is None else "sigma0 must be left out (it is estimated)"
            raise ValueError(f"for mode {self.mode!r} {allowed}, got sigma0={self.sigma0!r}")
        if self.mode != "auto" and self.kappa != type(self).model_fields["kappa"].default:
            raise ValueError(f"kappa belongs to mode 'auto', got kappa={self.kappa!r} with mode {self.mode!r}")
        return self

    def breaks(self) -> frozenset[Claim]:
        """Return that a given σ₀ does not scale with the rows."""
        return frozenset() if self.sigma0 is None else frozenset({Claim.SCALING})

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 2f + 1; for "exact" and "lazy" the smallest K with f/K below the limit of their proof."""
        if self.mode in ALGORITHM_2:
            return max(1, math.floor(num_byzantine / EXACT_LIMIT) + 1)
        return 2 * num_byzantine + 1

    def sketch_passes(self) -> int:
        """Return 2 if the spread of what was kept is to be certified, 1 if it may be an estimate, 0 for Algorithm 2.

        Algorithm 2 as printed knows the rows themselves; only who asks for estimates gets it with a sketch.
        """
        if self.mode in ALGORITHM_2 and self.gram != "fast":
            return 0
        return {"exact": 0, "certified": 2, "fast": 1}[self.gram]

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Compute the Gram matrix in one pass, filter in it, and combine the kept rows in a second pass."""
        gram = pivoted_gram(columns)
        decision = self._decide(gram.matrix, usable_bound(num_byzantine, gram.usable))
        stop = stop_or_too_many(decision.stop, num_byzantine, gram.usable)
        if gram.num_buckets is not None and stop is Stop.SPREAD_STAYS_LARGE:
            raise SketchFailsError  # a sketch refutes nothing: look at the rows themselves
        aggregation = aggregation_of(
            columns,
            gram,
            decision.weights / decision.weights.sum(),
            scores=decision.scores,
            stop=stop,
            num_byzantine=num_byzantine,
            sigma0=decision.sigma0,
            spread=decision.spread,
            spread_before=decision.spread_before,
            threshold=decision.threshold,
            num_steps=len(decision.steps),
            num_eigensolves=decision.num_eigensolves,
        )
        certificate = _certificate(self.mode, columns, gram, decision, stop)
        if gram.num_buckets is not None:
            certificate = certificate.as_estimate()
        if isinstance(columns, SketchedColumns) and self.gram == "certified":
            certificate = certify_spread(certificate, columns, gram.usable, decision.weights)
        return replace(aggregation, certificate=certificate)

    def _decide(self, gram: Matrix, num_byzantine: int) -> _Decision:
        if self.mode in ALGORITHM_2 and num_byzantine:
            run = run_exact if self.mode == "exact" else run_lazy
            return _of_algorithm_2(
                gram, num_byzantine, self.sigma0 or 0.0, run(gram, num_byzantine, self.sigma0 or 0.0)
            )
        if self.mode == "auto":
            return _decide_auto(gram, num_byzantine, self.kappa)
        return _decide_known(gram, num_byzantine, self.sigma0 or 0.0)


@dataclass(frozen=True, kw_only=True)
class _Decision:
    """Everything about the usable rows that the filter decided."""

    weights: Vector
    scores: Vector
    stop: Stop
    sigma0: float
    spread: float
    spread_before: float
    threshold: float | None
    """In units of a variance; None for Algorithm 2, which compares the value of a saddle point with its threshold."""
    coefficients: Vector
    num_byzantine: int
    steps: tuple[Step, ...]
    probe: tuple[Step, ...]
    probe_scatter: float
    num_eigensolves: int
    algorithm_2: ExactFiltering | None = None


def _decide_known(gram: Matrix, num_byzantine: int, sigma0: float) -> _Decision:
    """Filter until the scatter is at most θ(ε) n σ₀² (without Byzantine rows: check that it is at most n σ₀²)."""
    n = len(gram)
    factor = theta(num_byzantine / n) if num_byzantine else 1.0 + SLACK
    limit = factor * n * sigma0**2
    run = run_filter(gram, n - 2.0 * num_byzantine, lambda _: limit)
    return _of_filter(gram, run, run, num_byzantine, limit / float(run.last.weights.sum()), sigma0)


def _decide_auto(gram: Matrix, num_byzantine: int, kappa: float) -> _Decision:
    """Learn λ_min by filtering down to mass n − 2f, then filter from the start until the spread is at most κ λ_min.

    With few rows both runs take the same steps, so the second one gets there. With many, the first may have stopped at
    Ritz values that are too low; if the second ends at the mass floor, the state with the smaller spread is used.
    """
    floor = len(gram) - 2.0 * num_byzantine
    probe = run_filter(gram, floor, lambda _: -math.inf, confirm=False, reuse_down_to=REUSE)
    smallest = min(probe.states, key=lambda state: state.spread)
    limit = kappa * smallest.spread
    run = run_filter(gram, floor, lambda mass: limit * mass, probe, reuse_down_to=REUSE)
    run.num_eigensolves += probe.num_eigensolves
    if not run.below_limit:
        other = confirmed(gram, smallest)
        if other.spread < run.last.spread:
            run.steps, run.states = probe.steps[: other.num_steps], [other]
        run.below_limit = run.last.spread <= limit
    return _of_filter(gram, run, probe, num_byzantine, limit)


def _of_filter(
    gram: Matrix,
    run: Filtering,
    probe: Filtering,
    num_byzantine: int,
    threshold: float,
    sigma0: float | None = None,
) -> _Decision:
    state = run.last
    return _Decision(
        weights=state.weights,
        scores=_scores(run.looked_along, state.weights, state.spread),
        stop=_stop(gram, run, num_byzantine),
        sigma0=math.sqrt(state.spread) if sigma0 is None else sigma0,
        spread=state.spread,
        spread_before=probe.states[0].spread,
        threshold=threshold,
        coefficients=state.coefficients,
        num_byzantine=num_byzantine,
        steps=tuple(run.steps),
        probe=tuple(probe.steps),
        probe_scatter=probe.last.found,
        num_eigensolves=run.num_eigensolves,
    )


def _stop(gram: Matrix, run: Filtering, num_byzantine: int) -> Stop:
    if run.last.scatter <= negligible_scatter(gram, run.last.weights):
        return Stop.ROWS_AGREE
    if not run.below_limit:
        return Stop.SPREAD_STAYS_LARGE
    return Stop.SPREAD_IS_SMALL if num_byzantine else Stop.NOTHING_TO_FILTER


def _of_algorithm_2(gram: Matrix, num_byzantine: int, sigma0: float, run: ExactFiltering) -> _Decision:
    weights = run.active.astype(float)
    directions = eigen_directions(gram, weights, 1)
    spread = directions.top / float(weights.sum())
    stop = Stop.SADDLE_UNDECIDED if run.undecided else Stop.SPREAD_IS_SMALL
    if run.refused is not None:
        stop = Stop.SPREAD_STAYS_LARGE
    elif directions.top <= negligible_scatter(gram, weights):
        stop = Stop.ROWS_AGREE
    return _Decision(
        weights=weights,
        scores=_scores([*run.looked_along, directions.coordinates[:, 0]], weights, spread),
        stop=stop,
        sigma0=sigma0,
        spread=spread,
        spread_before=eigen_directions(gram, np.ones(len(gram)), 1).top / len(gram),
        threshold=None,
        coefficients=directions.coefficients[:, 0],
        num_byzantine=num_byzantine,
        steps=tuple(run.steps),
        probe=tuple(run.steps) if run.refused is None else (*run.steps, run.refused),
        probe_scatter=directions.top,
        num_eigensolves=run.num_eigensolves + 2,
        algorithm_2=run,
    )


def _scores(looked_along: list[Vector], weights: Vector, spread: float) -> Vector:
    """Return each row's largest squared deviation from the kept mean along the filter's directions, over the spread.

    A score of 9 means: three standard deviations of the kept rows, in the worst direction the filter looked along.
    """
    _, deviations = scatter_along(np.stack(looked_along, axis=1), weights)
    largest: Vector = (deviations**2).max(axis=1)
    if spread > 0.0:
        with np.errstate(over="ignore"):  # a row may be farther out than a float can say in such units
            return np.asarray(np.minimum(largest / spread, np.finfo(float).max))
    return np.where(largest > 0.0, np.inf, 0.0)


def _certificate(mode: str, columns: Columns, gram: Gram, decision: _Decision, stop: Stop) -> Certificate:
    return Certificate(
        mode=mode,
        num_rows=len(gram.matrix),
        num_byzantine=decision.num_byzantine,
        sigma0=decision.sigma0,
        spread=decision.spread,
        removed=len(gram.matrix) - float(decision.weights.sum()),
        steps=decision.steps,
        probe=decision.probe,
        probe_scatter=decision.probe_scatter,
        coefficients=scatter_usable(decision.coefficients, gram.usable, 0.0),
        too_many_unusable=stop is Stop.TOO_MANY_UNUSABLE,
        threshold_met=stop in {Stop.SPREAD_IS_SMALL, Stop.ROWS_AGREE, Stop.NOTHING_TO_FILTER},
        row_rounding=row_rounding(columns, gram, decision.weights),
        update_rounding=update_rounding(columns, gram, decision.weights),
        saddle_point=_saddle_point(gram, decision),
    )


def _saddle_point(gram: Gram, decision: _Decision) -> SaddlePoint | None:
    """Return the last saddle point, if one was solved."""
    run = decision.algorithm_2
    if run is None:
        return None
    return last_point(run.saddles, run.active, gram.usable, 4.0 * len(gram.matrix) * decision.sigma0**2)
