"""The rules that compare directions or look for clusters, with explicit cosines and loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tests.oracles.coordinatewise import Array, average, average_row, middle
from tests.oracles.selection import Chosen, norm, smallest, squared_distance
from tests.oracles.wrappers import clipped

Labels = list[int]


def cosine(left: Array, right: Array) -> float:
    """Return ⟨left, right⟩ / (‖left‖ ‖right‖), and 0 if one of them is 0."""
    if norm(left) == 0.0 or norm(right) == 0.0:
        return 0.0
    return math.fsum(float(x) * float(y) for x, y in zip(left, right, strict=True)) / (norm(left) * norm(right))


def fltrust(rows: Array, trusted: Array) -> tuple[Array, list[float]]:
    """Weigh rows of the trusted length by relu of the cosine with the trusted row (Cao et al. 2021, eq. (2) to (4)).

    TS_i = max(0, cos(g_i, g_0)); Σ TS_i (‖g_0‖/‖g_i‖) g_i / Σ TS_i. The second result are the TS_i. The paper does
    not say what happens if they are all 0; the trusted row is returned.
    """
    trust = [max(0.0, cosine(row, trusted)) for row in rows]
    if sum(trust) == 0.0:
        return np.array(trusted), trust
    update = np.zeros(rows.shape[1])
    for score, row in zip(trust, rows, strict=True):
        if score > 0.0:
            update += score * norm(trusted) / norm(row) * row
    return update / sum(trust), trust


def foolsgold_weights(history: Array, kappa: float) -> list[float]:
    """Return every client's weight before normalisation (Fung, Yoon, Beschastnikh 2020, Algorithm 1).

    cs_ij the cosine of summed updates, v_i = max_j cs_ij, pardoning cs_ij ← cs_ij v_i / v_j where v_j > v_i,
    α_i = 1 − max_j cs_ij, α ← α / max α, α_i ← κ (ln(α_i / (1 − α_i)) + 1/2), cut to [0, 1].

    Ambiguous: with maxima over j ≠ i only, v may be negative and pardoning would raise similarities. As in the authors'
    code, a client's similarity to itself counts as 0, so every maximum is at least 0. If α = 0 for all, which the
    paper's division excludes, all weights are 0. Features are not weighted by importance.
    """
    number = len(history)
    cs = [[0.0 if i == j else cosine(history[i], history[j]) for j in range(number)] for i in range(number)]
    v = [max(row) for row in cs]
    for i in range(number):
        for j in range(number):
            if v[j] > v[i]:
                cs[i][j] *= v[i] / v[j]
    alpha = [min(1.0, max(0.0, 1.0 - max(row))) for row in cs]
    if max(alpha) == 0.0:
        return [0.0] * number
    return [_logit(each / max(alpha), kappa) for each in alpha]


def _logit(alpha: float, kappa: float) -> float:
    """Return κ (ln(α / (1 − α)) + 1/2) cut to [0, 1]; its limits at α = 0 and 1."""
    if alpha in {0.0, 1.0}:
        return alpha
    return min(1.0, max(0.0, kappa * (math.log(alpha / (1.0 - alpha)) + 0.5)))


def foolsgold(rows: Array, history: Array, kappa: float) -> tuple[Array, list[float]]:
    """Average this round's rows by the weights of their summed history, this round included (Fung et al. 2020, Alg. 1).

    Ambiguous: the paper adds Σ α_i Δ_i without dividing; here the weights are divided by their sum, and the second
    result are these. If nobody has weight both results are 0.
    """
    weights = foolsgold_weights(history, kappa)
    if sum(weights) == 0.0:
        return np.zeros(rows.shape[1]), weights
    shares = [weight / sum(weights) for weight in weights]
    return np.sum([share * row for share, row in zip(shares, rows, strict=True)], axis=0), shares


def admitted_by_flame(rows: Array) -> list[int]:
    """Return the smallest single-linkage component of cosine distances 1 − cos with more than half of the rows.

    Components of the graph of all pairs at distance at most t, for every distance t in increasing order. This is
    HDBSCAN(min_cluster_size=n//2+1, min_samples=1, allow_single_cluster=True): no component splits into two that are
    large enough, so its only cluster is the root, and labelled are the points that leave it last. Ambiguous: pairs at
    equal distances are joined at once.
    """
    distances = [[1.0 - cosine(left, right) for right in rows] for left in rows]
    for threshold in sorted({distances[i][j] for i in range(len(rows)) for j in range(i)} | {0.0}):
        for i in range(len(rows)):
            component = _component(distances, i, threshold)
            if 2 * len(component) > len(rows):
                return component
    return []


def _component(distances: list[list[float]], start: int, threshold: float) -> list[int]:
    """Return all that is reached from `start` over pairs at distance at most the threshold."""
    reached, waiting = {start}, [start]
    while waiting:
        i = waiting.pop()
        new = [j for j in range(len(distances)) if j not in reached and distances[i][j] <= threshold]
        reached.update(new)
        waiting.extend(new)
    return sorted(reached)


def flame(rows: Array) -> Chosen:
    """Average the admitted rows, clipped to the median norm of all rows (Nguyen et al. 2022, Algorithm 1, no noise).

    Ambiguous: the paper takes the cosines of the clients' models; here they are those of the updates.
    """
    admitted = admitted_by_flame(rows)
    short = clipped(rows, middle(norm(row) for row in rows))
    return average_row(short[i] for i in admitted), admitted


def sign_features(rows: Array, coordinates: Sequence[int]) -> Array:
    """Return the shares of positive, zero and negative values among these coordinates (Xu et al. 2022, section 4).

    Ambiguous: the authors' code divides each of the three by its maximum over the rows; the paper does not.
    """
    features = []
    for row in rows:
        values = [float(row[k]) for k in coordinates]
        counts = [sum(v > 0.0 for v in values), sum(v == 0.0 for v in values), sum(v < 0.0 for v in values)]
        features.append([count / len(values) for count in counts])
    return np.array(features)


def estimated_bandwidth(points: Array, quantile: float) -> float:
    """Return the mean distance of a point to its ⌊n q⌋-th nearest, itself the first (scikit-learn's estimate)."""
    place = max(1, int(len(points) * quantile)) - 1
    return average(sorted(norm(left - right) for right in points)[place] for left in points)


def mean_shift(points: Array, bandwidth: float, tolerance: float, max_iterations: int) -> tuple[Array, Labels]:
    """Cluster by the flat kernel (Comaniciu and Meer 2002, as in scikit-learn's MeanShift); return centres and labels.

    From every point: move to the mean of the points within the bandwidth, until a move is at most tolerance · bandwidth
    (scikit-learn: 1e-3, at most 300 moves). Centres with most points come first, of equal numbers the one whose
    coordinates are larger; each removes those within the bandwidth of it. A point belongs to the nearest centre left.
    """
    candidates = []
    for point in points:
        centre = np.array(point)
        for _ in range(max_iterations + 1):
            within = [other for other in points if norm(other - centre) <= bandwidth]
            move = average_row(other - centre for other in within)
            centre = centre + move
            if norm(move) <= tolerance * bandwidth:
                break
        candidates.append((len(within), tuple(float(x) for x in centre)))
    centres: list[Array] = []
    for _, place in sorted(candidates, reverse=True):
        if all(norm(np.array(place) - kept) > bandwidth for kept in centres):
            centres.append(np.array(place))
    return np.array(centres), [_nearest(point, centres) for point in points]


def _nearest(point: Array, centres: Sequence[Array]) -> int:
    """Return the nearest centre, the first of equally near ones."""
    distances = [squared_distance(point, centre) for centre in centres]
    return distances.index(min(distances))


def largest_cluster(labels: Labels) -> list[int]:
    """Return the members of the largest cluster, of equally large ones the first."""
    sizes = [labels.count(label) for label in range(max(labels) + 1)]
    return [i for i, label in enumerate(labels) if label == sizes.index(max(sizes))]


def sign_guard(
    rows: Array, lower: float, upper: float, features: Array, bandwidth: float, tolerance: float, max_iterations: int
) -> Chosen:
    """Average the rows that pass the filter of norms and that of signs, clipped (Xu et al. 2022, Algorithm 2).

    S₁: lower ≤ ‖g_i‖ / M ≤ upper, M the median norm; S₂: the largest cluster of the features by mean shift; the mean
    over S₁ ∩ S₂ of g_i min(1, M / ‖g_i‖). Ambiguous: the bounds of S₁ (the authors' code excludes them), the median of
    an even number of norms, the clustering (the authors' starts at bins and leaves orphans out; here it starts at every
    row and labels all). Nobody in both sets is refused, for the paper does not say what happens then.
    """
    length = middle(norm(row) for row in rows)
    passed = {i for i, row in enumerate(rows) if lower * length <= norm(row) <= upper * length}
    _, labels = mean_shift(features, bandwidth, tolerance, max_iterations)
    chosen = sorted(passed & set(largest_cluster(labels)))
    if not chosen:
        raise ValueError(
            f"rows of ordinary norm {sorted(passed)} and rows of ordinary signs {largest_cluster(labels)} do not meet"
        )
    short = clipped(rows, length)
    return average_row(short[i] for i in chosen), chosen


def trimmed_k_means(rows: Array, num_trimmed: int, centres: Array, max_iterations: int) -> tuple[Labels, list[int]]:
    """Return every row's cluster and the rows that are trimmed, from the given centres.

    Repeat until nothing changes: each row belongs to the nearest centre (the first of equally near ones); the rows
    farthest from theirs are trimmed (of equally far ones the last); a centre moves to the mean of its other rows and
    stays if it has none. After the last iteration allowed the labels are those of the centres before their last move.

    Ambiguous: this trims over all clusters (Cuesta-Albertos, Gordaliza, Matrán 1997); Ghosh et al. 2019 run Lloyd's
    algorithm with a robust mean in each cluster.
    """
    places = [np.array(centre) for centre in centres]
    labels: Labels = []
    kept: list[int] = []
    for _ in range(max_iterations):
        before = (labels, kept)
        labels = [_nearest(row, places) for row in rows]
        distances = [squared_distance(row, places[label]) for row, label in zip(rows, labels, strict=True)]
        kept = smallest(distances, len(rows) - num_trimmed)
        if (labels, kept) == before:
            break
        for cluster in range(len(places)):
            members = [rows[i] for i in kept if labels[i] == cluster]
            places[cluster] = average_row(members) if members else places[cluster]
    return labels, [i for i in range(len(rows)) if i not in kept]


def clustered(
    rows: Array, num_byzantine: int, rule: Callable[[Array], Array], centres: Array, max_iterations: int
) -> tuple[Array, Labels]:
    """Apply the rule in each cluster and average by the clusters' sizes (Ghosh, Hong, Yin, Ramchandran 2019).

    Stages II and III there: trimmed k-means, then a robust rule among the clients of a cluster, trimmed ones included.
    Ambiguous: the paper keeps one model per cluster and never averages them; the average is this library's.
    """
    labels, _ = trimmed_k_means(rows, num_byzantine, centres, max_iterations)
    update = np.zeros(rows.shape[1])
    for cluster in set(labels):
        members = [i for i, label in enumerate(labels) if label == cluster]
        update += len(members) / len(rows) * rule(rows[members])
    return update, labels
