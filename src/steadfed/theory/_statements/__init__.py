"""From numbers to guarantees: the paper's theorem and steadfed's own, for one problem and one protocol."""

from __future__ import annotations

from steadfed.theory._guarantee import Guarantee
from steadfed.theory._problem import Problem, Protocol
from steadfed.theory._statements.papers import papers
from steadfed.theory._statements.sharpened import expected, likely

__all__ = ["expected", "guarantees", "likely", "papers"]


def guarantees(problem: Problem, protocol: Protocol) -> tuple[Guarantee, ...]:
    """Return the paper's guarantee and steadfed's own: in expectation, and with high probability if there is chance.

    >>> problem = Problem(smoothness=1.0, strong_convexity=0.1, gradient_variance=1.0, dissimilarity=0.1, distance=9.0)
    >>> protocol = Protocol(num_clients=100, cohort_size=40, assumed_byzantine=8, num_byzantine=8, lr=0.1, rounds=400)
    >>> [f"{each.source}: {each.floor:.3g}" for each in guarantees(problem, protocol)]
    ['the paper: 2.51e+04', 'steadfed: 80']
    >>> print(guarantees(problem, protocol)[1])
    steadfed: Theorem 1 of convergence.md, strongly convex
      bounds                              ‖x_k − x*‖² after k rounds, surely
      ✓ step size                         η ≤ 2/(L + μ): 0.1 ≤ 1.818, with a factor of 18.2 to spare
      ✓ distrusted updates                ε̃ = f/K < 0.5: 0.2 < 0.5, with a factor of 2.5 to spare
      step size at most                   1.818
      honest spread σ₀, filter's error Υ  0.3162, 0.8367
      rests on                            the guard raises f for no honest updates (filter.md, 5.4)
      bound after 400 rounds              78.1
      floor                               80 (0 if clients were alike; 10 if nobody were distrusted)
      may fail with probability           0 (a cohort has more Byzantine updates than tolerated: 0)
    """
    if protocol.noise(problem.gradient_variance) == 0.0:
        return (papers(problem, protocol), expected(problem, protocol))
    return (papers(problem, protocol), expected(problem, protocol), likely(problem, protocol))
