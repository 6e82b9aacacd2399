"""Scores are told in words, with their unit."""

from __future__ import annotations

import pytest
import torch

from steadfed.aggregators import RULES, Krum, NearestNeighborMixing, Rage
from steadfed.server._history import meaning_of
from steadfed.server._history.scores import _MEANINGS

ROWS = torch.tensor([[1.0, 0.0], [1.2, 0.1], [0.9, -0.1], [1.1, 0.0], [-50.0, 60.0]], dtype=torch.float64)


@pytest.mark.parametrize("mode", ["auto", "spread"])
def test_the_unit_of_rage_is_the_standard_deviation_of_the_kept_updates(mode: str) -> None:
    found = Rage(num_byzantine=1, mode=mode)(ROWS)
    kept, weights = ROWS[:4], found.weights[:4]
    mean = weights @ kept
    centred = kept - mean
    spread = torch.linalg.eigvalsh(centred.T @ (weights[:, None] * centred))[-1]
    farthest = (ROWS[4] - mean).norm() / spread.sqrt()
    told = meaning_of({"name": "rage"}).value(float(found.scores[4]))
    assert 0.99 * farthest <= told <= 1.001 * farthest
    assert told > 500
    assert max(meaning_of({"name": "rage"}).value(float(score)) for score in found.scores[:4]) < 3


def test_a_score_is_told_as_a_sentence_and_briefly() -> None:
    meaning = meaning_of({"name": "rage", "num_byzantine": 1})
    assert meaning.told([1681.0]) == "its update lay 41 standard deviations from the others along one direction"
    assert meaning.told([1681.0, 9.0]).startswith("its update lay 3 to 41 standard deviations")
    assert meaning.briefly(1681.0) == "41 standard deviations"
    assert meaning.told([float.fromhex("0x1.fffffffffffffp+1023")]).startswith("its update lay 1.3e+154 standard")


def test_a_wrapper_speaks_of_mixtures_and_a_rule_of_ones_own_of_its_score() -> None:
    wrapped = meaning_of({"name": "nnm", "rule": {"name": "krum"}})
    assert wrapped.told([2.0]) == (
        "the squared distances of the mixture that stands for its update to the nearest others sum to 2"
    )
    assert meaning_of({"name": "my{}-rule"}).told([2.0]) == "its score was 2, as my-rule measures suspicion"
    assert meaning_of(None).told([2.0]) == "its score was 2, as its rule measures suspicion"


def test_only_rules_that_exist_have_a_meaning_of_their_own() -> None:
    assert set(_MEANINGS) <= set(RULES)


def test_what_is_said_of_krum_is_what_it_computes() -> None:
    found = Krum(num_byzantine=1)(ROWS)
    squared = torch.cdist(ROWS, ROWS)[4] ** 2
    assert float(found.scores[4]) == pytest.approx(float(squared.sort().values[1:3].sum()), rel=1e-9)
    assert NearestNeighborMixing(rule=Krum(num_byzantine=1))(ROWS).scores.shape == (5,)


@pytest.mark.parametrize(
    ("name", "quantity"),
    [("rage", "standard deviations"), ("rfa", "distance"), ("krum", "squared distances"), ("my-rule", "")],
)
def test_what_a_score_counts_is_said_without_a_place_for_the_number(name: str, quantity: str) -> None:
    assert meaning_of({"name": name}).quantity == quantity
