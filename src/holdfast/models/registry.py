"""Every model by name."""

from __future__ import annotations

from holdfast.models.base import Architecture
from holdfast.naming import Registry

MODELS = Registry("model", Architecture)
"""Every model by name: `MODELS.build("mlp", hidden=(200, 200))`, before it has weights."""
