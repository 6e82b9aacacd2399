"""How training points are dealt out to clients."""

from holdfast.partitions.base import Partition, Shares
from holdfast.partitions.by_label import Extreme, Shards, Similarity
from holdfast.partitions.dirichlet import Dirichlet
from holdfast.partitions.heterogeneity import Heterogeneity, heterogeneity
from holdfast.partitions.registry import (
    PARTITIONS,
    build_partition,
    partition_from_table,
    partition_name,
    partition_table,
)
from holdfast.partitions.simple import Iid, Natural, Unequal

__all__ = [
    "PARTITIONS",
    "Dirichlet",
    "Extreme",
    "Heterogeneity",
    "Iid",
    "Natural",
    "Partition",
    "Shards",
    "Shares",
    "Similarity",
    "Unequal",
    "build_partition",
    "heterogeneity",
    "partition_from_table",
    "partition_name",
    "partition_table",
]
