"""Variances, tolerated fractions, step sizes; and every public function names where in the paper it stands."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

from steadfed._core.rng import stream
from steadfed.errors import ParameterError
from steadfed.theory import paper

LABEL = re.compile(r"Paper: .*(thm:|lem:|claim:|fact:|eq\. |reduced_variance|sec:)", re.DOTALL)
FUNCTIONS = [name for name in paper.__all__ if inspect.isfunction(getattr(paper, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_names_a_label_of_the_paper(name: str) -> None:
    assert LABEL.search(inspect.getdoc(getattr(paper, name)) or ""), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_takes_keywords_only_and_shows_an_example(name: str) -> None:
    function = getattr(paper, name)
    assert all(p.kind is p.KEYWORD_ONLY for p in inspect.signature(function).parameters.values())
    assert ">>>" in (inspect.getdoc(function) or "")


def test_variance_of_a_minibatch_is_divided_by_its_size() -> None:
    assert paper.minibatch_variance(gradient_variance=3.0, batch_size=6) == 0.5


def test_a_full_batch_without_replacement_has_no_variance() -> None:
    assert paper.variance_without_replacement(gradient_variance=3.0, batch_size=7, num_points=7) == 0.0
    assert paper.variance_without_replacement(gradient_variance=3.0, batch_size=1, num_points=1) == 0.0


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_variance_without_replacement_is_the_true_one(size: int) -> None:
    points = np.array([0.0, 1.0, 3.0, -2.0, 7.0, 1.5, -1.0, 4.0])
    rng = stream(0, "batches", size)
    batches = np.array([rng.permutation(points)[:size].mean() for _ in range(20_000)])
    stated = paper.variance_without_replacement(gradient_variance=points.var(), batch_size=size, num_points=8)
    assert batches.var() == pytest.approx(stated, rel=0.05, abs=1e-12)
    assert stated <= paper.minibatch_variance(gradient_variance=points.var(), batch_size=size) + 1e-12


def test_the_tolerated_fraction_keeps_the_cohort_below_a_quarter() -> None:
    for size, slack in ((40, 0.0), (40, 0.05), (100, 0.2)):
        fraction = paper.tolerated_fraction(cohort_size=size, num_clients=100, slack=slack)
        share = paper.cohort_fraction(byzantine_fraction=fraction, cohort_size=size, num_clients=100, slack=slack)
        assert share <= paper.LARGEST_FRACTION + 1e-12


def test_the_cohort_fraction_is_a_fraction_of_the_cohort() -> None:
    # 6 of 120 clients are Byzantine; all of them may be among the 40
    assert paper.cohort_fraction(byzantine_fraction=0.05, cohort_size=40, num_clients=120) == pytest.approx(0.15)


def test_step_sizes_are_those_of_the_theorems() -> None:
    assert paper.minibatch_lr(smoothness=2.0, local_steps=5) == 1 / 80
    assert paper.full_batch_lr(smoothness=2.0, local_steps=5) == 1 / 50


GOOD: dict[str, dict[str, Any]] = {
    "minibatch_variance": {"gradient_variance": 1.0, "batch_size": 2},
    "variance_without_replacement": {"gradient_variance": 1.0, "batch_size": 2, "num_points": 5},
    "tolerated_fraction": {"cohort_size": 50, "num_clients": 100, "slack": 0.1},
    "cohort_fraction": {"byzantine_fraction": 0.1, "cohort_size": 50, "num_clients": 100, "slack": 0.05},
    "minibatch_lr": {"smoothness": 1.0, "local_steps": 5},
    "full_batch_lr": {"smoothness": 1.0, "local_steps": 5},
}


@pytest.mark.parametrize(
    ("name", "argument", "value", "allowed"),
    [
        ("minibatch_variance", "gradient_variance", -1.0, "at least 0"),
        ("minibatch_variance", "gradient_variance", float("nan"), "at least 0"),
        ("minibatch_variance", "batch_size", 0, "at least 1"),
        ("minibatch_variance", "batch_size", 2.5, "whole number"),
        ("variance_without_replacement", "batch_size", 6, "from 1 to 5"),
        ("variance_without_replacement", "num_points", 0, "at least 1"),
        ("tolerated_fraction", "cohort_size", 101, "from 1 to 100"),
        ("tolerated_fraction", "slack", 0.2, "0.125"),
        ("tolerated_fraction", "slack", -0.1, "from 0"),
        ("cohort_fraction", "cohort_size", 101, "from 1 to 100"),
        ("cohort_fraction", "byzantine_fraction", 1.5, "from 0 to 1"),
        ("cohort_fraction", "slack", 0.3, "1/4"),
        ("minibatch_lr", "smoothness", 0.0, "above 0"),
        ("minibatch_lr", "smoothness", -2.0, "above 0"),
        ("full_batch_lr", "local_steps", 0, "at least 1"),
        ("full_batch_lr", "smoothness", "1", "above 0"),
    ],
)
def test_bad_values_are_refused_with_what_is_allowed(name: str, argument: str, value: Any, allowed: str) -> None:
    getattr(paper, name)(**GOOD[name])
    with pytest.raises(ParameterError, match=argument) as caught:
        getattr(paper, name)(**{**GOOD[name], argument: value})
    assert allowed in str(caught.value)
    assert repr(value) in str(caught.value)
