"""The theorems, executable: formulas, records, planner; and how to measure the constants they ask for.

formulas   `paper` (the paper's, one function each), `remarks` (what it says without one), `sharp` (steadfed's own),
           `sampling` (who is sampled)
records    `Problem` and `Protocol` (plain numbers), `Guarantee` with its `Condition`s, `guarantees`
planner    `planner`: how many Byzantine clients, which cohort, how many rounds, which H
estimate   measuring L, μ, σ², κ² and σ₀ on data and models
"""

from steadfed.theory._guarantee import Condition, Guarantee
from steadfed.theory._problem import Problem, Protocol
from steadfed.theory._statements import guarantees

__all__ = ["Condition", "Guarantee", "Problem", "Protocol", "guarantees"]
