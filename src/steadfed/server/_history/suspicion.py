"""How sure one may be, after some rounds, that a client does not do what it should."""

from __future__ import annotations

import math

CONFIDENCE = 1.6448536269514722
"""z of a one-sided bound of 95 %: Φ(z) = 0.95."""


def wilson_lower_bound(hits: int, trials: int) -> float:
    r"""Return the least share that is plausible, at a confidence of 95 %, after so many hits in so many trials.

    With p = hits/trials, n = trials and z = Φ⁻¹(0.95), the smaller root q of (p − q)² = z² q (1 − q)/n:

        q = (p + z²/2n − z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n)

    (Wilson 1927). It is 0 without hits, and n/(n + z²) < 1 if every trial is a hit: one of one proves little.

    >>> [round(wilson_lower_bound(*seen), 2) for seen in ((1, 1), (3, 3), (10, 10), (10, 20), (0, 5))]
    [0.27, 0.53, 0.79, 0.33, 0.0]
    """
    if not hits:
        return 0.0
    share, weight = hits / trials, CONFIDENCE**2 / trials
    deviation = CONFIDENCE * math.sqrt(share * (1.0 - share) / trials + weight / (4.0 * trials))
    return max(0.0, (share + weight / 2.0 - deviation) / (1.0 + weight))
