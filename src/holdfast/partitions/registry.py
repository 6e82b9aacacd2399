"""Every partition by name: one literal table; unknown names are refused with the nearest known one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast.naming import Names
from holdfast.partitions.base import Partition
from holdfast.partitions.by_label import Extreme, Shards, Similarity
from holdfast.partitions.dirichlet import Dirichlet
from holdfast.partitions.simple import Iid, Natural, Unequal

PARTITIONS: Mapping[str, type[Partition]] = MappingProxyType(
    {
        "dirichlet": Dirichlet,
        "extreme": Extreme,
        "iid": Iid,
        "natural": Natural,
        "shards": Shards,
        "similarity": Similarity,
        "unequal": Unequal,
    }
)
_NAMES = Names("partition", PARTITIONS)


def build_partition(name: str, **parameters: Any) -> Partition:
    """Return the partition called `name`.

    >>> build_partition("dirichlet", alpha=0.1, num_clients=20)
    Dirichlet(num_clients=20, alpha=0.1)
    """
    return _NAMES.build(name, **parameters)


def partition_name(partition: Partition) -> str:
    """Return the name under which the partition is registered.

    >>> partition_name(Iid())
    'iid'
    """
    return _NAMES.name(partition)


def partition_table(partition: Partition) -> dict[str, Any]:
    """Return the name and the parameters that differ from their defaults.

    >>> partition_table(Shards(shards_per_client=3))
    {'name': 'shards', 'shards_per_client': 3}
    """
    return _NAMES.to_table(partition)


def partition_from_table(table: Mapping[str, Any]) -> Partition:
    """Return the partition that a table with a name and parameters describes.

    >>> partition_from_table({"name": "similarity", "gamma": 0.3})
    Similarity(gamma=0.3)
    """
    return _NAMES.from_table(table)
