"""A run on real data ends where the minimum is known to be."""

from __future__ import annotations

import os

import pytest
from benchmarks.convex import MINIMUM, RUNS, TARGET, config_of

from steadfed.simulation import Federation


@pytest.mark.skipif("STEADFED_DATA" not in os.environ, reason="STEADFED_DATA does not say where a9a is")
def test_full_batch_runs_on_a9a_reach_the_known_minimum() -> None:
    config = config_of(*RUNS["mean, H = 1, server momentum 0.9"])
    with Federation(config) as federation:
        state = federation.start()
        while state.round < config.rounds:
            state, record = federation.play(state)
    assert record.train_loss is not None
    assert -1e-11 < record.train_loss - MINIMUM < TARGET
