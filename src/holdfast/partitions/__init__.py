"""How training points are dealt out to clients."""

from holdfast.partitions.base import Partition as Partition
from holdfast.partitions.base import Shares as Shares
from holdfast.partitions.by_label import ExtremePartition as ExtremePartition
from holdfast.partitions.by_label import ShardsPartition as ShardsPartition
from holdfast.partitions.by_label import SimilarityPartition as SimilarityPartition
from holdfast.partitions.dirichlet import DirichletPartition as DirichletPartition
from holdfast.partitions.heterogeneity import Heterogeneity as Heterogeneity
from holdfast.partitions.heterogeneity import heterogeneity as heterogeneity
from holdfast.partitions.registry import PARTITIONS as PARTITIONS
from holdfast.partitions.remote import RemotePartition as RemotePartition
from holdfast.partitions.simple import IidPartition as IidPartition
from holdfast.partitions.simple import NaturalPartition as NaturalPartition
from holdfast.partitions.simple import UnequalPartition as UnequalPartition
