"""How training points are dealt out to clients."""

from holdfast.partitions._base import Partition as Partition, Shares as Shares
from holdfast.partitions._by_label import (
    ExtremePartition as ExtremePartition,
    ShardsPartition as ShardsPartition,
    SimilarityPartition as SimilarityPartition,
)
from holdfast.partitions._dirichlet import DirichletPartition as DirichletPartition
from holdfast.partitions._heterogeneity import Heterogeneity as Heterogeneity, heterogeneity as heterogeneity
from holdfast.partitions._registry import PARTITIONS as PARTITIONS
from holdfast.partitions._remote import RemotePartition as RemotePartition
from holdfast.partitions._simple import (
    IidPartition as IidPartition,
    NaturalPartition as NaturalPartition,
    UnequalPartition as UnequalPartition,
)
