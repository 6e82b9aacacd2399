"""What the records of a run say about the theorems' assumptions and the filter's guarantees, round by round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from steadfed.aggregators._rage.certificate import Certificate
from steadfed.aggregators._rage.constants import filter_constant
from steadfed.errors import CorruptRunError
from steadfed.server._history import Tally
from steadfed.server._record import RoundRecord

ROUNDING = 1e-5
"""By which part of itself a bound may be exceeded: what float32 updates and their mean are known to."""


@final
@dataclass(frozen=True, kw_only=True)
class RoundFacts:
    """One round: who was there, how far the filter was off, and what was proved of that."""

    round: int
    skipped: bool
    """Whether it changed nothing, so that nothing is known of the filter."""
    received: int
    """How many updates arrived."""
    known_byzantine: int
    """How many of them were Byzantine, as far as the records know: malformed and unusable ones are."""
    assumed: int
    """How many the rule assumed."""
    update_norm: float | None
    error: float | None
    """‖ĝ − mean of the honest updates‖."""
    certificate: float | None
    """What the certificate proves of the error if the honest updates spread no more than `sigma0`."""
    honest_bound: float | None
    """What it proves with the true honest spread; in measured rounds, if the assumption held."""
    sigma0: float | None
    """σ₀ that the certificate is asked about: what the rule was given or found, or what was given."""
    own_sigma0: bool
    """Whether that is the rule's own."""
    spread: float | None
    """λ_max of the covariance of the honest updates, in measured rounds."""
    constant: float | None
    """C, the proved constant of the rule's mode for these updates."""
    failure_probability: float
    """With what probability the certificate may be false, as it is when a sketch was used; 1 for an estimate."""

    @property
    def assumption_held(self) -> bool:
        """Whether no more updates were Byzantine than the rule assumed."""
        return self.known_byzantine <= self.assumed

    @property
    def spread_kept(self) -> bool | None:
        """Whether the honest updates spread no more than that σ₀; None if it was not measured."""
        if self.spread is None or self.sigma0 is None:
            return None
        return self.spread <= self.sigma0**2 * (1.0 + ROUNDING)

    @property
    def exceeds_certificate(self) -> bool:
        """Whether the error was larger than the certificate says for that σ₀."""
        return self._exceeds(self.certificate)

    @property
    def exceeds_honest_bound(self) -> bool:
        """Whether the error was larger than what is proved of it for certain: that must not be."""
        return not self.failure_probability and self._exceeds(self.honest_bound)

    @property
    def exceeds_likely_bound(self) -> bool:
        """Whether the error was larger than what a sketch certifies of it: that may be, with a small probability."""
        return bool(self.failure_probability) and self._exceeds(self.honest_bound)

    @property
    def measured_constant(self) -> float | None:
        """‖ĝ − mean‖ / (σ₀ √ε̃) with the true σ₀, to compare with C; None if it is not measured."""
        if self.error is None or not (self.spread and self.assumed and self.received and self.assumption_held):
            return None
        return self.error / math.sqrt(self.spread * self.assumed / self.received)

    def _exceeds(self, bound: float | None) -> bool:
        if self.error is None or bound is None:
            return False
        return self.error > bound * (1.0 + ROUNDING) + ROUNDING * (self.update_norm or 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return the facts as plain values."""
        return {**vars(self), "assumption_held": self.assumption_held, "measured_constant": self.measured_constant}


def facts_of(
    records: Iterable[RoundRecord], *, kappa: float | None = None, sigma0: float | None = None
) -> tuple[RoundFacts, ...]:
    """Return the facts of every round; certificates asked about a σ₀ if one is given."""
    return tuple(_readable_facts(record, kappa, sigma0) for record in records)


def _readable_facts(record: RoundRecord, kappa: float | None, sigma0: float | None) -> RoundFacts:
    """Return the facts of a round.

    Raises:
        CorruptRunError: its certificate is not what a rule writes.
    """
    try:
        return _facts(record, kappa, sigma0)
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        raise CorruptRunError(f"the certificate of round {record.round} is not what a run writes: {error}") from None


def _facts(record: RoundRecord, kappa: float | None, sigma0: float | None) -> RoundFacts:
    tally, proof = Tally.of(record), record.certificate or {}
    failure = Certificate.from_evidence(proof).failure_probability if proof else 0.0
    if failure == 1.0:
        proof = {}  # an estimate proves nothing
    received, assumed = tally.received, record.num_byzantine or 0
    return RoundFacts(
        round=record.round,
        skipped=record.skipped,
        received=received,
        known_byzantine=tally.known_byzantine,
        assumed=assumed,
        update_norm=record.update_norm,
        error=record.error,
        certificate=_certified_bound(proof, sigma0),
        honest_bound=record.honest_error_bound if failure < 1.0 else None,
        sigma0=record.sigma0 if sigma0 is None else sigma0,
        own_sigma0=sigma0 is None,
        spread=record.honest_spread,
        constant=_constant(proof, kappa) if proof and not failure else None,
        failure_probability=failure,
    )


def _constant(proof: Mapping[str, Any], kappa: float | None) -> float:
    """Return C of the mode of a certificate for the f that was used, which is proved for the updates themselves."""
    rows = proof["num_rows"]
    return filter_constant(proof["mode"], proof["num_byzantine"] / rows, kappa=kappa, num_rows=rows)


def _certified_bound(proof: Mapping[str, Any], sigma0: float | None) -> float | None:
    """Return what a certificate proves of the error; None if nothing."""
    if sigma0 is None or not proof:
        return proof.get("error_bound")
    bound = Certificate.from_evidence(proof).error_bound(sigma0)
    return bound if math.isfinite(bound) else None
