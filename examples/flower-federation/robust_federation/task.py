"""What is learned: the data of each node, and the model."""

from __future__ import annotations

from torch import nn

from steadfed.data import DATASETS, Dataset
from steadfed.flower.client import SeededBatches
from steadfed.models import MODELS
from steadfed.partitions import DirichletPartition, NaturalPartition, Partition


def data(name: str) -> Dataset:
    """Return all points; a real node would have its own only."""
    return DATASETS.build(name).load()


def share(dataset: Dataset, part: int, parts: int, seed: int) -> SeededBatches:
    """Return the points of one node: those of its hospital, or digits of which some are rarer than others."""
    by_owner = dataset.groups is not None
    partition: Partition = NaturalPartition() if by_owner else DirichletPartition(num_clients=parts, alpha=4.0)
    points = partition.split(dataset, seed).points(part)
    return SeededBatches(dataset.features[points], dataset.labels[points], client=part)


def model(dataset: Dataset, seed: int) -> nn.Module:
    """Return the model with the same first weights for everybody."""
    return MODELS.build("softmax-regression").build(dataset, seed)
