"""Attacks by loops, explicit covariance matrices and the searches of the papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tests.oracles.coordinatewise import Array, average, average_row
from tests.oracles.filtering import filter_until
from tests.oracles.rules import geometric_median
from tests.oracles.selection import krum_scores, norm, squared_distance


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation, divided by the number of values."""
    centre = average(values)
    return math.sqrt(average((value - centre) ** 2 for value in values))


def normal_cdf(z: float) -> float:
    """Return Φ(z)."""
    return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))


def largest_z(cohort_size: int, num_byzantine: int) -> float:
    """Return the largest z ≥ 0 with Φ(z) < (n − m − s)/(n − m), by bisection (Baruch et al. 2019, Algorithm 3)."""
    supporters = math.floor(cohort_size / 2 + 1) - num_byzantine
    honest = cohort_size - num_byzantine
    fraction = (honest - supporters) / honest
    low, high = 0.0, 40.0
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if normal_cdf(middle) < fraction else (low, middle)
    return low


def a_little_is_enough(rows: Array, z: float) -> Array:
    """Return μ − z σ, one coordinate at a time."""
    columns = [[float(x) for x in rows[:, k]] for k in range(rows.shape[1])]
    return np.array([average(column) - z * deviation(column) for column in columns])


def spread_of(rows: Array) -> tuple[float, Array]:
    """Return √λ_max of the covariance and its direction, from the d x d matrix."""
    centre = average_row(rows)
    covariance = np.zeros((rows.shape[1], rows.shape[1]))
    for row in rows:
        covariance += np.outer(row - centre, row - centre) / len(rows)
    values, vectors = np.linalg.eigh(covariance)
    return math.sqrt(max(0.0, float(values[-1]))), vectors[:, -1]


def mimic_step(rows: Array, mean: Array, direction: Array, t: int) -> tuple[Array, Array, int]:
    """Return μ, z and the client to copy after round t of the warm-up (Karimireddy, He, Jaggi 2022, mimic attack)."""
    mean = t / (t + 1) * mean + average_row(rows) / (t + 1)
    image = np.zeros_like(mean)
    for row in rows:
        image += float((row - mean) @ direction) * (row - mean)
    direction = t / (t + 1) * direction + image / norm(image) / (t + 1)
    direction /= norm(direction)
    projections = [float(row @ direction) for row in rows]
    return mean, direction, projections.index(max(projections))


def halving_search(allowed: Callable[[float], bool], first: float, tolerance: float) -> float:
    """Return the largest allowed γ by the search of Shejwalkar and Houmansadr 2021, Algorithm 1."""
    gamma, step, best = first, first / 2.0, 0.0
    while step > tolerance:
        if allowed(gamma):
            best = gamma
            gamma += step
        else:
            gamma -= step
        step /= 2.0
    return best


def min_max(rows: Array, perturbation: Array, first: float, tolerance: float) -> Array:
    """Return the Min-Max row: no farther from any honest row than two honest rows are from each other."""
    mean = average_row(rows)
    farthest = max(squared_distance(left, right) for left in rows for right in rows)

    def allowed(gamma: float) -> bool:
        return max(squared_distance(mean + gamma * perturbation, row) for row in rows) <= farthest

    return mean + halving_search(allowed, first, tolerance) * perturbation


def min_sum(rows: Array, perturbation: Array, first: float, tolerance: float) -> Array:
    """Return the Min-Sum row: Σ of its squared distances no larger than the largest such sum of an honest row."""
    mean = average_row(rows)
    largest = max(sum(squared_distance(left, right) for right in rows) for left in rows)

    def allowed(gamma: float) -> bool:
        return sum(squared_distance(mean + gamma * perturbation, row) for row in rows) <= largest

    return mean + halving_search(allowed, first, tolerance) * perturbation


def fang_krum(rows: Array, num_forged: int, halvings: int) -> tuple[float, bool]:
    """Return λ by halving from its bound until Krum selects one of equal forged rows −λ s, and whether it did.

    The bound is that of Fang et al. 2020, Theorem 1, for squared distances.
    """
    sign = np.sign(average_row(rows))
    best = min(krum_scores(rows, 0)) if len(rows) > 1 else 0.0
    honest_neighbours = max(1, len(rows) - 2 - (num_forged - 1))
    bound = (math.sqrt(best / honest_neighbours) + max(norm(row) for row in rows)) / norm(sign)
    for k in range(halvings + 1):
        forged = np.tile(-(bound / 2.0**k) * sign, (num_forged, 1))
        scores = krum_scores(np.concatenate([forged, rows]), num_forged)
        if min(scores[:num_forged]) < min(scores[num_forged:]):
            return bound / 2.0**k, True
    return bound / 2.0**halvings, False


def fang_interval(values: Sequence[float], factor: float) -> tuple[float, float]:
    """Return the interval that Fang et al. 2020, section 3.3, draw a coordinate of an update from.

    An update is minus the change of the parameter, so a positive mean is a parameter that honest clients decrease.
    """
    if average(values) >= 0.0:
        smallest = min(values)
        return (factor * smallest, smallest) if smallest <= 0.0 else (smallest / factor, smallest)
    largest = max(values)
    return (largest, factor * largest) if largest >= 0.0 else (largest, largest / factor)


def hidra_shift(rows: Array, num_forged: int, threshold: float) -> float:
    """Return the largest δ at which the covariance of all rows has no eigenvalue above the threshold, by bisection."""
    mean = average_row(rows)
    towards = mean / norm(mean)
    limit = threshold * spread_of(rows)[0] ** 2

    def allowed(delta: float) -> bool:
        forged = np.tile(mean - delta * towards, (num_forged, 1))
        return spread_of(np.concatenate([forged, rows]))[0] ** 2 <= limit

    low, high = 0.0, 1e3 * math.sqrt(limit)
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def symmetric_pairs(rows: Array, number: int, distance: float, direction: Array) -> Array:
    """Return rows at both sides of the mean in turn, in the dtype of `rows`; the last of an odd number at the mean."""
    mean, kind = average_row(rows).astype(rows.dtype), rows.dtype.type
    largest = max(range(len(direction)), key=lambda k: abs(direction[k]))
    forged = [mean.copy() for _ in range(number)]
    for pair in range(number // 2):
        for k in range(len(mean)):
            step = kind(distance) * kind(direction[k])
            forged[2 * pair][k] = mean[k] + step
            forged[2 * pair + 1][k] = mean[k] - step
        outwards = kind(math.copysign(math.inf, direction[largest]))
        forged[2 * pair][largest] = np.nextafter(forged[2 * pair][largest], outwards)
    return np.array(forged)


def two_points(rows: Array, number: int, near: int, ratio: float, shift: Array) -> Array:
    """Return `near` rows at one point and the others `ratio` times as far from the mean, all moved by `shift` each."""
    mean = average_row(rows)
    unit = number / (near + ratio * (number - near))
    return np.array([mean + (unit if i < near else unit * ratio) * shift for i in range(number)])


def anchor_of(rows: Array, num_byzantine: int) -> tuple[float, Array]:
    """Return the smallest spread on the way of the filter down to mass n − 2f, and the weighted mean there."""
    trail = filter_until(rows, len(rows) - 2.0 * num_byzantine, 0.0, 0.0)
    best = min(range(len(trail.spreads)), key=lambda state: trail.spreads[state])
    weights = trail.weights[best]
    return trail.spreads[best], np.asarray(weights @ rows / weights.sum())


def guard_statistic(rows: Array, num_byzantine: int) -> float:
    """Return λ_a/m², m² the ⌈k (n − F)/n⌉-th smallest squared distance of the k distinct rows to the geometric median.

    F = min(⌊(n − 1)/2⌋, f + ⌈3 √(f (1 − f/n))⌉).
    """
    number = len(rows)
    fluctuation = math.ceil(3.0 * math.sqrt(num_byzantine * (1.0 - num_byzantine / number)))
    most = min((number - 1) // 2, num_byzantine + fluctuation)
    distinct: list[Array] = []
    for row in rows:
        if all(squared_distance(row, other) > 0.0 for other in distinct):
            distinct.append(row)
    centre = geometric_median(rows)
    squared = sorted(squared_distance(row, centre) for row in distinct)
    return anchor_of(rows, num_byzantine)[0] / squared[math.ceil(len(distinct) * (number - most) / number) - 1]


Pixel = tuple[int, int]


def square_of_pixels(size: int, top: int, left: int) -> set[Pixel]:
    """Return the pixels of a square, row by row."""
    return {(row, column) for row in range(top, top + size) for column in range(left, left + size)}


def bars_of_pixels(size: int, gap: int, shift: int) -> list[set[Pixel]]:
    """Return the four local triggers of Xie et al. 2020: upper left, upper right, lower left, lower right."""
    starts = [(row, first) for row in (shift, shift + 1 + gap) for first in (shift, shift + size + gap)]
    return [{(row, first + step) for step in range(size)} for row, first in starts]


def stamped(image: Array, pixels: set[Pixel], values: Sequence[float]) -> Array:
    """Return an image, channels × height × width, with pixels set to one value per channel."""
    image = image.copy()
    for channel, value in enumerate(values):
        for row, column in pixels:
            image[channel, row, column] = value
    return image


def rarity(points: Array, own: Array) -> list[float]:
    """Return −2 log of a Gaussian's density up to its constant: of the own points, wider by their mean variance."""
    columns = [[float(x) for x in own[:, k]] for k in range(own.shape[1])]
    means, variances = [average(each) for each in columns], [deviation(each) ** 2 for each in columns]
    wide = [each + average(variances) for each in variances]
    return [sum((float(x) - mean) ** 2 / w for x, mean, w in zip(row, means, wide, strict=True)) for row in points]


def success_rate(guesses: Sequence[int], labels: Sequence[int], target: int, source: int | None = None) -> float:
    """Return the share of the points of other classes (or of the source) that are taken for the target."""
    victims = [k for k, label in enumerate(labels) if (label != target if source is None else label == source)]
    return sum(guesses[k] == target for k in victims) / len(victims)
