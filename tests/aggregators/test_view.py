"""What a server may tell a rule: refused unless it fits, and said how."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from steadfed.aggregators import Bucketing, FlTrust, Krum, Median, Rage, ServerView
from steadfed.errors import (
    CohortTooSmallError,
    DtypeError,
    InputError,
    MissingKnowledgeError,
    ParameterError,
    ShapeError,
)

ROWS = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))


def test_a_rule_says_what_it_must_know_and_how_to_tell_it() -> None:
    with pytest.raises(MissingKnowledgeError, match=r"FlTrust\(\) needs an update of the server's own.*trusted_row="):
        FlTrust()(ROWS)


@pytest.mark.parametrize(
    ("trusted", "error"),
    [
        (torch.ones(3), ShapeError),
        (torch.ones(1, 4), ShapeError),
        ([1.0, 1.0, 1.0, 1.0], ShapeError),
        (torch.full((4,), float("nan")), ShapeError),
        (torch.ones(4, dtype=torch.int64), DtypeError),
        (torch.ones(4, dtype=torch.complex64), DtypeError),
        (torch.ones(4).to_sparse(), DtypeError),
        (torch.ones(4, device="meta"), DtypeError),
    ],
)
def test_a_trusted_row_that_does_not_fit_is_refused(trusted: Any, error: type[InputError]) -> None:
    with pytest.raises(error, match="an update of the server's own"):
        FlTrust()(ROWS, ServerView(trusted_row=trusted))


@pytest.mark.parametrize(
    "change", [{"round": -1}, {"round": 1.5}, {"round": True}, {"memory": None}, {"cohort_size": 0}]
)
def test_an_impossible_view_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(change))):
        ServerView(**change)


def test_clients_are_named_once_each() -> None:
    with pytest.raises(ShapeError, match="name each of the 9 updates once"):
        Bucketing(rule=Krum(num_byzantine=1))(ROWS, ServerView(clients=["a"] * 9))


def test_a_coordinate_wise_rule_does_not_claim_that_everybody_entered() -> None:
    rows = ROWS.clone()
    rows[0] += 50.0
    result = Median()(rows)
    assert 0 in result.removed
    assert "some of them only" in str(result.stop)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_fraction_is_of_those_who_were_asked(*, wrapped: bool) -> None:
    plain = Rage(byzantine_fraction=0.25)
    rule = Bucketing(rule=plain, size=1) if wrapped else plain
    assert rule(ROWS).num_byzantine == 3
    assert rule(ROWS, ServerView(cohort_size=16)).num_byzantine == 4
    with pytest.raises(CohortTooSmallError, match="5 Byzantine of 9 updates"):
        rule(ROWS, ServerView(cohort_size=20))


def test_a_number_and_a_rule_of_its_own_mind_do_not_ask_who_was_asked() -> None:
    assert Krum(num_byzantine=2)(ROWS, ServerView(cohort_size=40)).num_byzantine == 2
    assert Median()(ROWS, ServerView(cohort_size=40)).num_byzantine == Median()(ROWS).num_byzantine
