r"""The proved constants of the filter: error ≤ C · σ₀ √ε for every admissible adversary.

ε = f / n is the assumed share of Byzantine rows, α = 1 − ε. Derivations: docs/theory/filter.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from steadfed._core.lookup import find
from steadfed._linalg.spectrum import BOUND_SLACK, DENSE_UP_TO

EXACT_LIMIT = 1.0 - (math.sqrt(57.0) - 5.0) / 4.0
"""ε up to which the proof for Algorithm 2 holds (0.3625): beyond it t ≤ 1/2. The paper states 1/4."""

ALGORITHM_2 = frozenset({"exact", "lazy"})
"""The modes that run Algorithm 2: with its line 3 solved, or decided. What is proved is the same for both."""

Mode = Literal["auto", "spread", "known", "exact", "lazy"]
"""How RAGE finds what to remove."""

KAPPA = {"auto": 6.0, "spread": 3.0}
"""The modes that learn σ₀, and κ of each unless it is set: how many times the smallest spread on the filter's path the
kept rows may have."""

REUSE = 0.5
"""Without a threshold that is known to be right, the filter steps only along directions with at least this share of
λ_max; otherwise it could spend its steps on directions in which only honest rows spread."""
ROUNDED = 1e-14
"""What differences and results are moved by, so that constants are rounded up."""
RHO, REJECTION = 1.0, 1.5
"""ρ of mode "auto" unless it is set, and how many times ρ a displacement may be to be cut to it."""


def theta(epsilon: float) -> float:
    """Return θ(ε) = (1 − ε) / (1/2 − ε), the threshold factor of mode "known".

    It is the smallest for which every step is proved to take no more weight from honest rows than from bad ones: the
    honest share of a step is at most α / θ + ε = 1/2.
    """
    return (1.0 - epsilon) / (0.5 - epsilon)


def resilience(epsilon: float) -> float:
    """Return t = α (2 + α) / (4 − α): Algorithm 2 keeps at least t·n of the honest rows; its cap is 1 / (t·n)."""
    alpha = 1.0 - epsilon
    return alpha * (2.0 + alpha) / (4.0 - alpha)


@lru_cache(maxsize=1024)
def known_constant(epsilon: float, factor: float | None = None) -> float:
    r"""Return C such that the weighted-mean filter with threshold factor · n σ₀² errs by at most C σ₀ √ε.

    With x = (weight taken from Byzantine rows) / n and r the largest ratio of honest to Byzantine weight taken,

        C √ε = max_{0 ≤ x ≤ ε}  √( θ (ε − x) / ((1 − x − r x)(α − r x)) ) + √( r x / (α − r x) ) .

    In u = ε − x, with δ = α − r ε, the first root grows up to u* = δ/√(r(1+r)) and the second falls, and the sum has
    one maximum, where the slopes cancel (docs/theory/filter.md, section 4). Bisection encloses it in [low, high]; the
    first root at `high` plus the second at `low` is at least the maximum, and is rounded up.
    """
    if epsilon == 0.0:
        return 0.0
    if epsilon >= 0.5:
        return math.inf
    share = 0.5 if factor is None else (1.0 - epsilon) / factor + epsilon
    theta_used = theta(epsilon) if factor is None else factor
    ratio = share / (1.0 - share) if share < 1.0 else math.inf
    left = 1.0 - (1.0 + ratio) * epsilon
    if left <= ROUNDED:  # rounding alone may have put it above 0
        return math.inf
    low, high = 0.0, min(epsilon, left / math.sqrt(ratio * (1.0 + ratio)))
    while low < (middle := (low + high) / 2.0) < high:
        slope = left**2 - ratio * (1.0 + ratio) * middle**2
        rises = theta_used * slope**2 * (epsilon - middle)
        falls = ratio * (1.0 - epsilon) ** 2 * middle * (left + (1.0 + ratio) * middle) ** 3
        low, high = (middle, high) if rises > falls else (low, middle)
    kept = math.sqrt(theta_used * high / ((left + (1.0 + ratio) * high) * (left + ratio * high)))
    lost = math.sqrt(ratio * (epsilon - low) / (left + ratio * low))
    return (kept + lost) / math.sqrt(epsilon) * (1.0 + 1e-14 + 4e-16 / left)


def exact_constant(epsilon: float) -> float:
    r"""Return C_a = √8 / ((1 − s₂) √((t + ε) t)) + √(2 / (3 − ε)), s₂ = √(1/t − 1), for Algorithm 2."""
    t = resilience(epsilon)
    if t <= 0.5:
        return math.inf
    left = 1.0 - math.sqrt(1.0 / t - 1.0) - ROUNDED
    if left <= 0.0:
        return math.inf
    found = math.sqrt(8.0) / (left * math.sqrt((t + epsilon) * t)) + math.sqrt(2.0 / (3.0 - epsilon))
    return found * (1.0 + ROUNDED)


def learned_constant(epsilon: float, *, kappa: float, num_rows: int = DENSE_UP_TO) -> float:
    r"""Return C such that a mode that learns σ₀ errs by at most C σ₀ √ε: Theorem 2 of docs/theory/filter.md.

    C = max(C₁, C₂), C₁ = √((2κ/(1 − 2ε) + 1)/(1 − 2ε)), C₂ = C_known + 2 √(1 − ε)/(1 − 2ε). Above 128 rows κ is divided
    by 0.495/1.01 in C₁ and C₂ by √0.495; for mode "spread" C then rests on an assumption, that Ritz values are within
    1 %, which mode "auto" confirms (section 5.2).

    >>> round(learned_constant(0.25, kappa=3.0), 2), round(learned_constant(0.25, kappa=6.0), 2)
    (6.16, 7.07)
    >>> round(learned_constant(0.25, kappa=6.0, num_rows=1000), 2)
    10.0
    """
    if epsilon >= 0.5:
        return math.inf
    left, exact = 1.0 - 2.0 * epsilon - ROUNDED, num_rows <= DENSE_UP_TO
    if left <= 0.0:
        return math.inf
    reuse = 1.0 if exact else REUSE / (1.0 + BOUND_SLACK)
    kappa = kappa if exact else (1.0 + BOUND_SLACK) * kappa / reuse
    before = math.sqrt((2.0 * kappa / left + 1.0) / left)
    after = (known_constant(epsilon) + 2.0 * math.sqrt(1.0 - epsilon) / left) / math.sqrt(reuse)
    return max(before, after) * (1.0 + ROUNDED)


def filter_constant(mode: str, epsilon: float, *, kappa: float | None = None, num_rows: int = DENSE_UP_TO) -> float:
    """Return C of a mode: its error is at most C σ₀ √ε if the assumption holds; infinite beyond what is proved.

    κ is that of the mode if left out. In mode "auto" C is for cohorts in which the guard does not raise f; if it does,
    C is that of the raised f.

    >>> [round(filter_constant(mode, 0.2), 2) for mode in ("known", "auto", "spread", "exact", "lazy")]
    [2.39, 5.92, 5.37, 11.16, 11.16]
    """

    def learned() -> float:
        return learned_constant(epsilon, kappa=kappa or KAPPA[mode], num_rows=num_rows)

    def solved() -> float:
        return exact_constant(epsilon)

    constants: dict[str, Callable[[], float]] = {
        **dict.fromkeys(KAPPA, learned),
        "known": lambda: known_constant(epsilon) if epsilon < 0.5 else math.inf,
        **dict.fromkeys(sorted(ALGORITHM_2), solved),
    }
    return find("mode", mode, constants)()
