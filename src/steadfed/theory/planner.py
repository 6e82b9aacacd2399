"""Inverse questions: how many Byzantine clients, how large a cohort, how many rounds, local steps and points.

Every answer is solved for, not guessed: it fulfils the condition it was asked for, and its neighbour does not. What
cannot be is a `ParameterError` that says which condition fails, and with which value.

The questions about error take a theorem: a function from a problem and a protocol to a `Guarantee`, one of the
paper's or of steadfed's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from steadfed._core.ranges import check_positive, check_probability, check_whole
from steadfed.errors import ParameterError
from steadfed.theory import sampling
from steadfed.theory._guarantee import Guarantee
from steadfed.theory._problem import Problem, Protocol
from steadfed.theory._search import first_in_repetitions, first_of_all, last_holding
from steadfed.theory.paper._concentration import concentration_failure

__all__ = [
    "SHARES",
    "Answer",
    "Theorem",
    "batch_size_for",
    "binomial_cohort",
    "local_steps_for",
    "most_byzantine",
    "paper_cohort",
    "rounds_for",
    "sampled_cohort",
]


def __dir__() -> list[str]:
    return __all__


Theorem = Callable[[Problem, Protocol], Guarantee]
"""What is guaranteed of a problem that is solved by a protocol."""

SHARES = tuple(2.0 ** (-half / 2.0) for half in range(13))
"""Step sizes that are tried, as shares of the largest that a theorem allows: 1 to 1/64, each √2 below the last."""

_MOST_ROUNDS = 1 << 53
"""Above it whole numbers are not all floating-point numbers."""
_MOST_POINTS = 1 << 40
"""The largest batch that is considered if it is not known how many points a client holds."""


@final
@dataclass(frozen=True, kw_only=True)
class Answer:
    """A number, whose it is, and why it is that number.

    >>> print(Answer(question="cohort size", value=92, source="hypergeometric law", because="91 is too small"))
    cohort size: 92 (hypergeometric law; 91 is too small)
    """

    question: str
    value: int
    source: str
    """The theorem or the law."""
    because: str
    details: Mapping[str, float] = field(default_factory=dict)
    """Numbers that belong to the answer, by the names of a protocol's fields where they are such."""

    def __str__(self) -> str:
        """Return the answer as a line."""
        return f"{self.question}: {self.value:,} ({self.source}; {self.because})"


def most_byzantine(
    problem: Problem,
    protocol: Protocol,
    *,
    theorem: Theorem,
    target: float | None = None,
    failure: float | None = None,
) -> Answer:
    """Return how many of the R clients may be Byzantine, if the rule assumes the largest f that a theorem allows.

    f is allowed if the theorem has a finite floor, of at most `target` if that is given; every f below K/2 is tried,
    from above. Of the f updates ⌈ε′K⌉ are set aside for honest ones. Without `failure` the number is that of the worst
    case: all Byzantine clients are in one cohort, and every condition of the theorem holds. With it, cohorts are drawn
    uniformly, and the number is the largest for which in all rounds of the protocol together the probability of more
    Byzantine updates than tolerated is at most `failure`.

    >>> from steadfed.theory._statements import papers
    >>> problem = Problem(smoothness=1.0, gradient_variance=0.0, dissimilarity=0.1, gap=1.0)
    >>> protocol = Protocol(num_clients=1_000, cohort_size=100, assumed_byzantine=0, lr=0.1, rounds=100)
    >>> most_byzantine(problem, protocol, theorem=papers).value
    25
    >>> most_byzantine(problem, protocol, theorem=papers, failure=0.01).value
    126
    """
    goal = math.inf if target is None else check_positive("target", target)
    quiet = protocol.with_changes(num_byzantine=0)
    guarantee = None
    for assumed in range((protocol.cohort_size - 1) // 2, protocol.set_aside - 1, -1):
        told = quiet.with_changes(assumed_byzantine=assumed)
        guarantee = theorem(problem, told)
        if math.isfinite(guarantee.floor) and guarantee.floor <= goal:
            return _worst_case(problem, told, theorem) if failure is None else _sampled_case(told, guarantee, failure)
    if guarantee is None:
        raise ParameterError(
            f"slack must be below 1/2, got {protocol.slack:g}, which sets aside half of the cohort or more"
        )
    raise ParameterError(
        f"not even assumed_byzantine = {protocol.set_aside}, the smallest, will do: {_why_not(guarantee, goal)}"
    )


def _worst_case(problem: Problem, protocol: Protocol, theorem: Theorem) -> Answer:
    rows = protocol.tolerated

    def guarantee_of(byzantine: int) -> Guarantee:
        return theorem(problem, protocol.with_changes(num_byzantine=byzantine))

    if not guarantee_of(0).holds:
        raise ParameterError(_why_not(guarantee_of(0), math.inf))
    number = last_holding(lambda byzantine: guarantee_of(byzantine).holds, 0, rows)
    because = f"all of them may be in one cohort, of which the rule tolerates {rows}{_assumption(protocol)}"
    if number < rows:
        because += f"; with one more {_why_not(guarantee_of(number + 1), math.inf)}"
    return _byzantine_answer(protocol, number, guarantee_of(number), because)


def _sampled_case(protocol: Protocol, guarantee: Guarantee, failure: float) -> Answer:
    law = {"num_clients": protocol.num_clients, "cohort_size": protocol.cohort_size, "tolerated": protocol.tolerated}
    number = sampling.most_byzantine(**law, rounds=protocol.rounds, failure=failure)
    because = (
        f"any of {protocol.rounds:,} uniform cohorts has more than the {protocol.tolerated} updates that the rule "
        f"tolerates with probability ≤ {failure:g}{_assumption(protocol)}"
    )
    return _byzantine_answer(protocol, number, guarantee, because, law=", with the hypergeometric law")


def _assumption(protocol: Protocol) -> str:
    return f", assuming f = {protocol.assumed_byzantine} of K = {protocol.cohort_size}"


def _byzantine_answer(protocol: Protocol, number: int, guarantee: Guarantee, because: str, law: str = "") -> Answer:
    because += f"; the floor is then {guarantee.floor:.4g}"
    details = {
        "assumed_byzantine": float(protocol.assumed_byzantine),
        "tolerated": float(protocol.tolerated),
        "floor": guarantee.floor,
    }
    source = f"{_source(guarantee)}{law}"
    return Answer(question="Byzantine clients", value=number, source=source, because=because, details=details)


def paper_cohort(protocol: Protocol, *, failure: float) -> Answer:
    """Return the smallest K with (T/H) exp(−ε′²(1 − ε)K/16) ≤ failure: ⌈16 ln(N/δ) / (ε′²(1 − ε))⌉.

    ε is the share of a cohort that the protocol tolerates, ε′ its slack; of mini-batches, as full ones cannot fail.

    Paper: Theorem 1 (thm:LocalSGD_convergence).
    """
    allowed, share = check_probability("failure", failure), protocol.tolerated / protocol.cohort_size

    def chance(size: int) -> float:
        return protocol.rounds * concentration_failure(slack=protocol.slack, byzantine_fraction=share, cohort_size=size)

    chance(1)  # refuses ε and ε′ that Theorem 3 does not allow
    size = math.ceil(16.0 * math.log(protocol.rounds / allowed) / (protocol.slack**2 * (1.0 - share)))
    size = max(1, size - 1)
    while chance(size) > allowed:  # at most twice: the logarithm may be a bit off
        size += 1
    because = f"{protocol.rounds:,} · exp(−ε′²(1 − ε)K/16) = {chance(size):.3g} ≤ {allowed:g}, ε′ = {protocol.slack:g}"
    return _cohort(protocol, size, "the paper's Theorem 1", because)


def binomial_cohort(protocol: Protocol, *, failure: float, outlier_share: float = 0.5) -> Answer:
    """Return the smallest K with N · P(Bin(m, p) > j) ≤ failure: the tail itself, where the paper bounds it.

    j = ⌊ε′K⌋ honest updates are set aside, m = K − ⌊εK⌋ updates are honest in the fullest cohort that is tolerated, and
    each is an outlier with a probability of at most p = `outlier_share` · ε′ (Lemma 4 of docs/theory/convergence.md,
    whose τ² has σ_b²/p). Because of the rounding a larger K may fail again.

    >>> protocol = Protocol(
    ...     num_clients=10**6, cohort_size=100, assumed_byzantine=20, slack=0.1, lr=0.1, rounds=100
    ... )
    >>> paper_cohort(protocol, failure=0.01).value, binomial_cohort(protocol, failure=0.01).value
    (16374, 240)
    """
    from scipy.stats import binom  # takes a second, and most commands need none of it

    allowed = check_probability("failure", failure)
    slack = check_probability("slack", protocol.slack)
    part = check_probability("outlier_share", outlier_share)
    share = protocol.tolerated / protocol.cohort_size

    def chances(sizes: Any) -> Any:
        aside, bad = np.floor(slack * sizes + 1e-9), np.floor(share * sizes + 1e-9)
        return protocol.rounds * binom.sf(aside, sizes - bad, part * slack)

    size = first_of_all(lambda sizes: chances(sizes) <= allowed, protocol.num_clients)
    if size is None:
        found = float(chances(np.array([protocol.num_clients]))[0])
        raise ParameterError(
            f"no cohort_size up to num_clients = {protocol.num_clients} keeps the probability of more than a share "
            f"{slack:g} of outliers in any of {protocol.rounds:,} rounds at or below failure = {allowed:g}: a cohort "
            f"of all clients has {found:.3g}; allow more slack, fewer rounds or a larger failure"
        )
    value = float(chances(np.array([size]))[0])
    because = f"{protocol.rounds:,} · P(Bin(m, {part * slack:g}) > ε′K) = {value:.3g} ≤ {allowed:g}, ε′ = {slack:g}"
    return _cohort(protocol, size, "steadfed's Theorem 1", because)


def sampled_cohort(protocol: Protocol, *, failure: float) -> Answer:
    """Return the smallest K of which, in all rounds, no more than the tolerated share is Byzantine but with `failure`.

    The share is what the protocol tolerates, `tolerated` / `cohort_size`; cohorts are drawn uniformly, and the law is
    exact: `steadfed.theory.sampling.smallest_cohort`, where is also said why a larger K may fail again.
    """
    share = protocol.tolerated / protocol.cohort_size
    law = {"num_clients": protocol.num_clients, "num_byzantine": protocol.num_byzantine}
    size = sampling.smallest_cohort(**law, fraction=share, rounds=protocol.rounds, failure=failure)
    chance = sampling.fraction_excess_probability(**law, cohort_size=size, fraction=share, rounds=protocol.rounds)
    because = (
        f"with {protocol.num_byzantine:,} Byzantine of {protocol.num_clients:,} clients, any of {protocol.rounds:,} "
        f"cohorts has more than {share:.4g} of them with probability {chance:.3g} ≤ {failure:g}"
    )
    return _cohort(protocol, size, "hypergeometric law", because)


def rounds_for(problem: Problem, protocol: Protocol, *, target: float, theorem: Theorem) -> Answer:
    """Return the smallest N such that a run of N rounds has a bound of at most `target`.

    For a run of a fixed length the bound falls with the number of rounds done: the first round is found by bisection.
    Where the theorem must hold in all rounds with a given probability, its bound also grows with the length of the run.
    Let N(M) be the first round for a run of M rounds: it does not fall with M, so M ← N(M) started at 1 climbs to the
    smallest M with N(M) ≤ M, and no shorter run will do. With gaps that differ the first round is looked for by
    repetitions of the list; with gaps that were drawn, among those.
    """
    goal = check_positive("target", target)
    number, guarantee = _fewest_rounds(problem, protocol, goal, theorem)
    if number is None:
        raise ParameterError(_why_not(guarantee, goal, within=int(min(_MOST_ROUNDS, protocol.known_rounds))))
    reached = float(guarantee.bound(number))
    before = f", {float(guarantee.bound(number - 1)):.4g} one round earlier" if number else ""
    because = f"{guarantee.quantity} is bounded by {reached:.4g}{before}; target {goal:g}, floor {guarantee.floor:.4g}"
    return Answer(question="rounds", value=number, source=_source(guarantee), because=because)


def local_steps_for(
    problem: Problem,
    protocol: Protocol,
    *,
    target: float,
    theorem: Theorem,
    most_steps: int = 64,
    lr_shares: Sequence[float] = SHARES,
) -> Answer:
    """Return the H, from 1 to `most_steps`, that reaches `target` in the fewest rounds, with its step size.

    Every H is tried with every share of the largest step size that the theorem allows for it (pass `(1.0,)` for that
    one only), and the rounds are those of `rounds_for`; of equals the fewest local steps, then the larger step size.
    """
    goal, limit = check_positive("target", target), check_whole("most_steps", most_steps)
    shares = [check_positive("lr_shares", share) for share in lr_shares]
    best: tuple[int, int, float] | None = None
    nearest: tuple[Protocol, Guarantee] | None = None
    for steps in range(1, limit + 1):
        largest = theorem(problem, protocol.with_changes(local_steps=steps)).lr_limit
        for share in shares:
            tried = protocol.with_changes(local_steps=steps, lr=share * largest)
            number, guarantee = _fewest_rounds(problem, tried, goal, theorem, best[0] if best else _MOST_ROUNDS)
            if number is not None and (best is None or (number, steps, -tried.lr) < best):
                best = number, steps, -tried.lr
            if nearest is None or _floor(guarantee) < _floor(nearest[1]):
                nearest = tried, guarantee
    if nearest is None:
        raise ParameterError(f"lr_shares must hold at least one share of the largest step size, got {lr_shares!r}")
    if best is None:
        at = f"local_steps = {nearest[0].local_steps} with lr = {nearest[0].lr:.4g}"
        raise ParameterError(
            f"no local_steps from 1 to {limit} will do; the lowest floor is that of {at}: {_why_not(nearest[1], goal)}"
        )
    return _fewest_steps(best, goal, limit, _source(nearest[1]))


def batch_size_for(problem: Problem, protocol: Protocol, *, target: float, theorem: Theorem) -> Answer:
    """Return the smallest b for which the floor of a theorem is at most `target`.

    The variance of a mini-batch falls with b, and the floor with it: bisection, up to the points that a client holds.
    """
    goal = check_positive("target", target)
    most = protocol.num_points or _MOST_POINTS

    def guarantee_of(points: int) -> Guarantee:
        return theorem(problem, protocol.with_changes(batch_size=points))

    if _floor(guarantee_of(most)) > goal:
        raise ParameterError(f"not even batch_size = {most} will do: {_why_not(guarantee_of(most), goal)}")
    size = most - last_holding(lambda less: _floor(guarantee_of(most - less)) <= goal, 0, most - 1)
    found = guarantee_of(size)
    before = f", {_floor(guarantee_of(size - 1)):.4g} with one point less" if size > 1 else ""
    because = f"the floor of {found.quantity} is {found.floor:.4g}{before}; target {goal:g}"
    return Answer(question="batch size", value=size, source=_source(found), because=because)


def _fewest_steps(best: tuple[int, int, float], goal: float, limit: int, source: str) -> Answer:
    rounds, steps, lr = best[0], best[1], -best[2]
    because = f"rounds = {rounds:,} with lr = {lr:.4g} reach the target {goal:g}, the fewest of all H from 1 to {limit}"
    return Answer(
        question="local steps",
        value=steps,
        source=source,
        because=because,
        details={"rounds": float(rounds), "lr": lr},
    )


def _fewest_rounds(
    problem: Problem, protocol: Protocol, goal: float, theorem: Theorem, most: int = _MOST_ROUNDS
) -> tuple[int | None, Guarantee]:
    """Return the least fixed point of `rounds_for` and the guarantee of a run so long; None if it is above `most`."""
    length, most = 1, int(min(most, protocol.known_rounds))
    while True:
        guarantee = theorem(problem, protocol.with_changes(rounds=length))
        needed = _first_round(guarantee, goal, most)
        if needed is None:
            return None, guarantee
        if needed <= length:
            return (needed if length == 1 else length), guarantee
        length = needed


def _first_round(guarantee: Guarantee, goal: float, most: int) -> int | None:
    """Return the first round whose bound is at most the goal; None if none up to `most` is, or a condition fails."""
    if guarantee.holds and guarantee.bound(0) <= goal:
        return 0
    if not guarantee.holds or not _is_reached(guarantee, goal, most):
        return None
    return first_in_repetitions(lambda rounds: guarantee.bound(rounds) <= goal, guarantee.period, most)


def _is_reached(guarantee: Guarantee, goal: float, most: int) -> bool:
    r"""Return whether some round from 1 to `most` has a bound of at most the goal.

    The floor is the largest of the limits that the bound has at the places of a period: with gaps that differ a target
    below it may be reached again and again, just after the rounds that err least, or at the beginning only.

    At every place j of the period P the bound is monotone in the number m of periods before it, so that it is enough
    to look at the first and at the last P rounds. *Proof.* With T and T_j the steps of a period and of its first j
    rounds, the distance of Theorem 1 is D_{mP+j} = ρ^{mT} ρ^{T_j} (D_0 − D*) + L_j, which goes one way to its limit
    L_j, and its square with it. The mean of Theorem 2 is (a_j + m S)/(T_j + m T), S being what a period adds and a_j
    what its beginning does, and the sign of its slope, that of S T_j − a_j T, does not depend on m. Every other bound
    falls with the number of steps. ∎ A bound that falls stays above its limit, but may be rounded to it: late in the
    run, where a target that equals the limit would be reached, the bound must be below it.
    """
    if guarantee.period == 1:
        return guarantee.floor < goal and bool(guarantee.bound(most) <= goal)
    places = np.arange(min(guarantee.period, most))
    return bool((guarantee.bound(1 + places) <= goal).any() or (guarantee.bound(most - places) < goal).any())


def _source(guarantee: Guarantee) -> str:
    return f"{guarantee.source}: {guarantee.theorem}"


def _cohort(protocol: Protocol, size: int, source: str, because: str) -> Answer:
    if size > protocol.num_clients:
        raise ParameterError(
            f"cohort_size must be at most num_clients = {protocol.num_clients}, and {source} needs {size}: {because}"
        )
    return Answer(question="cohort size", value=size, source=source, because=because)


def _floor(guarantee: Guarantee) -> float:
    """Return the floor, infinite where a condition fails."""
    return guarantee.floor if guarantee.holds else math.inf


def _why_not(guarantee: Guarantee, goal: float, within: int = _MOST_ROUNDS) -> str:
    """Say which condition of a theorem fails, or what keeps its floor above the goal."""
    failed = [each for each in guarantee.conditions if not each.passed]
    if failed:
        listed = "; ".join(f"{each.name}: {each.requirement}, got {each.value:.4g}" for each in failed)
        return f"{_source(guarantee)}, does not apply, since a condition fails: {listed}"
    said = f"target = {goal:.6g} is not reached by {_source(guarantee)}"
    if guarantee.floor < goal:
        return f"{said}, within {within:,} rounds, although its floor is {guarantee.floor:.6g}"
    causes = sorted(guarantee.floors.items(), key=lambda item: item[1])
    without = "; it would be " + ", ".join(f"{left:.4g} {name}" for name, left in causes) if causes else ""
    return f"{said}, whose floor is {guarantee.floor:.6g}{without}"
