"""How training points are dealt out to clients."""

from holdfast.partitions.base import Partition, Shares
from holdfast.partitions.by_label import ExtremePartition, ShardsPartition, SimilarityPartition
from holdfast.partitions.dirichlet import DirichletPartition
from holdfast.partitions.heterogeneity import Heterogeneity, heterogeneity
from holdfast.partitions.registry import (
    PARTITIONS,
    build_partition,
    partition_from_table,
    partition_name,
    partition_table,
)
from holdfast.partitions.remote import RemotePartition
from holdfast.partitions.simple import IidPartition, NaturalPartition, UnequalPartition

__all__ = [
    "PARTITIONS",
    "DirichletPartition",
    "ExtremePartition",
    "Heterogeneity",
    "IidPartition",
    "NaturalPartition",
    "Partition",
    "RemotePartition",
    "ShardsPartition",
    "Shares",
    "SimilarityPartition",
    "UnequalPartition",
    "build_partition",
    "heterogeneity",
    "partition_from_table",
    "partition_name",
    "partition_table",
]
