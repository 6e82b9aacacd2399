"""Every partition by name."""

from __future__ import annotations

from holdfast.naming import Registry
from holdfast.partitions.base import Partition

PARTITIONS = Registry("partition", Partition)
"""Every partition by name: `PARTITIONS.build("dirichlet", alpha=0.1)`."""
