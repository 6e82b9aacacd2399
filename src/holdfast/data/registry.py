"""Every data set by name."""

from __future__ import annotations

from holdfast.data.base import DataSource
from holdfast.naming import Registry

DATASETS = Registry("data set", DataSource)
"""Every data set by name: `DATASETS.build("heart-disease").load()` reads it."""
