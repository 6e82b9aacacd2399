"""What a rule or an attack of one's own keeps and breaks, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests import own_code
from tests.own_code import HERE

from steadfed.aggregators import Claim, Median
from steadfed.attacks import SignFlip
from steadfed.errors import ParameterError
from steadfed.testing import check_contract


def test_a_function_claims_nothing_and_what_it_keeps_is_measured() -> None:
    found = check_contract(own_code.median)
    assert set(found.but_not) == {Claim.ROTATION.value, Claim.LINEARITY.value}
    assert set(found.also) | set(found.but_not) == {claim.value for claim in Claim}
    assert str(found).startswith(
        f"{HERE}:median keeps the contract: 9 checks passed\n  of what most rules keep, it keeps:"
    )
    assert "does not keep:\n    a rotation of all rows rotates the update: a rotation must rotate" in str(found)


def test_paths_classes_and_objects_will_do() -> None:
    assert not check_contract(f"{HERE}:trimmed", num_byzantine=3, share=0.5).broken
    assert len(check_contract(own_code.Nearest, num_byzantine=3).kept) == 9
    with pytest.raises(AssertionError, match=r"First\(num_byzantine=3\) breaks the contract in 2 of 16 checks"):
        check_contract(f"{HERE}:First", num_byzantine=3)
    assert check_contract(Median()).name == "Median()"
    assert len(check_contract(own_code.Zeros()).kept) == 11
    assert len(check_contract(SignFlip).kept) == 11


def test_an_attack_is_one_if_it_is_said() -> None:
    assert len(check_contract(own_code.turned, kind="attack").kept) == 11
    assert len(check_contract(f"{HERE}:noisy", kind="attack").kept) == 11


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (own_code.random, r"breaks the contract in 2 of 9 checks\n  pure: two calls must give the same bits"),
        (own_code.of_torch, r"in 8 of 9 checks\n  well formed, pure, .*: OwnCodeError: .* take \.values$"),
        (lambda updates: updates.mean(0).float().sum(), r"one number for each of the 40 columns, got shape \(\)"),
    ],
)
def test_everything_that_is_broken_is_said_at_once(own: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_contract(own)


def test_a_broken_attack_says_so_too() -> None:
    def drawn(honest_updates: torch.Tensor) -> torch.Tensor:
        return torch.rand(honest_updates.shape[1])

    with pytest.raises(AssertionError, match="pure: two calls must give the same bits"):
        check_contract(drawn, kind="attack")


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(ParameterError, match="expected a rule or an attack, a function, or its import path; got 3"):
        check_contract(3)
    with pytest.raises(ParameterError, match="has its parameters already"):
        check_contract(Median(), num_byzantine=2)


def test_a_long_reason_is_cut() -> None:
    report = check_contract(own_code.median)
    long = replace(report, broken={"pure": "x" * 1000, "bad rows": "x" * 1000})
    assert "  pure, bad rows: xxx" in str(long)
    assert max(map(len, str(long).splitlines()[:2])) < 300
