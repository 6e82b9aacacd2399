"""What a run is judged by: one verdict for every assumption, the filter, and every theorem."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import final


class Outcome(StrEnum):
    """What became of an assumption or a guarantee."""

    HELD = "held"
    FAILED = "did not hold"
    VACUOUS = "says nothing"
    """It guarantees nothing of this run, so that it was kept to means nothing."""
    UNKNOWN = "not measured"
    INAPPLICABLE = "does not apply"


class Subject(StrEnum):
    """What is judged."""

    ASSUMPTION = "assumption"
    FILTER = "filter"
    GUARANTEE = "guarantee"


@final
@dataclass(frozen=True)
class Verdict:
    """One judgement with its reason."""

    subject: Subject
    name: str
    outcome: Outcome
    because: str
    contradiction: bool = False
    """Whether something was proved and measured not to be so."""


on_assumption = partial(Verdict, Subject.ASSUMPTION)
on_filter = partial(Verdict, Subject.FILTER)
on_guarantee = partial(Verdict, Subject.GUARANTEE)


def outcome_of(*, held: bool) -> Outcome:
    """Return what became of something that was measured."""
    return Outcome.HELD if held else Outcome.FAILED
