"""The filter's error against its certificates, and when a certificate says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from steadfed.certification import Outcome, Verdict
from steadfed.certification._filter_error import CERTIFIED, judge_certificates, judge_errors
from steadfed.certification._rounds import RoundFacts


def a_round(number: int, **changes: Any) -> RoundFacts:
    """Return a round of ten rows whose certificate rests on σ₀ = 1 and whose error is half of it."""
    facts: dict[str, Any] = {
        "round": number,
        "received": 10,
        "skipped": False,
        "known_byzantine": 1,
        "assumed": 2,
        "update_norm": 1.0,
        "error": 0.5,
        "certificate": 1.0,
        "honest_bound": None,
        "sigma0": 1.0,
        "own_sigma0": True,
        "spread": None,
        "constant": 6.0,
        "failure_probability": 0.0,
    }
    return RoundFacts(**{**facts, **changes})


def judged(rounds: list[RoundFacts]) -> Verdict:
    """Return the verdict on the certificate as the server sees it."""
    return next(each for each in judge_errors(rounds) if each.name == CERTIFIED)


@pytest.mark.parametrize(
    ("wide", "outcome"), [(0, Outcome.HELD), (25, Outcome.HELD), (26, Outcome.VACUOUS), (45, Outcome.VACUOUS)]
)
def test_a_certificate_whose_spread_was_mostly_exceeded_says_nothing(wide: int, outcome: Outcome) -> None:
    verdict = judged([a_round(number, spread=4.0 if number < wide else 0.9) for number in range(50)])
    assert verdict.outcome is outcome
    assert f"which honest updates exceeded in {wide} of 50 measured rounds" in verdict.because
    assert ("of which it says nothing" in verdict.because) == (outcome is Outcome.VACUOUS)
    assert not verdict.contradiction


def test_rounds_that_were_not_measured_take_nothing_away() -> None:
    assert judged([a_round(number) for number in range(5)]).outcome is Outcome.HELD


def test_an_error_above_the_certificate_is_told_whatever_the_spread_was() -> None:
    verdict = judged([a_round(number, spread=4.0, error=3.0) for number in range(5)])
    assert verdict.outcome is Outcome.FAILED
    assert "5 of 5 rounds above it" in verdict.because


def test_without_the_honest_rows_the_certificates_are_stated() -> None:
    verdict = judge_certificates([a_round(0), a_round(1, certificate=3.0)])
    assert verdict.outcome is Outcome.UNKNOWN
    assert "at most 2 in the middle round and 3 in the worst" in verdict.because


def test_what_a_sketch_certifies_may_fail_with_a_probability_that_is_stated() -> None:
    rounds = [a_round(0, failure_probability=0.001, constant=None), a_round(1)]
    assert "1 rounds saw a sketch, and each fails with probability 0.1 %" in judge_certificates(rounds).because


def test_an_error_above_what_a_sketch_certifies_fails_and_contradicts_nothing() -> None:
    rounds = [a_round(0, honest_bound=0.1, failure_probability=0.001, constant=None), a_round(1, honest_bound=1.0)]
    verdict = judge_errors(rounds)[0]
    assert verdict.outcome is Outcome.FAILED
    assert not verdict.contradiction
    assert "1 of 2 measured rounds above it" in verdict.because
    certain = judge_errors([a_round(0, honest_bound=0.1)])[0]
    assert certain.contradiction
