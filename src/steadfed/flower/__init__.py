"""Flower strategies that no client can stop or poison.

    strategy = RageStrategy(num_malicious_nodes=2, num_train_nodes=10, lr=0.1, local_steps=5, run_folder="runs/first")
    result = strategy.start(grid, initial_arrays, num_rounds=20)

Only this part of steadfed imports Flower: `pip install 'steadfed[flower]'`. The strategies are imported when
they are asked for: clients start a process for every message, and should not wait for what only a server needs.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from steadfed._core.lazy import lazy_names

if find_spec("flwr") is None:
    raise ModuleNotFoundError("steadfed.flower needs Flower, get it with: pip install 'steadfed[flower]'", name="flwr")

if TYPE_CHECKING:
    from steadfed.flower._guarded import GuardedStrategy
    from steadfed.flower._strategies import RageStrategy, RobustStrategy
    from steadfed.flower._strategy import ResilientStrategy
    from steadfed.states._faults import Fault
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_guarded": ("GuardedStrategy",),
            "_replies.npy": ("Fault",),
            "_strategies": ("RageStrategy", "RobustStrategy"),
            "_strategy": ("ResilientStrategy",),
        },
        always=("client", "redteam"),
    )

__all__ = ["Fault", "GuardedStrategy", "RageStrategy", "ResilientStrategy", "RobustStrategy"]
