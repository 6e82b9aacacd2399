r"""The certificate: what is proved about one update, from what the filter saw.

The assumption is that some n − f of the n usable rows (the set S) have a covariance with λ_max ≤ σ₀². The rest (B) may
be anything. Let D be the weight the filter took in all and D_S the part of it taken from S, which nobody knows. Then

    ‖update − mean(S)‖ ≤ √( λ (f − D + D_S) / (n − f − D_S) ) + σ₀ √( D_S / (n − f − D_S) )            (1)

with λ the measured spread of the kept rows. The first term is how far the Byzantine weight that is left can pull the
mean without showing in λ; the second is how far the mean of S moves when D_S of its weight is gone. The bound grows
with D_S, so an upper bound U ≥ D_S suffices. Each step took weight in proportion to c_i τ_i, hence

    U ← U + min(1, ((n − f) σ₀² + excess) / scatter + (f − D + U) / mass) · removed                     (2)

follows the filter step by step (the last fraction is absent for Algorithm 2, whose columns of W are best responses).
The proofs are in docs/theory/filter.md. Nothing here assumes that the filter's threshold was right: (1) and (2) hold
for any weights, so a wrong σ₀ given to the filter cannot make the certificate wrong.

Where rows count as they are weighted, n is W, the weight of all of them, f is F, the weight that may be Byzantine, S
has a weight of at least W − F, and means and covariances are weighted (section 5.5).

The rows are numbers of finite precision, and so are their inner products: every σ₀² and λ above is taken larger by
ρ² = `row_rounding`², and the bound by `update_rounding` (section 7 there).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed._linalg.sources import as_columns
from steadfed.aggregators._rage.anchor import Anchor, Cut
from steadfed.aggregators._rage.constants import ALGORITHM_2, KAPPA, filter_constant, resilience
from steadfed.aggregators._rage.filtering import Step
from steadfed.aggregators._rage.point import SaddlePoint
from steadfed.errors import ParameterError, ShapeError

ROUNDING = 1e-6
"""Slack in comparisons of weights."""
LARGEST_SIGMA0 = 1e140
SLACK = 1e-5
"""Relative slack in comparisons of measured spreads with an assumed one; float32 rows are known to about 1e-6."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """What is proved about one update under the assumption, and whether the data contradict the assumption."""

    mode: str
    num_rows: int
    """n, the usable rows."""
    num_byzantine: int
    """f, the rows among them that may be Byzantine; of weighted ones, as many as may be if they have little weight."""
    sigma0: float
    """The σ₀ given to the filter, or the estimate √spread."""
    spread: float
    """λ_max of the covariance of the kept rows (weighted as in the update): the largest variance that remains."""
    removed: float
    """D, the weight taken in all, out of n."""
    steps: tuple[Step, ...]
    """The filter steps that led to the update."""
    probe: tuple[Step, ...]
    """The longest run of steps made on these rows, on which contradictions to the assumption are looked for."""
    probe_scatter: float
    """The scatter left at the end of the probe."""
    coefficients: Float[Tensor, " K"]
    """The direction of the largest remaining spread, as Σ_i coefficients_i · row_i; empty if read from evidence."""
    too_many_unusable: bool
    """Whether more rows were unusable than Byzantine ones were assumed: the assumption is then false for every σ₀."""
    threshold_met: bool
    """Whether the filter reached its threshold, on which the bound known before any data rests."""
    failure_probability: float = 0.0
    """With what probability, over the server's secret, the statements may be false.

    0 if they are proved from the rows themselves, small if a second sketch has checked them, 1 for estimates."""
    largest_sigma0: float = math.inf
    """√(n λ/(n − f)) with λ the spread of all rows: no n − f of them spread more. Infinite if λ is not confirmed."""
    row_rounding: float = 0.0
    """ρ, how far rounding may have moved a standard deviation of the rows; 0 in evidence that does not know of it."""
    update_rounding: float = 0.0
    """How far rounding may have moved the update."""
    saddle_point: SaddlePoint | None = None
    """The last saddle point of mode "exact"; its numbers are in the evidence, its matrices are not."""
    cut: Cut | None = None
    """How the weights lie between those of the anchor and those that `steps` led to, if the displacement was cut."""
    anchor: Anchor | None = None
    """The safest state of the probe in mode "auto": what is proved of it holds for the update, up to their distance."""
    weight: float | None = None
    """W, what the usable rows weigh together, in units of the largest of them; None if every row counts alike."""
    byzantine_weight: float | None = None
    """F, how much of that may be Byzantine; None if every row counts alike."""

    @property
    def total(self) -> float:
        """W; n if every row counts alike."""
        return self.num_rows if self.weight is None else self.weight

    @property
    def bad(self) -> float:
        """F; f if every row counts alike."""
        return self.num_byzantine if self.byzantine_weight is None else self.byzantine_weight

    @property
    def proved(self) -> bool:
        """Whether the statements hold for certain, if the assumption does."""
        return self.failure_probability == 0.0

    @cached_property
    def assumed_sigma0(self) -> float:
        """The σ₀ of every method unless it is told one: the one given to the filter, or, where that learns it, √spread.

        Where the rows contradict √spread, as honest rows were removed, it is `largest_sigma0`.
        """
        if self.mode not in KAPPA or self._agrees(self.sigma0) or self.largest_sigma0 >= LARGEST_SIGMA0:
            return self.sigma0
        return self.largest_sigma0

    def error_bound(self, sigma0: float | None = None) -> float:
        """Return the proved bound on ‖update − mean of the assumed honest rows‖ if their spread is `sigma0`.

        Infinite when nothing can be said: the assumption contradicts the data, or so much weight was taken that all of
        it could have been honest.
        """
        sigma = self._sigma(sigma0)
        if not self._agrees(sigma):
            return math.inf
        bound = math.inf
        if self.anchor is not None:
            removed, spread = self.anchor.weight_removed, self.anchor.spread
            lost_there = self._honest_weight_lost(self.probe[: self.anchor.num_steps], removed, sigma)
            noise = self.row_rounding**2 * (self.total - self.removed) / (self.total - removed)
            bound = self._bound_of(removed, spread, lost_there, sigma, noise) + self._distance_to(self.anchor)
        lost = self._lost_of_update(sigma)
        bound = min(bound, self._bound_of(self.removed, self.spread, lost, sigma, self.row_rounding**2))
        if self.mode in ALGORITHM_2 and 0.0 < sigma <= self.sigma0:
            worst = self.worst_case()
            bound = min(bound, worst + worst * (self.row_rounding / self.sigma0) ** 2)
        return bound + self.update_rounding

    def unconditional_bound(self) -> float:
        """Return the proved bound on ‖update − mean of any n − f rows‖: nothing is assumed but f.

        It is that of `largest_sigma0`, so large rows make it large, removed or not. Infinite if that is not known.
        """
        return self.error_bound(self.largest_sigma0) if self.largest_sigma0 < LARGEST_SIGMA0 else math.inf

    def worst_case(self) -> float:
        """Return C · σ₀ √ε for the σ₀ given to the filter: the bound known before any data, if the honest spread is σ₀.

        Infinite for modes that learn σ₀, and when the filter did not reach its threshold.
        """
        epsilon = self.bad / self.total
        if self.mode in KAPPA or not self.threshold_met:
            return math.inf
        return filter_constant(self.mode, epsilon) * self.sigma0 * math.sqrt(epsilon)

    def is_consistent(self, sigma0: float | None = None) -> bool:
        """Tell whether "at most f Byzantine rows, honest spread at most `sigma0`" is consistent with the data.

        It is not when more weight than f must have been taken from Byzantine rows, or when no Byzantine weight can be
        left and the spread is still larger than assumed. A contradiction is a proof; consistency is not.
        """
        return self._agrees(self._sigma(sigma0))

    def _agrees(self, sigma: float) -> bool:
        """Tell whether the data agree with a σ₀, which may be larger for large rows than one may ask about."""
        if self.too_many_unusable:
            return False
        scatters = [step.scatter - step.excess for step in self.probe] + [self.probe_scatter]
        lost = 0.0
        allowed = self._promised(sigma) * (1.0 + SLACK)
        for scatter, (taken, lost) in zip(scatters, self._follow(self.probe, sigma), strict=True):
            left = self.bad - taken + lost
            # Even a millionth of Byzantine weight can carry any scatter, so here only true zero counts as none.
            if left < -ROUNDING or (left <= 1e-15 * self.total and scatter > allowed):
                return False
        # Algorithm 2 drops a row once it has lost half its weight: at most f rows of B and 2 U of S.
        dropped = sum(step.dropped for step in self.probe)
        return dropped <= self.bad + 2.0 * lost + ROUNDING

    def smallest_sigma0(self) -> float:
        """Return the smallest σ₀ that the data do not contradict, to a relative precision of 1e-9; infinite if none."""
        if self.too_many_unusable:
            return math.inf
        scatter = max([self.probe_scatter, *(step.scatter for step in self.probe)])
        high = math.sqrt(scatter / min(1.0, self.total - self.bad))
        low = 0.0
        if self._agrees(0.0):
            return 0.0
        while high - low > 1e-9 * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if self._agrees(middle) else (middle, high)
        return high

    def as_estimate(self) -> Certificate:
        """Return the same figures as estimates: nothing is known before the data, and nothing contradicts them."""
        return replace(
            self,
            probe=(),
            probe_scatter=0.0,
            threshold_met=False,
            failure_probability=1.0,
            largest_sigma0=math.inf,
            anchor=None,
        )

    def direction(self, updates: Any) -> Float[Tensor, " d"]:
        """Return the unit direction of the largest remaining spread, given the rows again; zero if there is none."""
        columns = as_columns(updates)
        if columns.num_rows != len(self.coefficients):
            raise ShapeError(f"the certificate is about {len(self.coefficients)} updates, got {columns.num_rows}")
        vector = columns.combine(self.coefficients.numpy())
        norm = float(np.sqrt(columns.total(np.array([float(vector.double().square().sum())]))[0]))
        return vector / norm if norm > 0 else vector

    def evidence(self) -> dict[str, Any]:
        """Return the statements as plain numbers, ready for JSON."""
        bound, anyway = self.error_bound(), self.unconditional_bound()
        worst, smallest = self.worst_case(), self.smallest_sigma0()
        return {
            "mode": self.mode,
            "num_rows": self.num_rows,
            "num_byzantine": self.num_byzantine,
            "sigma0": self.assumed_sigma0,
            "smallest_sigma0": smallest if math.isfinite(smallest) else None,
            "error_bound": bound if math.isfinite(bound) else None,
            "worst_case": worst if math.isfinite(worst) else None,
            "unconditional_bound": anyway if math.isfinite(anyway) else None,
            "largest_sigma0": self.largest_sigma0 if math.isfinite(self.largest_sigma0) else None,
            "consistent": self.is_consistent(),
            "spread": self.spread,
            "weight_removed": self.removed,
            "proved": self.proved,
            "failure_probability": self.failure_probability,
            "too_many_unusable": self.too_many_unusable,
            "threshold_met": self.threshold_met,
            "steps": [astuple(step) for step in self.steps],
            "probe": [astuple(step) for step in self.probe],
            "probe_scatter": self.probe_scatter,
            "row_rounding": self.row_rounding,
            "update_rounding": self.update_rounding,
            "saddle_point": None if self.saddle_point is None else self.saddle_point.evidence(),
            "anchor": None if self.anchor is None else self.anchor.evidence(),
            "cut": None if self.cut is None else self.cut.evidence(),
            **({} if self.weight is None else {"weight": self.weight, "byzantine_weight": self.byzantine_weight}),
        }

    @classmethod
    def from_evidence(cls, evidence: Mapping[str, Any]) -> Certificate:
        """Return the certificate that evidence is about, so that it can be asked about any σ₀ long after the round.

        Only `direction` and the matrices of the saddle point are lost. What is proved in the modes "exact" and "lazy"
        is the same, so evidence from before there was a "lazy", which calls that mode "exact", keeps its meaning.

        Raises:
            ParameterError: something is missing or is not what `evidence` writes.
        """
        try:
            return cls(
                mode=str(evidence["mode"]),
                num_rows=int(evidence["num_rows"]),
                num_byzantine=int(evidence["num_byzantine"]),
                sigma0=float(evidence["sigma0"]),
                spread=float(evidence["spread"]),
                removed=float(evidence["weight_removed"]),
                steps=tuple(Step(*step) for step in evidence["steps"]),
                probe=tuple(Step(*step) for step in evidence["probe"]),
                probe_scatter=float(evidence["probe_scatter"]),
                coefficients=torch.empty(0, dtype=torch.float64),
                too_many_unusable=bool(evidence["too_many_unusable"]),
                threshold_met=bool(evidence["threshold_met"]),
                failure_probability=float(evidence.get("failure_probability", not evidence["proved"])),
                largest_sigma0=math.inf if (largest := evidence.get("largest_sigma0")) is None else float(largest),
                row_rounding=float(evidence.get("row_rounding", 0.0)),
                update_rounding=float(evidence.get("update_rounding", 0.0)),
                saddle_point=SaddlePoint.from_evidence(point) if (point := evidence.get("saddle_point")) else None,
                anchor=Anchor.from_evidence(anchor) if (anchor := evidence.get("anchor")) else None,
                cut=Cut.from_evidence(cut) if (cut := evidence.get("cut")) else None,
                weight=None if (weight := evidence.get("weight")) is None else float(weight),
                byzantine_weight=None if weight is None else float(evidence["byzantine_weight"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ParameterError(
                f"not the evidence of a certificate: {type(error).__name__} {error}; expected what `evidence()` returns"
            ) from None

    def _sigma(self, sigma0: float | None) -> float:
        if sigma0 is None:
            return self.assumed_sigma0
        try:
            sigma = float(sigma0)
        except (TypeError, ValueError):
            sigma = math.nan
        if not 0.0 <= sigma < LARGEST_SIGMA0:
            raise ParameterError(f"sigma0 must be a number from 0 to {LARGEST_SIGMA0:g}, got {sigma0!r}")
        return sigma

    def _promised(self, sigma: float) -> float:
        """Return how large the scatter of S may look: (n − f) σ₀², and what rounding may add."""
        return (self.total - self.bad) * (sigma**2 + self.row_rounding**2)

    def _bound_of(self, removed: float, spread: float, lost: float, sigma: float, noise: float) -> float:
        """Return (1) for weights of which so much was removed, at most `lost` from S.

        Rounding moves a variance of the rows by at most `noise`, ρ² for the update's weights. It is 4γ Σ π_i ‖x_i‖²,
        and the anchor's shares are at most m/m′ times the update's (section 7).
        """
        bad = max(0.0, self.bad - removed + lost)
        honest = self.total - self.bad - lost
        if honest <= 0.0:
            return math.inf
        return math.sqrt((spread + noise) * bad / honest) + math.sqrt((sigma**2 + noise) * lost / honest)

    def _distance_to(self, anchor: Anchor) -> float:
        """Return how far the update may be from the anchor's mean, as their distance was computed with rounded rows.

        Its square zᵀQz, z the difference of two sets of shares, errs by γ (Σ|z_i|‖x_i‖)² ≤ 2γ Σ (π_i + π′_i) ‖x_i‖²;
        ρ² is 4γ Σ π_i ‖x_i‖², and the anchor's shares π′ are at most m/m′ times the update's (section 7).
        """
        mass, below = self.total - self.removed, self.total - anchor.weight_removed
        return math.sqrt(anchor.distance**2 + self.row_rounding**2 * (1.0 + mass / below) / 2.0)

    def _honest_weight_lost(self, steps: tuple[Step, ...], removed: float, sigma: float) -> float:
        """Return U, an upper bound of the weight that the rows of S have lost."""
        _, lost = self._follow(steps, sigma)[-1]
        # Algorithm 2 drops a row once it has lost half its weight, so at most 2 U rows of S are gone.
        return min(removed, 2.0 * lost if self.mode in ALGORITHM_2 else lost)

    def _lost_of_update(self, sigma: float) -> float:
        """Return U of the update; if it was cut, what S has lost is as linear in the weights as all that was taken."""
        if self.cut is None:
            return self._honest_weight_lost(self.steps, self.removed, sigma)
        at_anchor, at_state = (self._follow(steps, sigma)[-1][1] for steps in (self.cut.steps, self.steps))
        return min(self.removed, at_anchor + self.cut.way * (at_state - at_anchor))

    def _follow(self, steps: tuple[Step, ...], sigma: float) -> list[tuple[float, float]]:
        """Return (D, U) before every step and after the last one: recursion (2)."""
        n, f = self.total, self.bad
        promised = self._promised(sigma)
        taken = lost = 0.0
        trail = [(taken, lost)]
        for step in steps:
            if self.mode in ALGORITHM_2:
                responds = n - f - 2.0 * lost >= resilience(f / n) * n - ROUNDING  # the mean of S ∩ A is a column of W
                pull = 0.0 if responds else 1.0
            else:
                pull = max(0.0, f - taken + lost) / step.mass
            share = (promised + step.excess) / step.scatter + pull if step.scatter > 0.0 else 1.0
            taken, lost = taken + step.removed, lost + min(1.0, share) * step.removed
            trail.append((taken, min(lost, taken)))
        return trail
