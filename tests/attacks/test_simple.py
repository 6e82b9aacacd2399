"""Simple attacks, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from steadfed.attacks._simple import (
    Gaussian,
    Honest,
    Infinite,
    NotANumber,
    Ones,
    RandomGradient,
    ReversedGradient,
    Scaling,
    Shift,
    SignFlip,
    Silence,
    Zero,
)
from steadfed.attacks._view import AdversaryView, Knowledge
from steadfed.errors import ParameterError

OWN = torch.tensor([[1.0, -2.0, 4.0], [3.0, 0.0, 0.0]])
HONEST = torch.tensor([[1.0, 1.0, 1.0], [3.0, 3.0, -5.0]])
VIEW = AdversaryView(num_byzantine=2, cohort_size=4, own_rows=OWN, honest_rows=HONEST, seed=3)


def long_view(num_columns: int = 20_000) -> AdversaryView:
    return AdversaryView(num_byzantine=2, cohort_size=5, own_rows=torch.ones(2, num_columns), seed=3)


def test_each_client_acts_on_its_own_row() -> None:
    assert torch.equal(Honest()(VIEW).rows, OWN)
    assert torch.equal(SignFlip()(VIEW).rows, -OWN)
    assert torch.equal(SignFlip(factor=4)(VIEW).rows, -4 * OWN)
    assert torch.equal(Scaling(factor=2.5)(VIEW).rows, 2.5 * OWN)
    assert torch.equal(Shift(value=-2.0)(VIEW).rows, OWN - 2)
    assert torch.equal(Shift(value=0.0)(VIEW).rows, OWN)


def test_constants_look_at_no_row() -> None:
    blind = replace(VIEW, granted=frozenset())
    assert torch.equal(Zero()(blind).rows, torch.zeros(2, 3))
    assert torch.equal(Ones()(blind).rows, torch.full((2, 3), -100.0))
    assert torch.equal(Ones(value=2.0)(blind).rows, torch.full((2, 3), 2.0))


def test_reversed_gradient_is_one_row_for_all_against_the_honest_mean() -> None:
    expected = torch.tensor([[-200.0, -200.0, 200.0]]).repeat(2, 1)
    assert torch.equal(ReversedGradient()(VIEW).rows, expected)


def test_reversed_gradient_takes_its_own_mean_if_it_sees_no_other() -> None:
    blind = replace(VIEW, granted=frozenset({Knowledge.OWN}))
    assert torch.equal(ReversedGradient(factor=1.0)(blind).rows, -OWN.mean(0).repeat(2, 1))


def test_reversed_gradient_leaves_out_rows_that_are_not_finite() -> None:
    spoilt = replace(VIEW, honest_rows=torch.tensor([[1.0, 1.0, 1.0], [float("nan"), 0.0, 0.0]]))
    assert torch.equal(ReversedGradient(factor=1.0)(spoilt).rows, -torch.ones(2, 3))
    hopeless = replace(VIEW, honest_rows=torch.full((2, 3), float("inf")))
    assert torch.equal(ReversedGradient()(hopeless).rows, torch.zeros(2, 3))


def test_gaussian_has_the_moments_it_is_given_and_each_client_draws_its_own() -> None:
    rows = Gaussian(mean=5.0, std=2.0)(long_view()).rows
    assert torch.allclose(rows.mean(1), torch.full((2,), 5.0), atol=0.1)
    assert torch.allclose(rows.std(1), torch.full((2,), 2.0), atol=0.1)
    assert not torch.equal(rows[0], rows[1])


@pytest.mark.parametrize("attack", [Gaussian(), RandomGradient()], ids=str)
def test_draws_change_with_seed_and_round(attack: Gaussian | RandomGradient) -> None:
    rows = attack(VIEW).rows
    assert not torch.equal(rows, attack(replace(VIEW, seed=4)).rows)
    assert not torch.equal(rows, attack(replace(VIEW, round=1)).rows)


def test_random_gradient_keeps_lengths_and_loses_directions() -> None:
    rows = RandomGradient()(long_view()).rows
    assert torch.allclose(rows.norm(dim=1), torch.ones(2, 20_000).norm(dim=1))
    assert float(torch.cosine_similarity(rows, torch.ones(2, 20_000)).abs().max()) < 0.05
    silent = RandomGradient()(replace(VIEW, own_rows=torch.zeros(2, 3))).rows
    assert torch.equal(silent, torch.zeros(2, 3))


@pytest.mark.parametrize(("share", "number"), [(1.0, 100), (0.29, 29), (0.001, 1)])
def test_bad_numbers_stand_in_the_share_that_was_asked_for(share: float, number: int) -> None:
    view = long_view(100)
    spoilt = NotANumber(share=share)(view).rows
    assert spoilt.isnan().sum(1).tolist() == [number, number]
    assert torch.equal(spoilt[~spoilt.isnan()], torch.ones(2 * (100 - number)))
    assert Infinite(share=share)(view).rows.isposinf().sum(1).tolist() == [number, number]


def test_silence_sends_no_row() -> None:
    forged = Silence()(VIEW)
    assert forged.silent.tolist() == [True, True]
    assert forged.sent.shape == (0, 3)


def test_directed_attacks_can_go_any_distance() -> None:
    for attack in (SignFlip(), Scaling(), Shift(value=-1.0), Ones(), ReversedGradient()):
        aim = attack.aim(VIEW)
        assert aim.strength >= 0.0
        assert torch.equal(aim.at(aim.strength), attack(VIEW).rows)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (SignFlip, {"factor": -1.0}),
        (Scaling, {"factor": float("inf")}),
        (Gaussian, {"std": -1.0}),
        (Shift, {"value": "far"}),
        (NotANumber, {"share": 0.0}),
        (Infinite, {"share": 1.5}),
        (Zero, {"factor": 1.0}),
    ],
)
def test_wrong_parameters_are_refused(kind: type[SignFlip], parameters: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=f"{kind.__name__}: .*{next(iter(parameters))}"):
        kind(**parameters)
