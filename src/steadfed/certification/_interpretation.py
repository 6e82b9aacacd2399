"""What a plan means in practice, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator

from steadfed._core.wording import percent
from steadfed.certification._answers import paper_cohort
from steadfed.theory import Guarantee, Problem, Protocol, paper, sampling

_LARGEST = paper.LARGEST_FRACTION
_CAUSES = {
    "if clients were alike": ("heterogeneity", "clients that are more alike (a smaller κ)"),
    "with full batches": ("the sampling of batches", "larger batches"),
    "if nobody were distrusted": (
        "distrust of Byzantine updates",
        "assuming fewer Byzantine updates, as far as the adversary allows",
    ),
}
"""What a floor without one of its causes is called, that cause, and what helps against it."""


def interpret(
    problem: Problem, protocol: Protocol, guarantees: tuple[Guarantee, ...], *, failure: float
) -> tuple[str, ...]:
    """Return the sentences."""
    papers, own = guarantees[0], guarantees[1]
    return (
        *_papers_probability(protocol, failure),
        *_batches(problem, protocol),
        *_cohorts(protocol),
        *_step_size(protocol, papers, own),
        *_progress(problem, protocol, own),
        *_floor(own),
    )


def _papers_probability(protocol: Protocol, failure: float) -> Iterator[str]:
    if protocol.coordinates < 1.0:
        yield (
            f"The paper's theorems are about whole updates; with {percent(protocol.coordinates)} of the coordinates in "
            f"a round, steadfed's alone speak of the run: the same step size as for whole updates, about "
            f"{1.0 / protocol.coordinates:.3g} times as many rounds; the same floor, too, if the rule learns the "
            f"spread and all rounds take as many steps."
        )
        return
    if protocol.batch_size == "full":
        yield "Full batches leave nothing to chance: the paper's Theorem 2 is about every run, given the cohorts."
        return
    size = protocol.cohort_size
    slack = protocol.slack if 0.0 < protocol.slack and protocol.fraction <= _LARGEST else _LARGEST
    share = protocol.tolerated / size if slack == protocol.slack else 0.0
    chance = paper.failure_probability(
        total_steps=protocol.total_steps,
        local_steps=protocol.local_steps,
        slack=slack,
        byzantine_fraction=share,
        cohort_size=size,
    )
    stated = f"{protocol.rounds:,} · exp(−ε′²(1 − ε)K/16) = {chance:.3g}"
    taken = f"ε′ = {slack:g}" if slack == protocol.slack else f"the largest ε′ = {slack:g} and nobody Byzantine"
    shape = protocol.model_copy(
        update={"slack": slack, "assumed_byzantine": math.ceil((slack + share) * size - 1e-9), "num_byzantine": 0}
    )
    needed = paper_cohort(shape, failure=failure)
    wants = "" if needed is None else f"; for {failure:g} it asks for K ≥ {needed:,}"
    if chance >= 1.0:
        yield (
            f"The paper's failure probability, {stated} with {taken}, is at least 1: it says nothing for K = {size}"
            f"{wants}."
        )
    else:
        yield f"The paper's failure probability is {stated} with {taken}{wants}."


def _batches(problem: Problem, protocol: Protocol) -> Iterator[str]:
    """Say with which variance of a mini-batch all bounds reckon."""
    if protocol.batch_size == "full" or problem.gradient_variance == 0.0:
        return
    noise, size = protocol.noise(problem.gradient_variance), protocol.batch_size
    coarse = paper.minibatch_variance(gradient_variance=problem.gradient_variance, batch_size=size)
    if protocol.num_points is None:
        yield (
            f"How many points clients hold is not known, so the variance of a mini-batch is taken to be σ²/b = "
            f"{coarse:.4g}; drawn without replacement from n points it is (n − b)/(b(n − 1)) σ², which is less."
        )
        return
    yield (
        f"Mini-batches are drawn without replacement, b = {size:,} of at most n = {protocol.num_points:,} points: "
        f"their variance is at most (n − b)/(b(n − 1)) σ² = {noise:.4g}, {percent(noise / coarse, 0)} of σ²/b."
    )


def _cohorts(protocol: Protocol) -> Iterator[str]:
    number, clients, size = protocol.num_byzantine, protocol.num_clients, protocol.cohort_size
    if not number:
        yield "No client is Byzantine, so no cohort can have too many; the rule pays for its distrust all the same."
        return
    who = f"With {number:,} of {clients:,} clients Byzantine and cohorts of {size:,}"
    if not protocol.uniform:
        most = min(number, size)
        verdict = "tolerated" if most <= protocol.tolerated else f"more than the {protocol.tolerated} tolerated"
        yield f"{who} that are not drawn uniformly, {most} may meet in one cohort, which is {verdict}."
        return
    if min(number, size) <= protocol.tolerated:
        yield f"{who}, no cohort can have more than the {protocol.tolerated} Byzantine updates that are tolerated."
        return
    bounds = {protocol.assumed_byzantine: "that the rule assumes"}
    bounds.setdefault(protocol.tolerated, "that are left for them")
    for bound, what in bounds.items():
        once = sampling.excess_probability(**protocol.population, tolerated=bound)
        ever = sampling.run_excess_probability(**protocol.population, tolerated=bound, rounds=protocol.rounds)
        yield (
            f"{who}, more than the {bound} Byzantine updates {what} occur in a round with probability {once:.3g} "
            f"and in some of {protocol.rounds:,} rounds with probability {ever:.3g} (hypergeometric, exact)."
        )


def _step_size(protocol: Protocol, papers: Guarantee, own: Guarantee) -> Iterator[str]:
    def limit_text(guarantee: Guarantee) -> str:
        limit = guarantee.lr_limit
        if guarantee.conditions[0].passed or not limit:
            return f"{limit:.4g}"
        return f"{limit:.4g} (this is {protocol.lr / limit:.3g} times too large)"

    if protocol.coordinates < 1.0:
        yield f"The step size is {protocol.lr:.4g}; steadfed's theorem allows up to {limit_text(own)}."
        return
    yield (
        f"The step size is {protocol.lr:.4g}; the paper allows up to {limit_text(papers)}, steadfed's theorem up to "
        f"{limit_text(own)}."
    )


def _progress(problem: Problem, protocol: Protocol, own: Guarantee) -> Iterator[str]:
    if own.is_vacuous:
        return
    after = float(own.bound(protocol.rounds))
    if problem.strong_convexity:
        start = problem.start
        told = (
            f"From ‖x_0 − x*‖² = {start:.4g} the bound, {own.reading}, goes to {after:.4g} in {protocol.rounds:,} "
            f"rounds"
        )
        tail = (
            "; the floor is above the start, so no progress is guaranteed, only that the run goes no further away"
            if own.floor >= start
            else f" and to {own.floor:.4g} in the end"
        )
        yield f"{told}{tail}."
        return
    yield (
        f"After {protocol.rounds:,} rounds the mean of ‖∇F‖² is at most {after:.4g}, {own.reading}, of which "
        f"{own.floor:.4g} stays however long the run."
    )
    trivial = 2.0 * problem.smoothness * problem.height
    if own.floor >= trivial:
        yield (
            f"That is no progress: smoothness alone gives ‖∇F(x_0)‖² ≤ 2L(F(x_0) − F*) = {trivial:.4g} at the start. "
            f"The theorem rules out disaster, not more."
        )


def _floor(own: Guarantee) -> Iterator[str]:
    if not own.floors or not math.isfinite(own.floor) or own.floor == 0.0:
        return
    without, left = min(own.floors.items(), key=lambda item: item[1])
    cause, remedy = _CAUSES[without]
    share = 1.0 - left / own.floor
    yield (
        f"The largest cause of the floor is {cause}: {without} it would be {left:.3g} instead of "
        f"{own.floor:.3g} ({percent(share, 0)} less). What would help most: {remedy}."
    )
