"""Step sizes that change: every factor by its formula, and in the rounds."""

from __future__ import annotations

import math

import pytest
import torch
from tests.simulation.small import config, played

from steadfed.errors import ParameterError
from steadfed.simulation._schedules import (
    ConstantSchedule,
    CosineSchedule,
    ExponentialSchedule,
    InverseSchedule,
    Schedule,
)


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (ConstantSchedule(), [1.0, 1.0, 1.0, 1.0, 1.0]),
        (ExponentialSchedule(decay=0.5), [1.0, 0.5, 0.25, 0.125, 0.0625]),
        (ExponentialSchedule(decay=0.5, every=3), [1.0, 1.0, 1.0, 0.5, 0.5]),
        (InverseSchedule(half_after=2), [1.0, 1 / 1.5, 0.5, 1 / 2.5, 1 / 3]),
        (CosineSchedule(last=0.2), [0.2 + 0.4 * (1 + math.cos(math.pi * k / 4)) for k in range(5)]),
    ],
)
def test_a_schedule_is_its_formula(schedule: Schedule, factors: list[float]) -> None:
    assert [schedule.factor(number, 5) for number in range(5)] == pytest.approx(factors, abs=1e-15)


def test_a_single_round_has_the_whole_step_size() -> None:
    assert CosineSchedule(last=0.1).factor(0, 1) == 1.0


def test_the_step_size_of_a_round_is_recorded_and_used_by_clients_and_server() -> None:
    """With one full-batch step x moves by η times the mean gradient, so a tenth of η moves it a tenth as far."""
    whole = config(rounds=2, local_steps=1, batch_size="full", cohort_size=12, lr=0.4)
    plain, records = played(whole)
    slow, slow_records = played(whole.model_copy(update={"schedule": ExponentialSchedule(decay=0.1)}))
    assert [record.lr for record in records] == [0.4, 0.4]
    assert [record.lr for record in slow_records] == pytest.approx([0.4, 0.04])
    assert torch.equal(plain[1].model, slow[1].model)
    torch.testing.assert_close(slow[2].model - slow[1].model, 0.1 * (plain[2].model - plain[1].model))


@pytest.mark.parametrize("decay", [0.0, -1.0, 1.5, "half", True])
def test_factors_outside_their_range_are_refused_with_the_value(decay: object) -> None:
    with pytest.raises(ParameterError, match=f"decay: .*got {decay!r}"):
        ExponentialSchedule(decay=decay)
