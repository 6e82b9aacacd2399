"""Byzantine clients and servers, for tests and drills.

`Omniscient` is imported when it is asked for: it needs the simulator, which clients should not wait for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.flower.redteam._malformed import MALFORMED, Malformed
from holdfast.flower.redteam._mods import (
    BEHAVIOURS,
    SilentClientError,
    attacking,
    byzantine,
    crashing,
    exiting,
    poisoned_labels,
    stalling,
)

if TYPE_CHECKING:
    from holdfast.flower.redteam._omniscient import Omniscient

__all__ = [
    "BEHAVIOURS",
    "MALFORMED",
    "Malformed",
    "Omniscient",
    "SilentClientError",
    "attacking",
    "byzantine",
    "crashing",
    "exiting",
    "poisoned_labels",
    "stalling",
]


def __getattr__(name: str) -> Any:
    """Import the adversary at the server when it is first used."""
    if name == "Omniscient":
        return import_module("holdfast.flower.redteam._omniscient").Omniscient
    raise AttributeError(f"module 'holdfast.flower.redteam' has no attribute {name!r}")
