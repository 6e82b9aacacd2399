"""The boundary for models: named arrays in, named arrays out, whatever engine or loop they came through.

    found = aggregate_state_dicts(model.state_dict(), {"Ulm": reply, …}, Rage(num_byzantine=2))
    model.load_state_dict(found.state)

`aggregate_state_dicts` takes all replies of a round at once; a `StateRound` takes them as they come, for loops that
should not hold them all. Flower's strategies use the same layout and the same checks. The names are imported when they
are asked for: a client of Flower needs no more than the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadfed._core.lazy import lazy_names

if TYPE_CHECKING:
    from steadfed.states._aggregate import aggregate_state_dicts
    from steadfed.states._faults import Fault
    from steadfed.states._layout import BUFFERS, ModelLayout
    from steadfed.states._result import StateAggregation
    from steadfed.states._round import StateRound
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_aggregate": ("aggregate_state_dicts",),
            "_faults": ("Fault",),
            "_layout": ("BUFFERS", "ModelLayout"),
            "_result": ("StateAggregation",),
            "_round": ("StateRound",),
        },
    )

__all__ = ["BUFFERS", "Fault", "ModelLayout", "StateAggregation", "StateRound", "aggregate_state_dicts"]
