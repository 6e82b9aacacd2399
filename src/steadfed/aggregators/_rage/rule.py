"""RAGE as a rule: one class, five modes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from steadfed._core.arrays import Vector
from steadfed._core.values import real_number
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import Gram, pivoted_gram
from steadfed._linalg.sketch import SketchedColumns, SketchFailsError
from steadfed.aggregators._base import (
    BoundedAggregator,
    Claim,
    aggregation_of,
    scatter_usable,
    simple_fraction,
    stop_or_too_many,
    usable_bound,
)
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._rage.certificate import Certificate
from steadfed.aggregators._rage.constants import ALGORITHM_2, EXACT_LIMIT, KAPPA, REJECTION, RHO, Mode
from steadfed.aggregators._rage.deciding import (
    Decision,
    decide_by_algorithm_2,
    decide_by_displacement,
    decide_by_spread,
    decide_known,
)
from steadfed.aggregators._rage.displacement import Reach
from steadfed.aggregators._rage.exact import run_exact, run_lazy
from steadfed.aggregators._rage.point import SaddlePoint, last_point
from steadfed.aggregators._rage.rounding import row_rounding, update_rounding
from steadfed.aggregators._rage.second_key import certify_spread
from steadfed.aggregators._rage.weighing import Weighing, most_within
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView

REFUTED = frozenset({Stop.SPREAD_STAYS_LARGE, Stop.MORE_THAN_ASSUMED})
"""Stops that speak against the assumption, for which a sketch of the rows is not enough."""


@RULES.register("rage")
@final
class Rage(BoundedAggregator):
    r"""The paper's robust accumulated gradient estimation: a spectral filter whose error does not grow with d.

    Clients that cause the largest spread of the updates in some direction lose weight until no direction has more
    spread than honest clients can explain. Under the assumption that n − f of the n rows have a covariance with
    λ_max ≤ σ₀², the error ‖update − their mean‖ is at most C σ₀ √(f/n), with C below 3 for f/n ≤ 1/4 in mode "known"
    (Lemma "poly-time_grad-est" of the paper states O(σ₀ √ε̃) for Algorithm 2).

    Modes:
        auto: needs no σ₀. Filters down to mass n − 2f; the state with the smallest spread λ_a on the way is the
            anchor. The update is the mean of the first state with a spread of at most κ λ_a of whose displacement
            from the anchor's mean f rows account for at most ρ √(λ_a f/n), or for up to 1.5 times that and then cut
            to it: rows that are unlike the others but displace nothing are kept. In sampled cohorts a guard raises f
            where the rows look as if more of them were Byzantine; that is a heuristic.
        spread: needs no σ₀. Filters as "auto" does, and stops as soon as the spread is at most κ λ_a. Above 128 rows
            its C rests on Ritz values being within 1 %, which is assumed, not proved.
        known: the weighted-mean filter with threshold θ(ε) n σ₀², θ(ε) = (1 − ε)/(1/2 − ε).
        exact: Algorithm 2 as printed: the saddle point of its line 3 is solved to a relative gap of 1e-3, and is in the
            certificate (`saddle_point`).
        lazy: Algorithm 2 with line 3 decided by certificates instead of solved: it may filter with another Y, and so
            may keep other clients, under the same guarantee and in a fraction of the time.

    Sites may count as the operator weighs them (`ServerView.weights`): the filter then starts from these weights, and
    with `byzantine_weight` = ε sites that together hold at most ε of the weight may lie. If the *weighted* covariance
    of some others, that hold the rest, has λ_max ≤ σ₀², the error to their weighted mean is at most C σ₀ √ε with the
    same C. With `num_byzantine` = f, ε is the share of the f heaviest. Modes "exact" and "lazy" cannot weigh, and the
    guard is off.

    Deviations from the paper: R reads K in Algorithm 2, whose sampled cohort it is given; "auto", "spread" and "known"
    replace the saddle point by the weighted mean, which has better proved and measured constants
    (docs/theory/filter.md); unusable rows are dropped and counted against f. From 40 rows of 131,008 numbers on, these
    modes see the rows through a sketch unless `gram` is "exact": C is proved for the rows themselves only, the
    certificate also then.

    >>> import torch
    >>> updates = torch.tensor([[1.0, 0.0], [1.2, 0.1], [0.9, -0.1], [1.1, 0.0], [-50.0, 60.0]])
    >>> result = Rage(byzantine_fraction=0.2)(updates)
    >>> result.removed
    [4]
    >>> result.stop.name
    'WITHIN_REACH'
    """

    citation: ClassVar[str] = "Data, Diggavi 2020, Algorithm 2"
    weighs: ClassVar[bool] = True
    bounds: ClassVar[tuple[str, ...]] = ("byzantine_fraction", "num_byzantine", "byzantine_weight")

    byzantine_weight: Annotated[float, Field(ge=0.0, lt=0.5), BeforeValidator(real_number)] | None = None
    """ε, the share of the weight of all sites asked that Byzantine ones may hold together; of equal weights unless the
    operator gives others."""
    mode: Mode = "auto"
    """Whether σ₀ is learned ("auto", "spread") or given; "exact" is Algorithm 2 as printed, "lazy" with its line 3
    decided."""
    sigma0: Annotated[float, Field(gt=0.0, lt=1e100), BeforeValidator(real_number)] | None = None
    """σ₀, the honest spread as a standard deviation; for the modes that do not learn it."""
    rho: Annotated[float, Field(ge=0.0, lt=1e6), BeforeValidator(real_number)] | None = None
    """ρ of mode "auto", 1 if left out. Larger keeps more honest clients, smaller leaves attackers less room; 0 takes
    the anchor's mean."""
    rejection: Annotated[float, Field(ge=1.0, lt=1e6), BeforeValidator(real_number)] | None = None
    """How many times ρ a displacement may be to be cut to it in mode "auto", 1.5 if left out; beyond, the anchor is
    taken. Larger leaves honest minorities a part of their pull, and attackers theirs; with 1 nothing is cut."""
    kappa: Annotated[float, Field(ge=1.0, lt=1e6), BeforeValidator(real_number)] | None = None
    """κ of the modes that learn σ₀; if left out, 6 for "auto" and 3 for "spread"."""
    gram: Literal["exact", "certified", "fast"] = "certified"
    """How the inner products of the rows are found: computed, or estimated from a sketch where that is cheaper.

    Modes "exact" and "lazy" compute them unless "fast" is said. With "certified" a second sketch, by a key that the
    weights do not depend on, bounds the spread of the kept rows: the certificate then holds but for a small
    probability, which it states. With "fast" it is an estimate."""

    @model_validator(mode="after")
    def _mode_has_its_parameters(self) -> Rage:
        if (self.mode in KAPPA) != (self.sigma0 is None):
            allowed = "sigma0 > 0 is needed" if self.sigma0 is None else "sigma0 must be left out (it is estimated)"
            raise ValueError(f"for mode {self.mode!r} {allowed}, got sigma0={self.sigma0!r}")
        if self.mode not in KAPPA and self.kappa is not None:
            raise ValueError(f"kappa belongs to modes 'auto' and 'spread', got kappa={self.kappa!r} with {self.mode!r}")
        for name in ("rho", "rejection"):
            if self.mode != "auto" and (value := getattr(self, name)) is not None:
                raise ValueError(f"{name} belongs to mode 'auto', got {name}={value!r} with mode {self.mode!r}")
        if self.mode in ALGORITHM_2 and self.byzantine_weight is not None:
            raise ValueError(
                f"byzantine_weight belongs to modes 'auto', 'spread' and 'known', got {self.byzantine_weight!r} with "
                f"mode {self.mode!r}: Algorithm 2 as printed gives every row the same say"
            )
        return self

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return f; with `byzantine_weight` how many of so many sites of equal weight hold no more together."""
        if self.byzantine_weight is None:
            return super().assumed_byzantine(cohort_size)
        return math.floor(simple_fraction(self.byzantine_weight) * cohort_size)

    def can_weigh(self) -> bool:
        """Return whether rows may count differently: not in the modes that are Algorithm 2 as printed."""
        return self.mode not in ALGORITHM_2

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
        weighing = self._weighing(columns.num_rows, num_byzantine, gram, view)
        if weighing is None:
            decision = self._decide(gram, usable_bound(num_byzantine, gram.usable), view)
            stop = stop_or_too_many(decision.stop, num_byzantine, gram.usable)
        else:
            weighing.check(gram.usable, self)
            num_byzantine = weighing.most_rows
            decision = self._decide(gram, weighing.left(gram.usable), view, weighing.weights[gram.usable])
            stop = Stop.TOO_MANY_UNUSABLE if weighing.exceeded(gram.usable) else decision.stop
        if gram.num_buckets is not None and stop in REFUTED:
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
            anchor=decision.anchor,
            guard=decision.guard,
        )
        if weighing is not None:
            aggregation = replace(aggregation, stop=stop, weighing=weighing)
        certificate = _certificate(self.mode, columns, gram, decision, stop, weighing)
        if gram.num_buckets is not None:
            certificate = certificate.as_estimate()
        if isinstance(columns, SketchedColumns) and self.gram == "certified":
            certificate = certify_spread(certificate, columns, gram.usable, decision.weights)
        return replace(aggregation, certificate=certificate)

    def _weighing(self, num_rows: int, num_byzantine: int, gram: Gram, view: ServerView) -> Weighing | None:
        """Return what the rows weigh; None if they all count alike, and f of them may be Byzantine."""
        given = view.unequal_weights(num_rows)
        if self.byzantine_weight is not None:
            weights = np.ones(num_rows) if view.weights is None else np.array(view.weights)
            asked = float(view.cohort_size or 0) if view.weights is None else view.cohort_weight or 0.0
            return Weighing.of_share(weights, gram.usable, self.byzantine_weight, asked)
        return None if given is None else Weighing.of_number(given, gram.usable, num_byzantine)

    def _decide(self, gram: Gram, num_byzantine: float, view: ServerView, weights: Vector | None = None) -> Decision:
        matrix, sigma0, kappa = gram.matrix, self.sigma0 or 0.0, self.kappa or KAPPA.get(self.mode, 0.0)
        if self.mode in ALGORITHM_2 and num_byzantine:
            run, number = run_exact if self.mode == "exact" else run_lazy, int(num_byzantine)
            return decide_by_algorithm_2(matrix, number, sigma0, run(matrix, number, sigma0))
        if self.mode == "auto":
            sampled, confirm = view.sampled and weights is None, gram.num_buckets is None
            return decide_by_displacement(
                matrix, num_byzantine, self._reach(), sampled=sampled, confirm=confirm, start=weights
            )
        if self.mode == "spread":
            return decide_by_spread(matrix, num_byzantine, kappa, weights)
        return decide_known(matrix, num_byzantine, sigma0, weights)

    def _reach(self) -> Reach:
        rho = RHO if self.rho is None else self.rho
        return Reach(rho, rho * (self.rejection or REJECTION), self.kappa or KAPPA["auto"])


def _certificate(
    mode: str, columns: Columns, gram: Gram, decision: Decision, stop: Stop, weighing: Weighing | None
) -> Certificate:
    number, total, bad = int(decision.num_byzantine), float(len(gram.matrix)), None
    if weighing is not None:
        started = weighing.weights[gram.usable]
        total, bad = float(started.sum()), decision.num_byzantine
        number = most_within(started, bad)
    return Certificate(
        mode=mode,
        num_rows=len(gram.matrix),
        num_byzantine=number,
        weight=None if weighing is None else total,
        byzantine_weight=bad,
        sigma0=decision.sigma0,
        spread=decision.spread,
        removed=total - float(decision.weights.sum()),
        steps=decision.steps,
        probe=decision.probe,
        probe_scatter=decision.probe_scatter,
        coefficients=scatter_usable(decision.coefficients, gram.usable, 0.0),
        too_many_unusable=stop is Stop.TOO_MANY_UNUSABLE,
        threshold_met=not stop.assumption_violated and stop is not Stop.SADDLE_UNDECIDED,
        largest_sigma0=decision.largest_sigma0,
        row_rounding=row_rounding(columns, gram, decision.weights),
        update_rounding=update_rounding(columns, gram, decision.weights),
        saddle_point=_saddle_point(gram, decision),
        anchor=decision.anchor,
        cut=decision.cut,
    )


def _saddle_point(gram: Gram, decision: Decision) -> SaddlePoint | None:
    """Return the last saddle point, if one was solved."""
    run = decision.algorithm_2
    if run is None:
        return None
    return last_point(run.saddles, run.active, gram.usable, 4.0 * len(gram.matrix) * decision.sigma0**2)
