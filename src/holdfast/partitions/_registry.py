"""Every partition by name."""

from __future__ import annotations

from holdfast._core.naming import Registry
from holdfast.partitions._base import Partition

PARTITIONS = Registry("partition", Partition)
"""Every partition by name: `PARTITIONS.build("dirichlet", alpha=0.1)`."""
