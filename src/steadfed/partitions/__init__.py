"""How training points are dealt out to clients."""

from steadfed.partitions._base import Partition as Partition, Shares as Shares
from steadfed.partitions._by_label import (
    ExtremePartition as ExtremePartition,
    ShardsPartition as ShardsPartition,
    SimilarityPartition as SimilarityPartition,
    SortedPartition as SortedPartition,
)
from steadfed.partitions._dirichlet import DirichletPartition as DirichletPartition
from steadfed.partitions._heterogeneity import Heterogeneity as Heterogeneity, heterogeneity as heterogeneity
from steadfed.partitions._registry import PARTITIONS as PARTITIONS
from steadfed.partitions._remote import RemotePartition as RemotePartition
from steadfed.partitions._simple import (
    IidPartition as IidPartition,
    NaturalPartition as NaturalPartition,
    UnequalPartition as UnequalPartition,
)
