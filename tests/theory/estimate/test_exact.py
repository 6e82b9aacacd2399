"""Which problems are known exactly."""

from __future__ import annotations

import pytest
from tests.theory.estimate.problems import PROBLEMS, SHARES

from steadfed.models import LogisticRegression, SoftmaxRegression
from steadfed.theory.estimate import exact_constants, exact_smoothness

pytestmark = pytest.mark.portable

KNOWN = ("quadratic", "logistic", "softmax")


@pytest.mark.parametrize("name", KNOWN)
def test_convex_problems_are_known(name: str) -> None:
    found = exact_constants(*PROBLEMS[name], SHARES)
    assert found is not None
    assert 0 < found.strong_convexity < found.smoothness
    assert exact_smoothness(*PROBLEMS[name], SHARES) == (found.smoothness, found.client_smoothness)


@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - set(KNOWN)))
def test_networks_are_not(name: str) -> None:
    assert exact_constants(*PROBLEMS[name], SHARES) is None
    assert exact_smoothness(*PROBLEMS[name], SHARES) is None


def test_without_l2_only_the_smoothness_is_known() -> None:
    for model, name in ((LogisticRegression(), "logistic"), (SoftmaxRegression(), "softmax")):
        known = exact_smoothness(*PROBLEMS[name], SHARES)
        found = exact_smoothness(model, PROBLEMS[name][1], SHARES)
        assert known is not None
        assert found == pytest.approx([each - 0.1 for each in known])
        assert exact_constants(model, PROBLEMS[name][1], SHARES) is None
