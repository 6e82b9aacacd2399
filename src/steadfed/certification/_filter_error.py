"""Judging the filter: how far its updates were off, against what its certificates prove."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from steadfed._core.wording import percent
from steadfed.certification._rounds import RoundFacts
from steadfed.certification._verdicts import Outcome, Verdict, on_filter, outcome_of

CERTIFIED = "error against the certificate"
_MOSTLY = 0.5
"""A certificate whose σ₀ honest updates exceeded in a larger share of the measured rounds says nothing."""


def judge_errors(rounds: Sequence[RoundFacts]) -> tuple[Verdict, ...]:
    """Judge the measured error, where it is known who was honest."""
    if not _has_certificates(rounds):
        because = "the rule gives no certificate" if rounds else "no round was run"
        return (on_filter("error", Outcome.INAPPLICABLE, because),)
    return _judge_proved_error(rounds), _judge_certified_error(rounds)


def judge_certificates(rounds: Sequence[RoundFacts]) -> Verdict:
    """Say what the certificates prove of the error, which nobody can measure without the honest updates."""
    bounds = [each.certificate for each in rounds if each.certificate is not None]
    if not _has_certificates(rounds):
        because = "the rule gives no certificate" if rounds else "no round was aggregated"
        return on_filter(CERTIFIED, Outcome.INAPPLICABLE, because)
    if not bounds:
        return on_filter(CERTIFIED, Outcome.UNKNOWN, "no round has a certificate that proves anything")
    proved = f"at most {statistics.median(bounds):.4g} in the middle round and {max(bounds):.4g} in the worst"
    because = (
        f"the honest updates are not known; what {len(bounds)} of {len(rounds)} rounds prove is an error of {proved}, "
        f"if honest updates spread no more than {_sigma0(rounds[0])}"
    )
    failures = [each.failure_probability for each in rounds if each.certificate is not None]
    if any(failures):
        share = percent(max(failures))
        because += f"; {np.count_nonzero(failures)} rounds saw a sketch, and each fails with probability {share}"
    return on_filter(CERTIFIED, Outcome.UNKNOWN, because)


def _has_certificates(rounds: Sequence[RoundFacts]) -> bool:
    return any(each.constant is not None or each.certificate is not None for each in rounds)


def _judge_certified_error(rounds: Sequence[RoundFacts]) -> Verdict:
    """Judge the certificate as the server sees it: it is about honest updates that spread no more than some σ₀."""
    certified = [each for each in rounds if each.certificate is not None and each.error is not None]
    if not certified:
        return on_filter(CERTIFIED, Outcome.UNKNOWN, "no round has a certificate that proves anything")
    beyond = [each for each in certified if each.exceeds_certificate]
    wrong = any(each.exceeds_honest_bound for each in beyond)
    looked = [each for each in rounds if each.spread_kept is not None]
    wide = sum(not each.spread_kept for each in looked)
    share = _largest_share([(each.error, each.certificate) for each in certified])
    because = f"{len(beyond)} of {len(certified)} rounds above it{share}; it rests on {_sigma0(certified[0])}"
    because += f", which honest updates exceeded in {wide} of {len(looked)} measured rounds" if looked else ""
    outcome = outcome_of(held=not beyond)
    if not beyond and wide > _MOSTLY * len(looked):
        outcome, because = Outcome.VACUOUS, f"{because}, of which it says nothing"
    return on_filter(CERTIFIED, outcome, because, contradiction=wrong)


def _judge_proved_error(rounds: Sequence[RoundFacts]) -> Verdict:
    """Judge what is proved without any estimate: the certificate at the true honest spread."""
    name = f"{CERTIFIED} at the true σ₀"
    judged = [each for each in rounds if each.honest_bound is not None and each.error is not None]
    if not judged:
        because = "no measured round in which the assumption held and something is proved"
        return on_filter(name, Outcome.UNKNOWN, because)
    beyond = [each for each in judged if each.exceeds_honest_bound]
    likely = [each for each in judged if each.failure_probability]
    unlucky = [each for each in likely if each.exceeds_likely_bound]
    share = _largest_share([(each.error, each.honest_bound) for each in judged])
    because = f"{len(beyond) + len(unlucky)} of {len(judged)} measured rounds above it{share}"
    if likely:
        failure = percent(max(each.failure_probability for each in likely))
        because += f"; {len(likely)} were seen through sketches, where it fails with probability {failure}"
    constants = [
        (each.measured_constant, each.constant)
        for each in judged
        if each.measured_constant is not None and each.constant is not None
    ]
    if constants:
        largest, proved = max(constants)
        because += f"; error / (σ₀√ε̃) is at most {largest:.3g}, proved is C = {proved:.3g}"
    return on_filter(name, outcome_of(held=not beyond and not unlucky), because, contradiction=bool(beyond))


def _sigma0(facts: RoundFacts) -> str:
    return "the rule's own σ₀" if facts.own_sigma0 else f"σ₀ = {facts.sigma0:g}"


def _largest_share(pairs: list[tuple[float | None, float | None]]) -> str:
    shares = [error / bound for error, bound in pairs if error is not None and bound]
    return f", at most {percent(max(shares))} of it" if shares else ""
