"""Small runs of which every constant is known, and one with a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steadfed.aggregators import Rage
from steadfed.attacks import FixedMembers, SignFlip
from steadfed.data import QuadraticPoints
from steadfed.models import Quadratic
from steadfed.partitions import IidPartition
from steadfed.runs import Run
from steadfed.simulation import Evaluation, RunConfig


def convex(**changes: Any) -> RunConfig:
    """Return a strongly convex run on which the theorems apply: 14 clients, of which one lies, 12 a round."""
    small: dict[str, Any] = {
        "rounds": 12,
        "cohort_size": 12,
        "local_steps": 2,
        "batch_size": 5,
        "lr": 1.0 / 16.0,
        "data": QuadraticPoints(num_points=140, num_test_points=4, dim=4, num_groups=14, heterogeneity=0.2, noise=0.3),
        "partition": IidPartition(num_clients=14),
        "model": Quadratic(strong_convexity=0.5, smoothness=1.0),
        "rule": Rage(num_byzantine=3),
        "byzantine": FixedMembers(clients=(0,)),
        "attack": SignFlip(),
        "evaluation": Evaluation(every=6, measured_rounds=4),
    }
    return RunConfig(**(small | changes))


def played(folder: Path, config: RunConfig, rounds: int | None = None) -> Path:
    """Return the folder of a run that was played to its end, or so many rounds of it."""
    run = Run.start(config, folder)
    for record in run.play():
        if record.round + 1 == rounds:
            break
    return folder
