"""Flower strategies that no client can stop or poison.

    strategy = RageStrategy(num_malicious_nodes=2, num_train_nodes=10, lr=0.1, local_steps=5, run_folder="runs/first")
    result = strategy.start(grid, initial_arrays, num_rounds=20)

This is the only part of holdfast that imports Flower: `pip install 'holdfast[flower]'`.
"""

from holdfast.flower.faults import Fault
from holdfast.flower.guarded import GuardedStrategy
from holdfast.flower.strategy import HoldfastStrategy, RageStrategy, RobustStrategy

__all__ = ["Fault", "GuardedStrategy", "HoldfastStrategy", "RageStrategy", "RobustStrategy"]
