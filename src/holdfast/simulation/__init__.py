"""Algorithm 1: rounds of local steps, attack and aggregation."""

from __future__ import annotations

from holdfast.simulation.config import ClientOptions, Evaluation, RunConfig, ServerOptions
from holdfast.simulation.federation import Federation, State
from holdfast.simulation.tables import config_from_table, config_table

__all__ = [
    "ClientOptions",
    "Evaluation",
    "Federation",
    "RunConfig",
    "ServerOptions",
    "State",
    "config_from_table",
    "config_table",
]
