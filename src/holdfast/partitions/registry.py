"""Every partition by name: one literal table; unknown names are refused with the nearest known one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast.naming import Names
from holdfast.partitions.base import Partition
from holdfast.partitions.by_label import ExtremePartition, ShardsPartition, SimilarityPartition
from holdfast.partitions.dirichlet import DirichletPartition
from holdfast.partitions.remote import RemotePartition
from holdfast.partitions.simple import IidPartition, NaturalPartition, UnequalPartition

PARTITIONS: Mapping[str, type[Partition]] = MappingProxyType(
    {
        "dirichlet": DirichletPartition,
        "extreme": ExtremePartition,
        "iid": IidPartition,
        "natural": NaturalPartition,
        "remote": RemotePartition,
        "shards": ShardsPartition,
        "similarity": SimilarityPartition,
        "unequal": UnequalPartition,
    }
)
_NAMES = Names("partition", PARTITIONS)


def build_partition(name: str, **parameters: Any) -> Partition:
    """Return the partition called `name`.

    >>> build_partition("dirichlet", alpha=0.1, num_clients=20)
    DirichletPartition(num_clients=20, alpha=0.1)
    """
    return _NAMES.build(name, **parameters)


def partition_name(partition: Partition) -> str:
    """Return the name under which the partition is registered.

    >>> partition_name(IidPartition())
    'iid'
    """
    return _NAMES.name(partition)


def partition_table(partition: Partition) -> dict[str, Any]:
    """Return the name and the parameters that differ from their defaults.

    >>> partition_table(ShardsPartition(shards_per_client=3))
    {'name': 'shards', 'shards_per_client': 3}
    """
    return _NAMES.to_table(partition)


def partition_from_table(table: Mapping[str, Any]) -> Partition:
    """Return the partition that a table with a name and parameters describes.

    >>> partition_from_table({"name": "similarity", "gamma": 0.3})
    SimilarityPartition(gamma=0.3)
    """
    return _NAMES.from_table(table)
