"""The planner's answers that are worth a line before a run, and why where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from steadfed.errors import ParameterError
from steadfed.theory import Problem, Protocol, planner
from steadfed.theory._statements import expected, likely, papers
from steadfed.theory.planner import Answer, Theorem

MOST_STEPS = 32
"""Up to how many local steps the best H is looked for."""
_SHARES = (1.0, 0.5, 0.25, 0.125)
"""Step sizes that are tried for each, as shares of the largest allowed."""
_WITHIN = 2.0
"""The target is so many times the floor, unless one is given."""
_UNLIMITED = 10**9


def own_theorem(protocol: Protocol) -> Theorem:
    """Return the statement of steadfed that speaks of a protocol: in expectation if the rule adapts, else likely."""
    return expected if protocol.learns or protocol.batch_size == "full" else likely


def answers(problem: Problem, protocol: Protocol, *, failure: float, target: float | None) -> dict[str, Answer | str]:
    """Return what the planner says of one problem and one protocol, by question; in words where there is no answer."""
    return {question: _ask(ask) for question, ask in _questions(problem, protocol, failure, target)}


def paper_cohort(protocol: Protocol, *, failure: float) -> int | None:
    """Return the cohort that the paper's failure probability asks for, even if there are not so many clients."""
    try:
        return planner.paper_cohort(protocol.with_changes(num_clients=_UNLIMITED), failure=failure).value
    except ParameterError:
        return None


def _questions(
    problem: Problem, protocol: Protocol, failure: float, target: float | None
) -> Iterator[tuple[str, Callable[[], Answer]]]:
    theorem = own_theorem(protocol)
    yield (
        "most Byzantine clients, worst case (the paper)",
        lambda: planner.most_byzantine(problem, protocol, theorem=papers),
    )
    yield "most Byzantine clients, worst case", lambda: planner.most_byzantine(problem, protocol, theorem=theorem)
    if protocol.uniform:
        yield (
            f"most Byzantine clients, but with probability {failure:g}",
            lambda: planner.most_byzantine(problem, protocol, theorem=theorem, failure=failure),
        )
        yield (
            f"smallest cohort that keeps to its share but with probability {failure:g}",
            lambda: planner.sampled_cohort(protocol, failure=failure),
        )
    goal = target if target is not None else _WITHIN * theorem(problem, protocol).floor
    if target is None and not goal < _start(problem):
        yield "rounds to come near the floor", lambda: _not_near(problem, protocol, theorem)
        return
    shown = f"{goal:.4g}" if target is not None else f"{goal:.4g}, twice the floor"
    yield f"rounds to {shown}", lambda: planner.rounds_for(problem, protocol, target=goal, theorem=theorem)
    yield (
        f"local steps that need the fewest rounds to {shown}",
        lambda: planner.local_steps_for(
            problem, protocol, target=goal, theorem=theorem, most_steps=MOST_STEPS, lr_shares=_SHARES
        ),
    )


def _start(problem: Problem) -> float:
    """Return what is bounded, at the start: ‖x_0 − x*‖², or what smoothness gives for ‖∇F(x_0)‖²."""
    return problem.start if problem.strong_convexity else 2.0 * problem.smoothness * problem.height


def _not_near(problem: Problem, protocol: Protocol, theorem: Theorem) -> Answer:
    guarantee = theorem(problem, protocol)
    failed = [each.name for each in guarantee.conditions if not each.passed]
    if failed:
        raise ParameterError(f"there is no floor, as a condition fails: {', '.join(failed)}")
    doubled = f"twice the floor, {_WITHIN * guarantee.floor:.4g}"
    raise ParameterError(f"{doubled}, is not below the start, {_start(problem):.4g}")


def _ask(ask: Callable[[], Answer]) -> Answer | str:
    try:
        return ask()
    except ParameterError as error:
        return str(error)
