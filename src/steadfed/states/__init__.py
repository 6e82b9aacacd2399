"""The boundary for models: named arrays in, named arrays out, whatever engine or loop they came through.

    found = aggregate_state_dicts(model.state_dict(), {"Ulm": reply, …}, Rage(num_byzantine=2))
    model.load_state_dict(found.state)

`aggregate_state_dicts` takes all replies of a round at once; a `StateRound` takes them as they come, for loops that
should not hold them all. Flower's strategies use the same layout and the same checks.
"""

from steadfed.states._aggregate import aggregate_state_dicts as aggregate_state_dicts
from steadfed.states._faults import Fault as Fault
from steadfed.states._layout import BUFFERS as BUFFERS, ModelLayout as ModelLayout
from steadfed.states._result import StateAggregation as StateAggregation
from steadfed.states._round import StateRound as StateRound
