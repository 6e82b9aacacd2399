"""The filter's error in the rounds of a run, against its explicit constant.

Fixed clouds of rows at many strengths of attack are in tests/aggregators/test_theory.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from benchmarks.theory.cases import Case
from tests.theory.problems import EVERY_ATTACK, LABELS, QUADRATIC, SEARCHING, Mode

from steadfed.aggregators import Mean
from steadfed.aggregators._rage.constants import filter_constant
from steadfed.simulation import Evaluation, Federation

CASE = replace(QUADRATIC, local_steps=2, rounds=3)


def shares(case: Case) -> Iterator[float]:
    """Yield the error of each round over C σ₀ √ε̃, with σ₀ as the rule was told, or the root of the honest spread."""
    looked = Evaluation(every=1000, train_points=0, test_points=0, measured_rounds=case.rounds)
    config = case.config(engine="loop").model_copy(update={"evaluation": looked})
    with Federation(config, dataset=case.dataset) as federation:
        state = federation.start()
        for _ in range(case.rounds):
            state, record = federation.play(state)
            assert record.error is not None
            assert record.honest_spread is not None
            sigma0, rows = case.protocol.sigma0 or math.sqrt(record.honest_spread), len(record.received)
            constant = filter_constant(case.mode, case.assumed / rows, num_rows=rows)
            yield record.error / (constant * sigma0 * math.sqrt(case.assumed / rows))


@pytest.mark.parametrize("mode", ["auto", "known", "exact"])
def test_the_error_of_every_round_is_below_the_constant(mode: Mode) -> None:
    for attack in sorted({*EVERY_ATTACK} - {*LABELS, *SEARCHING}):
        assert max(shares(replace(CASE, mode=mode, attack=attack))) <= 1.0, attack


@pytest.mark.parametrize("attack", SEARCHING)
def test_the_error_of_every_round_is_below_the_constant_when_the_attack_searches(attack: str) -> None:
    assert max(shares(replace(CASE, attack=attack, batch_size=2, rounds=2))) <= 1.0


def test_the_error_of_the_mean_is_above_the_constant() -> None:
    assert max(shares(replace(CASE, attack="gaussian", rule=Mean()))) > 1.0
