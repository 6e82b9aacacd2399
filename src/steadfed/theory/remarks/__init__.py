r"""What the paper remarks in running text, with constants: σ and κ of sampled data, rates in T instead of T/H.

`_statistical`: if every client draws its points from a law of its own, σ = O(√(d log d)) and κ ≤ κ_mean +
O(√(d log(nd)/n)); docs/theory/statistical-model.md proves both without O(·). `_bounded_gradients`: if gradients are
bounded, η = 1/(2L) will do for every H; docs/theory/bounded-gradients.md proves what is true of that.
"""

from steadfed.theory.remarks._bounded_gradients import (
    bounded_gradient_deviation,
    bounded_gradient_dissimilarity,
    bounded_gradient_drift,
    bounded_gradient_lr,
    distance_bound_in_steps,
    gradient_bound_in_steps,
)
from steadfed.theory.remarks._statistical import (
    GradientLaw,
    fewest_points,
    sampled_dissimilarity,
    sampled_variance,
)

__all__ = [
    "GradientLaw",
    "bounded_gradient_deviation",
    "bounded_gradient_dissimilarity",
    "bounded_gradient_drift",
    "bounded_gradient_lr",
    "distance_bound_in_steps",
    "fewest_points",
    "gradient_bound_in_steps",
    "sampled_dissimilarity",
    "sampled_variance",
]
