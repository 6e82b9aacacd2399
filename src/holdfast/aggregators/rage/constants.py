r"""The proved constants of the filter: error ≤ C · σ₀ √ε for every admissible adversary.

ε = f / n is the assumed share of Byzantine rows, α = 1 − ε. Derivations: docs/theory/filter.md.
"""

from __future__ import annotations

import math

import numpy as np

EXACT_LIMIT = 1.0 - (math.sqrt(57.0) - 5.0) / 4.0
"""ε up to which the proof for Algorithm 2 holds (0.3625): beyond it t ≤ 1/2. The paper states 1/4."""


def theta(epsilon: float) -> float:
    """Return θ(ε) = (1 − ε) / (1/2 − ε), the threshold factor of mode "known".

    It is the smallest for which every step is proved to take no more weight from honest rows than from bad ones: the
    honest share of a step is at most α / θ + ε = 1/2.
    """
    return (1.0 - epsilon) / (0.5 - epsilon)


def resilience(epsilon: float) -> float:
    """Return t = α (2 + α) / (4 − α): Algorithm 2 keeps at least t·n of the promised rows; its cap is 1 / (t·n)."""
    alpha = 1.0 - epsilon
    return alpha * (2.0 + alpha) / (4.0 - alpha)


def known_constant(epsilon: float, factor: float | None = None) -> float:
    r"""Return C such that the weighted-mean filter with threshold factor · n σ₀² errs by at most C σ₀ √ε.

    With x = (weight taken from Byzantine rows) / n and r the largest ratio of honest to Byzantine weight taken,

        C √ε = max_{0 ≤ x ≤ ε}  √( θ (ε − x) / ((1 − x − r x)(α − r x)) ) + √( r x / (α − r x) ) .
    """
    if epsilon == 0.0:
        return 0.0
    alpha, factor = 1.0 - epsilon, factor or theta(epsilon)
    share = alpha / factor + epsilon
    ratio = share / (1.0 - share)
    x = np.linspace(0.0, epsilon, 20_001)
    left = alpha - ratio * x
    if left.min() <= 0.0:
        return math.inf
    kept = np.sqrt(factor * (epsilon - x) / ((1.0 - x - ratio * x) * left))
    lost = np.sqrt(ratio * x / left)
    return float((kept + lost).max() / math.sqrt(epsilon))


def exact_constant(epsilon: float) -> float:
    r"""Return C_a = √8 / ((1 − s₂) √((t + ε) t)) + √(2 / (3 − ε)), s₂ = √(1/t − 1), for Algorithm 2."""
    t = resilience(epsilon)
    if t <= 0.5:
        return math.inf
    second = math.sqrt(1.0 / t - 1.0)
    return math.sqrt(8.0) / ((1.0 - second) * math.sqrt((t + epsilon) * t)) + math.sqrt(2.0 / (3.0 - epsilon))
