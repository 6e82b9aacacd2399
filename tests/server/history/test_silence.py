"""When silence is too much for what is assumed of those who replied."""

from __future__ import annotations

from typing import Any

import pytest

from steadfed.server._history import silence_of, weak_ratio
from steadfed.server._history.silence import listed
from steadfed.server._record import RoundRecord

NAMES = tuple(f"node-{number}" for number in range(12))


def a_round(asked: int, replied: int, assumed: int | None, **facts: Any) -> RoundRecord:
    given = {"certificate": {"mode": "auto"}, "num_byzantine": assumed, "received": NAMES[:replied], **facts}
    return RoundRecord(round=3, step=4, lr=0.1, cohort=NAMES[:asked], **given)


@pytest.mark.parametrize(
    ("asked", "replied", "assumed"),
    [(8, 8, 2), (12, 10, 2), (5, 4, 1), (12, 10, 0), (12, 10, None), (10, 9, 3)],
    ids=["all", "as-many-as-f", "exactly-a-quarter", "nothing-assumed", "f-not-known", "above-from-the-start"],
)
def test_enough_replies_are_no_matter(asked: int, replied: int, assumed: int | None) -> None:
    assert silence_of(a_round(asked, replied, assumed)) is None


def test_more_silent_clients_than_assumed_are_named_with_the_ratio() -> None:
    found = silence_of(a_round(5, 3, 1))
    assert found is not None
    assert found.too_many
    assert (found.round, found.silent) == (3, ("node-3", "node-4"))
    assert found.why == (
        "2 of 5 were silent: node-3, node-4; more than the 1 client assumed to be Byzantine "
        "(f/n = 1/3 = 33 % of those who replied)"
    )


def test_a_ratio_that_silence_pushed_above_a_quarter_is_told_where_a_filter_took_a_step() -> None:
    found = silence_of(a_round(8, 7, 2))
    assert found is not None
    assert not found.too_many
    assert found.why.endswith("f/n = 2/7 = 29 % of those who replied, and what RAGE proves is good up to 25 %")
    assert silence_of(a_round(8, 7, 2, certificate=None)) is None
    assert silence_of(a_round(8, 7, 2, skipped=True)) is None


def test_nobody_replied_is_too_many_whatever_is_assumed() -> None:
    found = silence_of(a_round(2, 0, None, skipped=True, certificate=None))
    assert found is not None
    assert found.too_many
    assert found.why == "2 of 2 were silent: node-0, node-1; nobody replied"


def test_a_malformed_reply_is_not_silence_and_an_empty_cohort_is_none() -> None:
    assert silence_of(a_round(4, 4, 1, unusable=("node-3",))) is None
    assert silence_of(a_round(0, 0, None, skipped=True)) is None


def test_long_lists_are_cut_and_letters_do_nothing() -> None:
    assert listed([*NAMES], most=2) == "node-0, node-1 and 10 others"
    assert listed(["\x1b[2J"]) == "\\x1b[2J"


def test_a_weak_ratio_is_told_whatever_made_it_so() -> None:
    assert weak_ratio(a_round(3, 3, 1)) == (
        "f/n = 1/3 = 33 % of those who replied, and what RAGE proves is good up to 25 %"
    )
    assert weak_ratio(a_round(4, 4, 1)) is None
    assert weak_ratio(a_round(3, 3, 1, certificate=None)) is None
    assert weak_ratio(a_round(3, 3, 1, skipped=True)) is None
