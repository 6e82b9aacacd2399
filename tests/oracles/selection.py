"""The rules that choose whole rows, by trying every choice or by loops over rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from tests.oracles.coordinatewise import Array, average, average_row, nearest_to_the_median

Chosen = tuple[Array, list[int]]
"""The update and the rows it is the average of, in increasing order."""


def squared_distance(left: Array, right: Array) -> float:
    """Return ‖left − right‖² from the differences."""
    return sum((float(x) - float(y)) ** 2 for x, y in zip(left, right, strict=True))


def norm(row: Array) -> float:
    """Return ‖row‖."""
    return math.hypot(*(float(x) for x in row))


def smallest(scores: Sequence[float], number: int) -> list[int]:
    """Return the places of the `number` smallest scores, the first of equal ones, in increasing order."""
    return sorted(sorted(range(len(scores)), key=lambda i: (scores[i], i))[:number])


def averaged(rows: Array, chosen: Sequence[int]) -> Chosen:
    """Return the average of the chosen rows, and which they are."""
    return average_row(rows[i] for i in sorted(chosen)), sorted(chosen)


def krum_scores(rows: Array, num_byzantine: int) -> list[float]:
    """Return Σ of the squared distances to the n − f − 2 nearest other rows (Blanchard et al. 2017, section 4).

    At least one neighbour is counted, where there is one: the definition needs n > f + 2.
    """
    neighbours = max(1, len(rows) - num_byzantine - 2)
    scores = []
    for i in range(len(rows)):
        distances = [squared_distance(rows[i], rows[j]) for j in range(len(rows)) if j != i]
        scores.append(sum(sorted(distances)[:neighbours]))
    return scores


def multi_krum(rows: Array, num_byzantine: int, num_selected: int) -> Chosen:
    """Average the rows with the best Krum scores (Blanchard et al. 2017, Multi-Krum).

    Ambiguous: some implementations run Krum again after every choice, as Bulyan does; here all scores are computed
    once, on all rows.
    """
    return averaged(rows, smallest(krum_scores(rows, num_byzantine), num_selected))


def bulyan(rows: Array, num_byzantine: int) -> Chosen:
    """Choose θ = n − 2f rows by Krum on what is left, then average around their median (El Mhamdi et al. 2018, sec. 4).

    Of every coordinate the β = θ − 2f values nearest to the median of the chosen are averaged. Ambiguous: the number
    of neighbours as rows are taken away (that of Krum on the rows left, at least one), the median of an even number of
    values (the mean of the middle two), values equally near (the smaller one). The second result are the θ chosen.
    """
    left, chosen = list(range(len(rows))), []
    for _ in range(len(rows) - 2 * num_byzantine):
        scores = krum_scores(rows[left], num_byzantine)
        chosen.append(left.pop(scores.index(min(scores))))
    beta = len(chosen) - 2 * num_byzantine
    update = [average(nearest_to_the_median(rows[chosen, k], beta)) for k in range(rows.shape[1])]
    return np.array(update), sorted(chosen)


def minimum_diameter(rows: Array, num_byzantine: int) -> Chosen:
    """Average the n − f rows of smallest diameter, of all subsets (Rousseeuw 1985; El Mhamdi et al. 2020, MDA).

    Ambiguous: equal diameters are common (one far pair decides). The subset with the smallest sum of squared distances
    is taken, and of those the first in the order of `itertools.combinations`.
    """
    squared = [[squared_distance(left, right) for right in rows] for left in rows]
    choice: tuple[int, ...] = ()
    best = (np.inf, np.inf)
    for subset in itertools.combinations(range(len(rows)), len(rows) - num_byzantine):
        pairs = [squared[i][j] for i, j in itertools.combinations(subset, 2)]
        merit = (max(pairs, default=0.0), sum(pairs))
        if not choice or merit < best:
            best, choice = merit, subset
    return averaged(rows, choice)


def smallest_spread(rows: Array, num_byzantine: int) -> Chosen:
    """Average the n − f rows whose covariance has the smallest top eigenvalue (Allouah et al. 2023, SMEA).

    Of equal ones the first in the order of `itertools.combinations`.
    """
    choice: tuple[int, ...] = ()
    best = np.inf
    for subset in itertools.combinations(range(len(rows)), len(rows) - num_byzantine):
        centre = average_row(rows[i] for i in subset)
        covariance = np.zeros((rows.shape[1], rows.shape[1]))
        for i in subset:
            covariance += np.outer(rows[i] - centre, rows[i] - centre) / len(subset)
        spread = float(np.linalg.eigvalsh(covariance)[-1])
        if not choice or spread < best:
            best, choice = spread, subset
    return averaged(rows, choice)


def norm_filter(rows: Array, num_byzantine: int) -> Chosen:
    """Average the n − f rows with the smallest norms (Gupta, Liu, Vaidya 2020, CGE; Ghosh et al. 2020).

    Ambiguous: CGE's own definition is the sum, which the step size absorbs. Of equal norms the first rows stay.
    """
    return averaged(rows, smallest([norm(row) for row in rows], len(rows) - num_byzantine))


def zeno_scores(rows: Array, rho: float, lr: float, model: Array, loss: Callable[[Array], float]) -> list[float]:
    """Return F(x) − F(x − γ g_i) − ρ ‖g_i‖² (Xie, Koyejo, Gupta 2019, equation (2), the descendant score)."""
    return [loss(model) - loss(model - lr * row) - rho * norm(row) ** 2 for row in rows]


def zeno(
    rows: Array, num_byzantine: int, rho: float, lr: float, model: Array, loss: Callable[[Array], float]
) -> Chosen:
    """Average the n − f rows with the highest descendant scores (Xie, Koyejo, Gupta 2019, Zeno)."""
    scores = zeno_scores(rows, rho, lr, model, loss)
    return averaged(rows, smallest([-score for score in scores], len(rows) - num_byzantine))


def dnc_scores(rows: Array, coordinates: Sequence[int]) -> list[float]:
    """Return ⟨g̃_i − μ̃, v⟩², g̃ the rows on these coordinates, v the top right singular vector of g̃ − μ̃."""
    part = rows[:, list(coordinates)]
    centre = average_row(part)
    centred = np.array([row - centre for row in part])
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return [float(row @ vectors[:, -1]) ** 2 for row in centred]


def dnc(rows: Array, num_byzantine: int, removed_share: float, coordinates: Sequence[Sequence[int]]) -> Chosen:
    """Average the rows that survive every iteration (Shejwalkar and Houmansadr 2021, Algorithm 2).

    `coordinates` holds the coordinates drawn in each iteration, which removes the c·f rows with the largest scores.
    Ambiguous: c·f is rounded down; of equal scores the first rows stay. If no row survives them all, which the paper
    does not speak of, the n − f rows stay whose scores, each divided by its iteration's total, have the smallest sums.
    """
    survivors, shares = set(range(len(rows))), [0.0] * len(rows)
    for drawn in coordinates:
        scores = dnc_scores(rows, drawn)
        survivors &= set(smallest(scores, len(rows) - int(removed_share * num_byzantine)))
        total = sum(scores)
        shares = [share + (score / total if total else 0.0) for share, score in zip(shares, scores, strict=True)]
    return averaged(rows, sorted(survivors) or smallest(shares, len(rows) - num_byzantine))
