"""Judging rounds by what the server of a deployment saw: replies and certificates, never who lied."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.aggregators.rage.certificate import Certificate
from holdfast.certification.rounds import RoundFacts
from holdfast.certification.verdicts import Outcome, Subject, Verdict
from holdfast.server.history import Fate, Tally, fate_of_fault
from holdfast.server.record import RoundRecord

COHORTS = "Byzantine rows in a cohort"
_UNKNOWN = "who was Byzantine is not known, so it may have been more than assumed"


def as_the_server_saw(
    judged: Sequence[Verdict], records: Sequence[RoundRecord], facts: Sequence[RoundFacts]
) -> tuple[Verdict, ...]:
    """Return the verdicts on a run with those replaced that need to know who was Byzantine.

    A bound that was exceeded is no contradiction then: its conditions may not have held.
    """
    kept = [each for each in judged if each.subject is Subject.ASSUMPTION and each.name != COHORTS]
    bounds = [_unsworn(each) for each in judged if each.subject is Subject.GUARANTEE]
    return (*kept, cohorts(records), arrivals(records), certified(facts), *bounds)


def cohorts(records: Sequence[RoundRecord], sigma0: float | None = None) -> Verdict:
    """Judge the assumed number of Byzantine rows: malformed replies and contradictions to the promise disprove it."""
    rounds = [record for record in records if record.received or _malformed_rows(record)]
    if not rounds:
        because = "no round with a reply was played"
        return Verdict(subject=Subject.ASSUMPTION, name=COHORTS, outcome=Outcome.UNKNOWN, because=because)
    most = max(_malformed_rows(record) for record in rounds)
    broken = [(record.round, why) for record in rounds if (why := _disproof(record, sigma0))]
    seen = f"at most {most} malformed replies in a round"
    if broken:
        number, why = broken[0]
        because = f"{seen}; disproved in {len(broken)} of {len(rounds)} rounds, first in round {number}: {why}"
        return Verdict(subject=Subject.ASSUMPTION, name=COHORTS, outcome=Outcome.FAILED, because=because)
    assumed = [record.num_byzantine for record in rounds if record.num_byzantine is not None]
    told = f"; the rule assumes {max(assumed)}" if assumed else ""
    because = f"{seen}{told}, which no round disproves; how many well-formed rows lied is not known"
    return Verdict(subject=Subject.ASSUMPTION, name=COHORTS, outcome=Outcome.UNKNOWN, because=because)


def arrivals(records: Sequence[RoundRecord]) -> Verdict:
    """Judge whether every client that was asked replied, as in Algorithm 1."""
    name = "all K rows arrive"
    if not records:
        return Verdict(subject=Subject.ASSUMPTION, name=name, outcome=Outcome.UNKNOWN, because="no round was played")
    tallies = [Tally.of(record) for record in records]
    asked, missing = (sum(getattr(tally, name) for tally in tallies) for name in ("asked", "absent"))
    if not missing:
        because = f"{asked:,} of {asked:,} replies in {len(records)} rounds"
        return Verdict(subject=Subject.ASSUMPTION, name=name, outcome=Outcome.HELD, because=because)
    causes = Counter(
        drop.fault for record in records for drop in record.drops if fate_of_fault(drop.fault) is Fate.ABSENT
    )
    listed = ", ".join(f"{fault} {count:,}×" for fault, count in causes.most_common())
    rounds = sum(bool(tally.absent) for tally in tallies)
    because = f"{missing:,} of {asked:,} replies missing, in {rounds} of {len(records)} rounds"
    because += f" ({listed})" if listed else ""
    return Verdict(subject=Subject.ASSUMPTION, name=name, outcome=Outcome.FAILED, because=because)


def certified(facts: Sequence[RoundFacts]) -> Verdict:
    """Say what the certificates prove of the filter's error, which nobody can measure without the honest rows."""
    name = "error against the certificate"
    bounds = [each.certificate for each in facts if each.certificate is not None]
    if not any(each.constant is not None for each in facts):
        because = "the rule gives no certificate" if facts else "no round was aggregated"
        return Verdict(subject=Subject.FILTER, name=name, outcome=Outcome.INAPPLICABLE, because=because)
    if not bounds:
        because = "no round has a certificate that proves anything"
        return Verdict(subject=Subject.FILTER, name=name, outcome=Outcome.UNKNOWN, because=because)
    about = "the rule's own σ₀" if facts[0].own_sigma0 else f"σ₀ = {facts[0].sigma0:g}"
    proved = f"at most {statistics.median(bounds):.4g} in the middle round and {max(bounds):.4g} in the worst"
    because = (
        f"the honest rows are not known; what {len(bounds)} of {len(facts)} rounds prove is an error of {proved}, if "
        f"honest rows spread no more than {about}"
    )
    return Verdict(subject=Subject.FILTER, name=name, outcome=Outcome.UNKNOWN, because=because)


def _malformed_rows(record: RoundRecord) -> int:
    """Return how many replies of a round were no models, or models without usable numbers."""
    tally = Tally.of(record)
    return tally.malformed + tally.unusable


def _disproof(record: RoundRecord, sigma0: float | None) -> str:
    """Return why a round cannot have kept to the assumed number of Byzantine rows; nothing if it may have."""
    bad = _malformed_rows(record)
    if record.num_byzantine is not None and bad > record.num_byzantine:
        return f"{bad} malformed replies, {record.num_byzantine} assumed"
    if record.promise_broken:
        return record.reason or "the rule found its promise broken"
    if not record.certificate or _fits(record.certificate, sigma0):
        return ""
    return "the rows cannot have so few Byzantine ones and honest ones that spread no more than σ₀"


def _fits(proof: Mapping[str, Any], sigma0: float | None) -> bool:
    """Tell whether the rows of a certificate may have kept to its promise, at its own σ₀ or at the given one."""
    if sigma0 is None:
        return bool(proof.get("consistent", True))
    return Certificate.from_evidence(proof).is_consistent(sigma0)


def _unsworn(verdict: Verdict) -> Verdict:
    if verdict.outcome not in {Outcome.HELD, Outcome.FAILED}:
        return verdict
    return replace(verdict, contradiction=False, because=f"{verdict.because}; {_UNKNOWN}")
