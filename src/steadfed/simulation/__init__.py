"""Algorithm 1: rounds of local steps, attack and aggregation.

Names are imported when they are asked for: a client of a deployment draws its batches as the simulator does, and needs
nothing else of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadfed._core.lazy import lazy_names

if TYPE_CHECKING:
    from steadfed.simulation._config import ClientOptions, Evaluation, RunConfig, ServerOptions
    from steadfed.simulation._federation import Federation
    from steadfed.simulation._tables import config_from_table, config_table
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_config": ("ClientOptions", "Evaluation", "RunConfig", "ServerOptions"),
            "_federation": ("Federation",),
            "_tables": ("config_from_table", "config_table"),
        },
    )

__all__ = [
    "ClientOptions",
    "Evaluation",
    "Federation",
    "RunConfig",
    "ServerOptions",
    "config_from_table",
    "config_table",
]
