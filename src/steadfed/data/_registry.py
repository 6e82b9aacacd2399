"""Every data set by name."""

from __future__ import annotations

from steadfed._core.naming import Registry
from steadfed.data._base import DataSource

DATASETS = Registry("data set", DataSource)
"""Every data set by name: `DATASETS.build("heart-disease").load()` reads it."""
