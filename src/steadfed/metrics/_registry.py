"""Every metric by name."""

from __future__ import annotations

from steadfed._core.naming import Registry
from steadfed.metrics._base import Metric

METRICS = Registry("metric", Metric, separator="_")
"""Every metric by name; the name is that of a column of a run, so its words are joined by underscores."""
