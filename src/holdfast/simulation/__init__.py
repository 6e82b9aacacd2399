"""Algorithm 1: rounds of local steps, attack and aggregation.

Names are imported when they are asked for: a client of a deployment draws its batches as the simulator does, and needs
nothing else of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.simulation._config import ClientOptions, Evaluation, RunConfig, ServerOptions
    from holdfast.simulation._federation import Federation
    from holdfast.simulation._tables import config_from_table, config_table

_PLACES = {
    "ClientOptions": "config",
    "Evaluation": "config",
    "Federation": "federation",
    "RunConfig": "config",
    "ServerOptions": "config",
    "config_from_table": "tables",
    "config_table": "tables",
}

__all__ = [
    "ClientOptions",
    "Evaluation",
    "Federation",
    "RunConfig",
    "ServerOptions",
    "config_from_table",
    "config_table",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module 'holdfast.simulation' has no attribute {name!r}")
    return getattr(import_module(f"holdfast.simulation.{_PLACES[name]}"), name)
