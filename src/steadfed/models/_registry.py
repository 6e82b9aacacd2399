"""Every model by name."""

from __future__ import annotations

from steadfed._core.naming import Registry
from steadfed.models._base import Architecture

MODELS = Registry("model", Architecture)
"""Every model by name: `MODELS.build("mlp", hidden=(200, 200))`, before it has weights."""
