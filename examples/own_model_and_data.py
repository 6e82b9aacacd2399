"""A model and data of your own: any `nn.Module` by import path, any tensors. `python examples/own_model_and_data.py`.

The model is named by import path, so that the run can be resumed by whoever can import it. The data are handed over as
tensors; resuming the run needs the same tensors again, and refuses others.
"""

import sys

import torch
from torch import Tensor, nn

from steadfed.aggregators import Rage
from steadfed.attacks import FractionMembers, LabelFlip
from steadfed.data import Dataset, from_tensors
from steadfed.models import ImportedModel
from steadfed.partitions import NaturalPartition
from steadfed.runs import Run
from steadfed.simulation import RunConfig

NUM_OWNERS, POINTS_EACH = 50, 40


def network(dataset: Dataset) -> nn.Module:
    """Return the model: a factory is given the data set, and may look at it."""
    return nn.Sequential(nn.Linear(dataset.point_shape[0], 32), nn.Tanh(), nn.Linear(32, dataset.num_classes or 2))


def rings(number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return points on two rings around the origin, and on which of them each lies."""
    labels = torch.randint(2, (number,), generator=generator)
    angles = 2 * torch.pi * torch.rand(number, generator=generator)
    radii = 1.0 + labels + 0.2 * torch.randn(number, generator=generator)
    return torch.stack([radii * angles.cos(), radii * angles.sin()], dim=1), labels


def main() -> None:
    """Train the network on the rings, every owner with its own points, while ten owners have flipped labels."""
    generator = torch.Generator().manual_seed(0)
    points, labels = rings(NUM_OWNERS * POINTS_EACH, generator)
    owners = torch.arange(len(points)) // POINTS_EACH
    data = from_tensors(points, labels, *rings(1000, generator), groups=owners, name="rings")
    config = RunConfig(
        rounds=40,
        cohort_size=25,
        batch_size=10,
        lr=0.3,
        partition=NaturalPartition(),
        model=ImportedModel(factory="own_model_and_data:network"),
        rule=Rage(byzantine_fraction=0.3),
        byzantine=FractionMembers(fraction=0.2),
        attack=LabelFlip(),
    )
    run = Run.start(config, sys.argv[1] if len(sys.argv) > 1 else "runs/rings", dataset=data)
    for record in run.play():
        if record.round % 10 == 9:
            print(f"round {record.round + 1}: accuracy {record.test_accuracy:.1%}, engine {run.config.engine}")


if __name__ == "__main__":
    main()
