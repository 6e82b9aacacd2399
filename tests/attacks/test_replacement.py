"""Backdoors in the model: what is sent, and how the adversary's clients train."""

from __future__ import annotations

import pytest
import torch

from steadfed.attacks import (
    ATTACKS,
    ClassFlip,
    ConstrainAndScale,
    ModelReplacement,
    PixelTrigger,
    ProjectedDescent,
    SignFlip,
    Sleeper,
    TrainAndScale,
    acting_attack,
)
from steadfed.attacks._poisoning import data_attack_of
from steadfed.attacks._replacement import AdversarialTraining, training_of
from steadfed.attacks._view import AdversaryView, Knowledge
from steadfed.errors import ParameterError

OWN = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
VIEW = AdversaryView(num_byzantine=2, cohort_size=10, own_rows=OWN, honest_rows=torch.tensor([[0.0, 2.0], [6.0, 8.0]]))
FLIP = ClassFlip()


def test_replacement_boosts_by_the_cohort_over_the_adversarys_clients() -> None:
    assert torch.equal(ModelReplacement(attack=FLIP)(VIEW).rows, 5.0 * OWN)
    assert torch.equal(ModelReplacement(attack=FLIP, scale=7.0)(VIEW).rows, 7.0 * OWN)


def test_a_mean_of_boosted_updates_is_the_adversarys_own_if_the_others_cancel() -> None:
    honest = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat(4, 1)
    own = torch.tensor([[3.0, 4.0], [5.0, 6.0]])
    view = AdversaryView(num_byzantine=2, cohort_size=10, own_rows=own, honest_rows=honest)
    forged = ModelReplacement(attack=FLIP)(view).rows
    torch.testing.assert_close(torch.cat([forged, honest]).mean(0), own.mean(0))


def test_scaled_updates_are_as_long_as_allowed_and_zero_stays_zero() -> None:
    assert torch.equal(TrainAndScale(attack=FLIP, norm_bound=10.0)(VIEW).rows, 2.0 * OWN)
    by_the_median = TrainAndScale(attack=FLIP, norm_factor=0.5)(VIEW).rows
    torch.testing.assert_close(by_the_median, torch.tensor([[1.8, 2.4], [0.0, 0.0]]))  # half of (2 + 10) / 2
    with pytest.raises(ParameterError, match="give one of norm_bound and norm_factor"):
        TrainAndScale(attack=FLIP, norm_bound=1.0, norm_factor=2.0)


def test_an_adversary_that_sees_no_honest_updates_measures_its_own() -> None:
    blind = AdversaryView(num_byzantine=2, cohort_size=10, own_rows=OWN, granted=frozenset({Knowledge.OWN}))
    torch.testing.assert_close(TrainAndScale(attack=FLIP)(blind).rows, OWN / 2)


def test_what_clients_do_otherwise_is_told_and_nothing_if_nothing() -> None:
    assert training_of(PixelTrigger()) is None
    assert training_of(ModelReplacement(attack=FLIP)) is None
    assert training_of(ModelReplacement(attack=FLIP, local_steps=9, lr=0.5)) == AdversarialTraining(steps=9, lr=0.5)
    assert training_of(ConstrainAndScale(attack=FLIP, alpha=0.5)) == AdversarialTraining(alpha=0.5)
    assert training_of(ProjectedDescent(attack=FLIP, radius=2.0)) == AdversarialTraining(radius=2.0)
    inside = Sleeper(attack=ProjectedDescent(attack=FLIP, radius=2.0), start=3)
    assert training_of(inside) == AdversarialTraining(radius=2.0)
    assert data_attack_of(acting_attack(inside, 2)) is None
    assert data_attack_of(acting_attack(inside, 3)) == FLIP


def test_names_are_written_before_the_attack_on_the_data() -> None:
    built = ATTACKS.build("sleeper+model-replacement+pixel-trigger", target_label=3)
    assert built == Sleeper(attack=ModelReplacement(attack=PixelTrigger(target_label=3)))
    assert ATTACKS.name(built) == "sleeper+model-replacement+pixel-trigger"
    assert ATTACKS.from_table(ATTACKS.to_table(built, complete=True)) == built


def test_only_an_attack_on_data_stands_inside() -> None:
    with pytest.raises(ParameterError, match="attack: must be an attack on data, such as pixel-trigger, got SignFlip"):
        ModelReplacement(attack=SignFlip())
    with pytest.raises(ParameterError, match="must be an attack on data"):
        ATTACKS.build("model-replacement+sleeper+pixel-trigger")
