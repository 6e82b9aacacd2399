"""Every partition by name."""

from __future__ import annotations

from steadfed._core.naming import Registry
from steadfed.partitions._base import Partition

PARTITIONS = Registry("partition", Partition)
"""Every partition by name: `PARTITIONS.build("dirichlet", alpha=0.1)`."""
