"""A million clients: index arrays and nothing per client beyond them. Times are measured in benchmarks/."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from tests.simulation.small import config

from steadfed._core.rng import stream
from steadfed.aggregators import Mean
from steadfed.attacks import ChangingMembers, SignFlip
from steadfed.data import Dataset
from steadfed.models import LogisticRegression
from steadfed.partitions import IidPartition
from steadfed.simulation import Evaluation, Federation

MILLION = 1_000_000


def million_points() -> Dataset:
    points = torch.from_numpy(stream(0, "million").standard_normal((MILLION, 3), dtype=np.float32))
    labels = (points[:, 0] > 0).long()
    return Dataset(
        name="million",
        features=points,
        labels=labels,
        test_features=points[:100],
        test_labels=labels[:100],
        num_classes=2,
    )


def resident() -> int:
    """Return how many bytes this process holds in memory of its own."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_million_clients_take_two_index_arrays_and_rounds_of_two_thousand() -> None:
    data = million_points()
    what = config(
        rounds=2,
        cohort_size=2_000,
        local_steps=2,
        batch_size=1,
        partition=IidPartition(num_clients=MILLION),
        model=LogisticRegression(),
        rule=Mean(),
        dtype="float32",
        attack=SignFlip(),
        byzantine=ChangingMembers(fraction=0.1),
        evaluation=Evaluation(train_points=1_000),
    )
    with Federation(what, dataset=data) as federation:
        shares = federation.setting.shares
        assert federation.setting.num_clients == MILLION
        assert shares.order.nbytes + shares.offsets.nbytes <= 8 * (2 * MILLION + 1)
        assert federation._pool.matrix.shape == (2_000, 4)  # noqa: SLF001
        assert federation.client_momentum is None
        state, before = federation.start(), resident()
        for _ in range(what.rounds):
            state, record = federation.play(state)
        assert resident() - before < 40 * 2**20, "a round must not hold anything for every client"
    assert len(set(record.cohort)) == len(record.received) == 2_000
    assert max(map(int, record.cohort)) > MILLION // 2
    assert 120 < len(record.byzantine) < 280
    assert record.test_accuracy is not None
    assert record.test_accuracy > 0.8
