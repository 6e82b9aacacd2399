"""What the simulator does, done by nodes: the digits, a few of them each."""

from __future__ import annotations

from torch import nn

from steadfed.aggregators import Rage
from steadfed.attacks import FixedMembers, SignFlip
from steadfed.data import Digits
from steadfed.flower.client import SeededBatches
from steadfed.models import SoftmaxRegression
from steadfed.partitions import DirichletPartition
from steadfed.simulation import RunConfig
from steadfed.simulation._config import Evaluation

from .numbers import LIAR


def twin(rounds: int) -> RunConfig:
    """Return the simulation of the same federation."""
    return RunConfig(
        seed=5,
        rounds=rounds,
        cohort_size=4,
        local_steps=8,
        batch_size=64,
        lr=0.5,
        data=Digits(),
        partition=DirichletPartition(num_clients=4, alpha=4.0),
        model=SoftmaxRegression(),
        rule=Rage(num_byzantine=1),
        byzantine=FixedMembers(clients=(LIAR,)),
        attack=SignFlip(),
        adversary_knows=("own",),
        evaluation=Evaluation(measured_rounds=2),
    )


def model(config: RunConfig) -> nn.Module:
    """Return the model before the first round."""
    return config.model.build(config.data.load(), config.seed)


def share(config: RunConfig, node: int) -> SeededBatches:
    """Return the points of a node."""
    dataset = config.data.load()
    points = config.partition.split(dataset, config.seed).points(node)
    return SeededBatches(dataset.features[points], dataset.labels[points], client=node)
