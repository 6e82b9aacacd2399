"""How many Byzantine clients a cohort has that is drawn by chance, and how large a cohort must be.

A cohort of K clients, drawn uniformly without replacement from R of which B are Byzantine, holds X Byzantine ones with
the hypergeometric law P(X = x) = C(B, x) C(R − B, K − x) / C(R, K). The paper's condition ε < K/4R, that is B < K/4
(thm:LocalSGD_convergence), is the worst case: all B are in the same cohort. What is here needs no worst case: it asks
how probable a bad cohort is, in one round or in any of N rounds with independent cohorts.

The probabilities are relative to the clients' choice of sides before the cohorts are drawn: an adversary who may
corrupt clients after seeing the cohort is not covered, nor are cohorts that anybody but the server chooses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from steadfed._core.ranges import check_probability, check_share, check_whole
from steadfed.errors import ParameterError
from steadfed.theory._search import first_of_all, last_holding

__all__ = [
    "excess_probability",
    "fraction_excess_probability",
    "log_excess_probability",
    "most_byzantine",
    "run_excess_probability",
    "smallest_cohort",
    "tolerated_for",
    "tolerated_of",
]


def __dir__() -> list[str]:
    return __all__


_MOST_CLIENTS = 1_000_000_000
"""Above it the hypergeometric law is not known to be evaluated accurately."""
_WHOLE = 1e-12
"""A product of a fraction and a size that is less than a whole number by this part of itself counts as that number."""


def excess_probability(*, num_clients: int, num_byzantine: int, cohort_size: int, tolerated: int) -> float:
    """Return P(X > f): the probability that a cohort holds more than `tolerated` Byzantine clients.

    The upper tail is summed as such, not as 1 − P(X ≤ f), so that tiny probabilities keep their digits: all of them up
    to thousands of clients, ten for a million. Below 10⁻³⁰⁰ use `log_excess_probability`.

    >>> round(excess_probability(num_clients=4, num_byzantine=2, cohort_size=2, tolerated=1), 12)  # 1 of 6 cohorts
    0.166666666667
    """
    clients, byzantine, cohort = _population(num_clients, num_byzantine, cohort_size)
    return float(_tail(check_whole("tolerated", tolerated, 0, cohort), clients, byzantine, cohort))


def log_excess_probability(*, num_clients: int, num_byzantine: int, cohort_size: int, tolerated: int) -> float:
    """Return log P(X > f), finite wherever the probability is above 0 however small, −∞ where it is 0.

    Beyond the mean, P(X > f) = P(X = f+1) (1 + r₁ + r₁r₂ + …) with the ratios of neighbouring probabilities
    r = (B − x)(K − x) / ((x + 1)(R − B − K + x + 1)), which fall; the sum is taken in this form.

    >>> round(log_excess_probability(num_clients=9_000, num_byzantine=900, cohort_size=900, tolerated=890), 6)
    -2804.909301
    """
    clients, byzantine, cohort = _population(num_clients, num_byzantine, cohort_size)
    bound = check_whole("tolerated", tolerated, 0, cohort)
    chance = float(_tail(bound, clients, byzantine, cohort))
    if chance > 1e-300:
        return math.log(chance)
    if bound >= min(byzantine, cohort):
        return -math.inf
    x = np.arange(bound + 1, min(byzantine, cohort), dtype=np.float64)
    ratios = (byzantine - x) * (cohort - x) / ((x + 1.0) * (clients - byzantine - cohort + x + 1.0))
    from scipy.stats import hypergeom  # takes a second, and most commands need none of it

    first = float(hypergeom.logpmf(bound + 1, clients, byzantine, cohort))
    return first + math.log1p(float(np.cumprod(ratios).sum()))


def run_excess_probability(
    *, num_clients: int, num_byzantine: int, cohort_size: int, tolerated: int, rounds: int
) -> float:
    """Return the probability that at least one of N independent cohorts holds more than `tolerated`: 1 − (1 − p)^N.

    >>> chance = run_excess_probability(num_clients=4, num_byzantine=2, cohort_size=2, tolerated=1, rounds=2)
    >>> round(chance, 12), round(chance * 36, 9)  # 11 of 36
    (0.305555555556, 11.0)
    """
    chance = excess_probability(
        num_clients=num_clients, num_byzantine=num_byzantine, cohort_size=cohort_size, tolerated=tolerated
    )
    return float(_any_of(chance, check_whole("rounds", rounds, 0)))


def tolerated_of(*, cohort_size: int, fraction: float) -> int:
    """Return ⌊αK⌋, the largest number of clients that is no more than the fraction α of a cohort.

    Products of floating-point numbers miss whole numbers by a bit: 0.29 · 100 gives 28.999999999999996. A product that
    is below a whole number by less than one part in 10¹² therefore counts as that number.

    >>> tolerated_of(cohort_size=40, fraction=0.25), tolerated_of(cohort_size=100, fraction=0.29)
    (10, 29)
    """
    return int(_floor(check_share("fraction", fraction), check_whole("cohort_size", cohort_size)))


def fraction_excess_probability(
    *, num_clients: int, num_byzantine: int, cohort_size: int, fraction: float, rounds: int = 1
) -> float:
    """Return the probability that in any of N rounds more than a fraction α of the cohort is Byzantine: X > ⌊αK⌋.

    >>> fraction_excess_probability(num_clients=1_000, num_byzantine=100, cohort_size=100, fraction=0.25) < 1e-6
    True
    """
    clients, byzantine, cohort = _population(num_clients, num_byzantine, cohort_size)
    bound = tolerated_of(cohort_size=cohort, fraction=fraction)
    return float(_any_of(_tail(bound, clients, byzantine, cohort), check_whole("rounds", rounds, 0)))


def smallest_cohort(
    *, num_clients: int, num_byzantine: int, fraction: float, rounds: int = 1, failure: float = 0.01
) -> int:
    """Return the smallest K such that, with probability 1 − failure, no cohort of N has more than αK Byzantine clients.

    Larger cohorts are not always better, because ⌊αK⌋ grows in steps: between two steps P(X > ⌊αK⌋) grows with K. So
    within the sizes that share a value of ⌊αK⌋ the first is the best, and the answer is the first of these first sizes
    that fulfils the condition; all of them are looked at, in order. A larger K may fail it again: ask
    `fraction_excess_probability`. Where αR ≥ B, the whole population fulfils it. Where αR < B, Hoeffding's inequality
    (which holds without replacement) gives P(X > ⌊αK⌋) ≥ 1 − exp(−2K(B/R − α)²), so the search ends at a finite K.

    Raises:
        ParameterError: no K up to R does; then more than the fraction α of all clients are Byzantine.

    >>> smallest_cohort(num_clients=10_000, num_byzantine=1_000, fraction=0.25, rounds=1_000, failure=0.01)
    92
    """
    clients = check_whole("num_clients", num_clients, most=_MOST_CLIENTS)
    byzantine = check_whole("num_byzantine", num_byzantine, 0, clients)
    alpha, number = check_share("fraction", fraction), check_whole("rounds", rounds, 0)
    allowed = check_probability("failure", failure)

    def holds(sizes: Any) -> Any:
        bounds = _floor(alpha, sizes)
        first = (bounds > _floor(alpha, sizes - 1)) | (sizes == 1)
        good = np.zeros(sizes.shape, dtype=bool)
        good[first] = _any_of(_tail(bounds[first], clients, byzantine, sizes[first]), number) <= allowed
        return good

    size = first_of_all(holds, _last_worth_looking_at(clients, byzantine, alpha, number, allowed))
    if size is None:
        raise ParameterError(_impossible(clients, byzantine, alpha, number, allowed))
    return size


def most_byzantine(
    *, num_clients: int, cohort_size: int, tolerated: int, rounds: int = 1, failure: float = 0.01
) -> int:
    """Return the largest B such that, with probability 1 − failure, no cohort of N has more than `tolerated` of them.

    P(X > f) grows with B, and is 0 for B = f: bisection. For B = f the statement is certain, the paper's worst case.

    >>> most_byzantine(num_clients=10_000, cohort_size=100, tolerated=25, rounds=1_000, failure=0.01)
    1058
    """
    clients, _, cohort = _population(num_clients, 0, cohort_size)
    bound, number = check_whole("tolerated", tolerated, 0, cohort), check_whole("rounds", rounds, 0)
    allowed = check_probability("failure", failure)

    def holds(byzantine: int) -> bool:
        return bool(_any_of(_tail(bound, clients, byzantine, cohort), number) <= allowed)

    return last_holding(holds, bound, clients)


def tolerated_for(
    *, num_clients: int, num_byzantine: int, cohort_size: int, rounds: int = 1, failure: float = 0.01
) -> int:
    """Return the smallest f that a rule must assume so that, with probability 1 − failure, no cohort of N exceeds it.

    P(X > f) falls with f, and is 0 for f = min(B, K): bisection.

    >>> tolerated_for(num_clients=10_000, num_byzantine=1_000, cohort_size=100, rounds=1_000, failure=0.01)
    25
    """
    clients, byzantine, cohort = _population(num_clients, num_byzantine, cohort_size)
    number, allowed = check_whole("rounds", rounds, 0), check_probability("failure", failure)
    most = min(byzantine, cohort)

    def holds(below_most: int) -> bool:
        return bool(_any_of(_tail(most - below_most, clients, byzantine, cohort), number) <= allowed)

    return most - last_holding(holds, 0, most)


def _population(num_clients: Any, num_byzantine: Any, cohort_size: Any) -> tuple[int, int, int]:
    """Return R, B and K with 0 ≤ B ≤ R and 1 ≤ K ≤ R."""
    clients = check_whole("num_clients", num_clients, most=_MOST_CLIENTS)
    byzantine = check_whole("num_byzantine", num_byzantine, 0, clients)
    return clients, byzantine, check_whole("cohort_size", cohort_size, most=clients)


def _floor(fraction: float, sizes: Any) -> Any:
    return np.floor(np.multiply(fraction * (1.0 + _WHOLE), sizes)).astype(np.int64)


def _tail(bounds: Any, clients: int, byzantine: int, cohorts: Any) -> Any:
    """Return P(X > bound) for numbers or arrays of cohorts."""
    from scipy.stats import hypergeom  # takes a second, and most commands need none of it

    return np.clip(hypergeom.sf(bounds, clients, byzantine, cohorts), 0.0, 1.0)


def _any_of(chances: Any, rounds: int) -> Any:
    """Return 1 − (1 − p)^N without losing small p."""
    with np.errstate(divide="ignore"):
        return -np.expm1(rounds * np.log1p(-np.asarray(chances))) if rounds else np.zeros_like(chances)


def _last_worth_looking_at(clients: int, byzantine: int, fraction: float, rounds: int, failure: float) -> int:
    """Return a cohort size beyond which Hoeffding's inequality rules the condition out, or R."""
    if byzantine <= _floor(fraction, clients) or not rounds:
        return clients
    gap = max(byzantine / clients - fraction * (1.0 + _WHOLE), 1e-16)
    enough = -math.log1p(-failure) / rounds / (2.0 * gap * gap)  # exp(−2K gap²) < (1 − failure)^(1/N) from there on
    return clients if enough >= clients else max(1, math.ceil(enough))


def _impossible(clients: int, byzantine: int, fraction: float, rounds: int, failure: float) -> str:
    return (
        f"no cohort_size from 1 to num_clients = {clients} keeps the probability of more than a fraction {fraction:g} "
        f"of Byzantine clients in any of {rounds} rounds at or below failure = {failure:g}: num_byzantine = "
        f"{byzantine} exceeds this fraction of all clients, so that larger cohorts only come closer to what they "
        f"should not hold; allowed is num_byzantine up to {int(_floor(fraction, clients))}"
    )
