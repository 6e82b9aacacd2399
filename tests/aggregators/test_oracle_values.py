"""The slow oracles themselves, on small cases worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oracles import centre, coordinatewise, selection, similarity, spectral, wrappers
from tests.oracles.coordinatewise import Array, middle

pytestmark = pytest.mark.portable


def on_a_line(*values: float) -> Array:
    """Return rows of one coordinate."""
    return np.array(values, dtype=np.float64)[:, None]


def at_angles(*degrees: float) -> Array:
    """Return rows of length one in these directions."""
    return np.array([[math.cos(math.radians(each)), math.sin(math.radians(each))] for each in degrees])


def same(rows: Array) -> Array:
    """Return the rows themselves, as a rule that shows what it was given."""
    return rows


def median_of_one_coordinate(rows: Array) -> Array:
    return np.array([middle(rows[:, 0])])


def agree(found: object, expected: object) -> None:
    """Compare up to the rounding of a few operations."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12, atol=1e-12)


def test_trimmed_mean_drops_both_ends_of_every_coordinate() -> None:
    rows = np.array([[1.0, 9.0], [2.0, 5.0], [3.0, 6.0], [4.0, -7.0], [100.0, 7.0]])
    agree(coordinatewise.trimmed_mean(rows, 1), [3.0, 6.0])  # (2+3+4)/3, (5+6+7)/3
    agree(coordinatewise.trimmed_mean(rows, 0), [22.0, 4.0])
    agree(coordinatewise.slsgd(rows, 1, 0.5), [1.5, 3.0])


def test_mean_around_median_keeps_the_nearest_and_of_two_the_smaller() -> None:
    agree(coordinatewise.mean_around_median(on_a_line(0.0, 1.0, 2.0, 10.0), 1), [1.0])  # median 1.5 keeps 0, 1, 2
    agree(coordinatewise.mean_around_median(on_a_line(2.0, 1.0, 0.0), 1), [0.5])  # 0 and 2 are equally near to 1
    agree(coordinatewise.mean_around_median(on_a_line(2.0, 1.0, 0.0), 0), [1.0])


def test_rsa_counts_signs() -> None:
    rows = np.array([[1.0, -2.0], [3.0, 0.0], [-1.0, -5.0]])  # signs sum to 1 and -2
    agree(coordinatewise.rsa(rows, 0.5, 0.1, np.array([10.0, 0.0])), [1.5, -1.0])
    agree(coordinatewise.rsa(rows, 0.5, 0.0, np.array([10.0, 0.0])), [0.5, -1.0])


def test_multi_krum_averages_the_best_scores() -> None:
    rows = on_a_line(0.0, 1.0, 2.0, 10.0)
    agree(selection.krum_scores(rows, 0), [5.0, 2.0, 5.0, 145.0])  # two neighbours: 1+4, 1+1, 1+4, 64+81
    update, chosen = selection.multi_krum(rows, 0, 2)
    agree(update, [0.5])
    assert chosen == [0, 1]


def test_bulyan_runs_krum_again_on_what_is_left() -> None:
    """Krum takes 2 (10 of four neighbours), 3 (9 of three), 1 (10 of two), 4 (1 of one) and 0 (25 of one)."""
    update, chosen = selection.bulyan(on_a_line(0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0), 1)
    assert chosen == [0, 1, 2, 3, 4]
    agree(update, [2.0])  # the three values nearest to the median 2 are 1, 2, 3


def test_minimum_diameter_breaks_ties_by_the_sum_of_squares() -> None:
    update, chosen = selection.minimum_diameter(on_a_line(4.5, 0.0, 1.0, 3.0), 1)
    assert chosen == [1, 2, 3]  # diameter 3, the next best 3.5
    agree(update, [4.0 / 3.0])
    kite = np.array([[0.0, 0.0], [2.0, -3.0], [4.0, 0.0], [2.0, 1.0]])  # every three of them have diameter 4
    update, chosen = selection.minimum_diameter(kite, 1)
    assert chosen == [0, 2, 3]  # sums of squares 42, 34, 26, 34
    agree(update, [2.0, 1.0 / 3.0])
    assert selection.minimum_diameter(on_a_line(7.0), 0)[1] == [0]


def test_smallest_spread_looks_at_the_widest_direction_only() -> None:
    update, chosen = selection.smallest_spread(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]]), 1)
    assert chosen == [0, 2]  # spreads 9/4, 1/4, 10/4
    agree(update, [0.0, 0.5])
    rows = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 0.0], [2.0, 2.0]])
    update, chosen = selection.smallest_spread(rows, 1)
    assert chosen == [1, 2, 3]  # variances 8/9 and 2/3, uncorrelated; without row 3 they are 8/9 and 2/9, correlated
    agree(update, [4.0 / 3.0, 1.0])


def test_norm_filter_drops_the_longest() -> None:
    update, chosen = selection.norm_filter(np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]]), 1)
    assert chosen == [1, 2]
    agree(update, [0.5, 1.0])
    assert selection.norm_filter(on_a_line(1.0, -1.0, 1.0), 1)[1] == [0, 1]


def test_zeno_keeps_the_steps_that_descend_most() -> None:
    def loss(x: Array) -> float:
        return float(x[0]) ** 2 / 2.0

    rows, model = on_a_line(1.0, -1.0, 2.0), np.array([1.0])
    agree(selection.zeno_scores(rows, 0.1, 1.0, model, loss), [0.4, -1.6, -0.4])
    update, chosen = selection.zeno(rows, 1, 0.1, 1.0, model, loss)
    assert chosen == [0, 2]
    agree(update, [1.5])


def test_dnc_keeps_who_survives_every_iteration() -> None:
    rows = np.array([[0.0, 10.0], [10.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    agree(selection.dnc_scores(rows, [0]), [9.0, 49.0, 4.0, 4.0])  # the mean is 3
    agree(selection.dnc_scores(np.array([[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]]), [0, 1]), [2.0, 2.0, 0.0])
    update, chosen = selection.dnc(rows, 1, 1.0, [[0], [1]])
    assert chosen == [2, 3]
    agree(update, [1.0, 1.0])
    assert selection.dnc(rows, 1, 0.5, [[0], [1]])[1] == [0, 1, 2, 3]  # half a row is no row


def test_dnc_without_survivors_goes_by_the_shares_of_the_scores() -> None:
    """Each iteration removes another row; shares 7/6, 7/6 and 10/6 = (1 + 1 + 4 + 4)/6."""
    update, chosen = selection.dnc(3.0 * np.eye(3), 1, 1.0, [[0], [1], [2], [2]])
    assert chosen == [0, 1]
    agree(update, [1.5, 1.5, 0.0])


def test_rfa_weighs_by_inverse_distances() -> None:
    rows = on_a_line(0.0, 0.0, 3.0)  # mean 1, inverse distances 1, 1, 1/2
    update, weights = centre.rfa(rows, 1e-6, 1)
    agree(update, [0.6])
    agree(weights, [0.4, 0.4, 0.2])
    agree(centre.rfa(rows, 1e-6, 0)[0], [1.0])
    agree(centre.rfa(rows, 10.0, 5)[0], [1.0])  # all distances are below the smoothing


def test_median_of_means_is_the_middle_group_on_a_line() -> None:
    rows = on_a_line(0.0, 2.0, 4.0, 6.0, 100.0, 200.0)
    agree(centre.median_of_means(rows, [[0, 1], [2, 3], [4, 5]]), [5.0])
    agree(centre.median_of_means(rows, [[4, 5], [0], [1, 2]]), [3.0])


def test_centered_clipping_moves_by_clipped_differences() -> None:
    agree(centre.centered_clipping(on_a_line(1.0, -1.0, 10.0), 2.0, 1, np.zeros(1)), [2.0 / 3.0])
    agree(centre.centered_clipping(on_a_line(1.0, -1.0, 10.0), None, 1, np.zeros(1)), [1.0 / 3.0])  # median distance 1
    agree(centre.centered_clipping(on_a_line(1.0, 10.0), 2.0, 2, np.zeros(1)), [2.25])  # 1.5, then (-0.5 + 2)/2 more
    agree(centre.centered_clipping(on_a_line(1.0, 10.0), 2.0, 0, np.ones(1)), [1.0])


def test_caf_returns_the_mean_of_the_smallest_spread() -> None:
    """Rows 0, 1, 5: τ = 4, 1, 9 leaves c = 5/9, 8/9, 0 with mean 8/13; the next step falls below mass 1."""
    update, weights = spectral.caf(on_a_line(0.0, 1.0, 5.0), 1)
    agree(update, [8.0 / 13.0])
    agree(weights, [5.0 / 13.0, 8.0 / 13.0, 0.0])
    update, weights = spectral.caf(on_a_line(0.0, 0.0, 0.0, 8.0), 1)
    agree(update, [0.0])
    agree(weights, [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0])
    agree(spectral.caf(on_a_line(0.0, 0.0, 0.0, 8.0), 0)[0], [2.0])


def test_fltrust_rescales_to_the_trusted_length() -> None:
    update, trust = similarity.fltrust(np.array([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]]), np.array([1.0, 1.0]))
    agree(trust, [math.sqrt(0.5), math.sqrt(0.5), 0.0])
    agree(update, [math.sqrt(0.5), math.sqrt(0.5)])  # the mean of (√2, 0) and (0, √2)
    agree(similarity.fltrust(np.array([[-1.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0.0]))[0], [1.0, 0.0])


def test_foolsgold_silences_clients_that_agree() -> None:
    rows = on_a_line(1.0, 2.0, 3.0)
    update, shares = similarity.foolsgold(rows, np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 1.0)
    agree(update, [3.0])
    agree(shares, [0.0, 0.0, 1.0])
    agree(similarity.foolsgold_weights(np.array([[1.0, 0.0], [-1.0, 0.0]]), 1.0), [1.0, 1.0])
    agree(similarity.foolsgold_weights(np.array([[1.0, 0.0], [1.0, 0.0]]), 1.0), [0.0, 0.0])


def test_foolsgold_pardons_and_takes_the_logit() -> None:
    """History a, b, c with cos ab = s, cos bc = t, cos ac = 0: α = 1 − s, 1 − s, 1 − t²/s; 3s² = s + 1 makes it 1 : 2.

    The logit of 1/2 is 0, so a and b get κ/2.
    """
    s = (1.0 + math.sqrt(13.0)) / 6.0
    history = np.array([[1.0, 0.0], [s, math.sqrt(1.0 - s * s)], [0.0, 1.0]])
    agree(similarity.foolsgold_weights(history, 1.0), [0.5, 0.5, 1.0])
    agree(similarity.foolsgold_weights(history, 0.5), [0.25, 0.25, 1.0])
    update, shares = similarity.foolsgold(on_a_line(4.0, 8.0, 2.0), history, 1.0)
    agree(shares, [0.25, 0.25, 0.5])
    agree(update, [4.0])


def test_flame_admits_the_smallest_majority_and_clips_it() -> None:
    assert similarity.admitted_by_flame(at_angles(0.0, 10.0, 20.0, 90.0, 180.0)) == [0, 1, 2]
    assert similarity.admitted_by_flame(at_angles(0.0, 1.0, 90.0, 91.0)) == [0, 1, 2, 3]  # two halves are no majority
    rows = np.array([[4.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, -3.0]])  # median norm 2
    update, admitted = similarity.flame(rows)
    assert admitted == [0, 1, 3]
    agree(update, [5.0 / 3.0, 0.0])
    assert similarity.admitted_by_flame(on_a_line(7.0)) == [0]


def test_mean_shift_finds_the_clusters_scikit_learn_documents() -> None:
    points = np.array([[1.0, 1.0], [2.0, 1.0], [1.0, 0.0], [4.0, 7.0], [3.0, 5.0], [3.0, 6.0]])
    expected = (1.0 + 3.0 * math.sqrt(2.0) + 2.0 * math.sqrt(5.0)) / 6.0  # third nearest, oneself the first
    agree(similarity.estimated_bandwidth(points, 0.5), expected)
    for tolerance in (0.0, 1e-3):
        centres, labels = similarity.mean_shift(points, 2.0, tolerance, 300)
        agree(centres, [[10.0 / 3.0, 6.0], [4.0 / 3.0, 2.0 / 3.0]])
        assert labels == [1, 1, 1, 0, 0, 0]


def test_mean_shift_of_bandwidth_zero_separates_what_differs() -> None:
    centres, labels = similarity.mean_shift(on_a_line(0.1, 0.3, 0.1, 0.1), 0.0, 1e-3, 300)
    agree(centres, [[0.1], [0.3]])
    assert labels == [0, 1, 0, 0]
    assert similarity.largest_cluster(labels) == [0, 2, 3]


def test_sign_guard_filters_by_norm_and_by_sign() -> None:
    rows = np.outer([1.0, 2.0, 1.5, -1.0, 100.0], np.ones(4))  # norms 2, 4, 3, 2, 200 with median 3
    features = similarity.sign_features(rows, [0, 2])
    agree(features, [[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]])
    update, chosen = similarity.sign_guard(rows, 0.1, 3.0, features, 0.5, 1e-3, 300)
    assert chosen == [0, 1, 2]
    agree(update, [4.0 / 3.0] * 4)  # 1, 1.5, 1.5
    agree(similarity.sign_features(np.array([[1.0, -2.0, 0.0, 5.0]]), [0, 1, 2, 3]), [[0.5, 0.25, 0.25]])
    with pytest.raises(ValueError, match="do not meet"):
        similarity.sign_guard(rows, 2.0, 3.0, features, 0.5, 1e-3, 300)


def test_trimmed_k_means_trims_the_farthest() -> None:
    rows = on_a_line(0.0, 1.0, 10.0, 11.0, 100.0)
    labels, trimmed = similarity.trimmed_k_means(rows, 1, on_a_line(0.0, 10.0), 100)
    assert (labels, trimmed) == ([0, 0, 1, 1, 1], [4])
    assert similarity.trimmed_k_means(rows[:2], 0, on_a_line(0.0, 1000.0), 100) == ([0, 0], [])
    update, _ = similarity.clustered(rows, 1, median_of_one_coordinate, on_a_line(0.0, 10.0), 100)
    agree(update, [6.8])  # (2 · 0.5 + 3 · 11) / 5


def test_trimmed_k_means_moves_its_centres() -> None:
    """Centres 0 and 3 move to 1 and 6, for 2 is nearer to 3 at first, and then to 4/3 and 8."""
    labels, _ = similarity.trimmed_k_means(on_a_line(1.0, 1.0, 2.0, 8.0, 8.0), 0, on_a_line(0.0, 3.0), 100)
    assert labels == [0, 0, 0, 1, 1]
    labels, _ = similarity.trimmed_k_means(on_a_line(1.0, 1.0, 2.0, 8.0, 8.0), 0, on_a_line(0.0, 3.0), 1)
    assert labels == [0, 0, 1, 1, 1]


def test_mixing_averages_neighbours_and_of_two_equally_near_takes_the_first() -> None:
    rows = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    expected = [[2.5, 3.5, 4.5], [2.5, 3.5, 4.5], [5.5, 6.5, 7.5]]
    agree(wrappers.nearest_neighbor_mixing(rows, 1, same), expected)
    agree(wrappers.nearest_neighbor_mixing(rows, 0, same), [[4.0, 5.0, 6.0]] * 3)


def test_bucketing_averages_the_permuted_rows() -> None:
    rows = on_a_line(1.0, 2.0, 3.0, 4.0, 5.0)
    agree(wrappers.bucketing(rows, 2, [4, 0, 2, 1, 3], same), [[3.0], [2.5], [4.0]])
    agree(wrappers.bucketing(rows, 2, [4, 0, 2, 1, 3], median_of_one_coordinate), [3.0])


def test_clipping_shrinks_long_rows_only() -> None:
    agree(wrappers.clipping(np.array([[3.0, 4.0], [0.0, 0.5], [0.0, 0.0]]), 1.0, same), [[0.6, 0.8], [0, 0.5], [0, 0]])


def test_adaptive_clipping_takes_the_next_norm() -> None:
    rows = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])  # k = ⌊4/3⌋ = 1, threshold √77
    expected = [rows[0], rows[1], rows[2] * math.sqrt(77.0 / 194.0)]
    agree(wrappers.adaptive_clipping(rows, 1, same), expected)
    agree(wrappers.adaptive_clipping(rows, 0, same), rows)
    agree(wrappers.arc_threshold(on_a_line(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 3), 3.0)  # k = 3
