"""Byzantine clients and servers, for tests and drills.

`Omniscient` is imported when it is asked for: it needs the simulator, which clients should not wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadfed._core.lazy import lazy_names
from steadfed.flower.redteam._malformed import MALFORMED, Malformed
from steadfed.flower.redteam._mods import (
    BEHAVIOURS,
    SilentClientError,
    attack_mod,
    byzantine,
    crash_mod,
    exit_mod,
    poisoned_labels,
    stall_mod,
)

if TYPE_CHECKING:
    from steadfed.flower.redteam._omniscient import Omniscient

__all__ = [
    "BEHAVIOURS",
    "MALFORMED",
    "Malformed",
    "Omniscient",
    "SilentClientError",
    "attack_mod",
    "byzantine",
    "crash_mod",
    "exit_mod",
    "poisoned_labels",
    "stall_mod",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, {"_omniscient": ("Omniscient",)}, always=__all__)
