"""Byzantine clients and servers, for tests and drills.

`Omniscient` and `HostileNode` are imported when they are asked for: clients should not wait for the simulator and HTTP.
A `HostileNode` is no client at all: it plays `DRILLS` against the SuperLink with the key of a node.
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
    poisoned_points,
    stall_mod,
)

if TYPE_CHECKING:
    from steadfed.flower.redteam._node import DRILLS, HostileNode
    from steadfed.flower.redteam._omniscient import Omniscient

__all__ = [
    "BEHAVIOURS",
    "DRILLS",
    "MALFORMED",
    "HostileNode",
    "Malformed",
    "Omniscient",
    "SilentClientError",
    "attack_mod",
    "byzantine",
    "crash_mod",
    "exit_mod",
    "poisoned_labels",
    "poisoned_points",
    "stall_mod",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_omniscient": ("Omniscient",),
            "_node": ("DRILLS", "HostileNode"),
        },
        always=__all__,
    )
