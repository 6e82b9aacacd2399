"""Every rule that steadfed and a peer both have, with the reason of every difference."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks import definitions
from benchmarks.pairs import (
    PLANES,
    SEED,
    Cloud,
    Pair,
    any_minority,
    byzfl,
    byzfl_at_random,
    defined,
    krum_bound,
    ours,
    same,
    torchjd,
)
from steadfed.aggregators import (
    AdaptiveClipping,
    Aggregator,
    Bucketing,
    Caf,
    CenteredClipping,
    Clipping,
    GeometricMedian,
    Krum,
    Mean,
    MeanAroundMedian,
    Median,
    MinimumDiameter,
    MultiKrum,
    NearestNeighborMixing,
    Rfa,
    ServerView,
    SmallestSpread,
    TrimmedMean,
)

RADIUS = 2.0
"""Where rows are clipped; many rows of the clouds are longer, and some are not."""
NU, STEPS = 0.1, 3
"""The defaults of byzfl's geometric median."""
LONG = {"nu": 1e-6, "T": 200}
"""The same, run to the end."""
CONVERGED = 1e-5
"""How far an iteration may be from its limit."""
FILTERED = 1e-4
"""What float32 loses over the steps of a filter."""
ROUNDED_ARC = ((242, 7),)
"""The smallest cohort in which byzfl's ARC loses a row to rounding, with f = 33."""


def trimmed(f: int) -> Aggregator:
    """Return the rule inside the wrappers."""
    return TrimmedMean(num_byzantine=f)


def mixed(build: Callable[[Any, int], Any], *, average: bool = False) -> Callable[[Any, int], Callable[[Any], Any]]:
    """Return a pre-aggregator of byzfl, followed by its average or its trimmed mean."""

    def both(peer: Any, f: int) -> Callable[[Any], Any]:
        before, rule = build(peer, f), peer.Average() if average else peer.TrMean(f=f)
        return lambda rows: rule(before(rows))

    return both


def bucket_bound(clients: int) -> int:
    """Return the largest f with 2f < n/2, the number of buckets of two."""
    return any_minority((clients + 1) // 2)


def second_round(cloud: Cloud) -> Tensor:
    """Return the update of centered clipping in a second round, on the rows in reverse, from the first one's update."""
    rule = CenteredClipping(radius=RADIUS, num_iterations=2)
    first = rule(cloud.rows)
    return rule(-cloud.rows, ServerView(round=1, memory=first.memory)).update


def byzfl_second_round(peer: Any, f: int) -> Callable[[Any], Any]:
    """Return the same for byzfl, whose object remembers."""
    del f
    rule = peer.CenteredClipping(L=2, tau=RADIUS)

    def call(rows: Any) -> Any:
        rule(rows)
        return rule(-rows)

    return call


def origin_start(cloud: Cloud) -> Tensor:
    """Return byzfl's geometric median from steadfed's parts."""
    return definitions.weiszfeld_from_origin(cloud.rows, NU, STEPS)


def centred_start(cloud: Cloud) -> Iterator[tuple[Tensor, Tensor]]:
    """Say that only the start differs: from the origin ours is theirs, from the mean theirs is ours."""
    yield origin_start(cloud), byzfl_weiszfeld(cloud)
    mean = cloud.rows.mean(0)
    about_mean = byzfl_weiszfeld(replace(cloud, rows=cloud.rows - mean))
    yield Rfa(smoothing=NU, num_iterations=STEPS)(cloud.rows).update, mean + about_mean


def smea_equations(cloud: Cloud) -> Iterator[tuple[Tensor, Tensor]]:
    """Say that only how the eigenvalue is found differs."""
    power_step = definitions.one_power_step(SEED, cloud.rows.shape[1])
    yield definitions.smea(cloud.rows.float(), cloud.f, power_step), byzfl_smea(cloud)
    yield definitions.smea(cloud.rows, cloud.f, definitions.top_eigenpair), our_smea(cloud)


def caf_equations(cloud: Cloud) -> Iterator[tuple[Tensor, Tensor]]:
    """Say that how the eigenpair is found differs, and among which rows the largest τ is sought."""
    power_step = definitions.one_power_step(SEED, cloud.rows.shape[1])
    yield definitions.caf(cloud.rows.float(), cloud.f, power_step, among_all=True), byzfl_caf(cloud)
    yield definitions.caf(cloud.rows, cloud.f, definitions.top_eigenpair, among_all=False), our_caf(cloud)


def their_buckets(cloud: Cloud) -> Tensor:
    """Return steadfed's bucketing with byzfl's permutation."""
    order = torch.randperm(len(cloud.rows), generator=torch.Generator().manual_seed(SEED))
    return definitions.bucketing_in_order(cloud.rows, order.numpy(), Bucketing(rule=trimmed(cloud.f)))


our_smea = ours(lambda f: SmallestSpread(num_byzantine=f))
our_caf = ours(lambda f: Caf(num_byzantine=f))
byzfl_smea = byzfl_at_random(lambda peer, f: peer.SMEA(f=f))
byzfl_caf = byzfl_at_random(lambda peer, f: peer.CAF(f=f))
byzfl_krum = byzfl(lambda peer, f: peer.Krum(f=f))
byzfl_multi_krum = byzfl(lambda peer, f: peer.MultiKrum(f=f))
byzfl_weiszfeld = byzfl(lambda peer, _: peer.GeometricMedian(nu=NU, T=STEPS))
byzfl_mda = byzfl(lambda peer, f: peer.MDA(f=f))
byzfl_buckets = byzfl_at_random(mixed(lambda peer, _: peer.Bucketing(s=2)))
byzfl_arc = byzfl(mixed(lambda peer, f: peer.ARC(f=f)))
torchjd_krum = torchjd(lambda peer, cloud: peer.Krum(n_byzantine=cloud.f))
torchjd_multi_krum = torchjd(lambda peer, cloud: peer.Krum(cloud.f, n_selected=len(cloud.rows) - cloud.f))


def torch_median(cloud: Cloud) -> Tensor:
    """Return what torch calls the median."""
    return cloud.rows.median(0).values


def arc_rounded(cloud: Cloud) -> Tensor:
    """Return steadfed's ARC with byzfl's number of clipped rows."""
    return definitions.arc_rounded_down_in_floats(cloud.rows, cloud.f, trimmed(cloud.f))


ONE_NEIGHBOUR_MORE = "byzfl sums over the n − f − 1 nearest other rows, the paper (and steadfed) over n − f − 2"
# On a line sums of distances that are not squared tie (between two middle points they do not change at all), so TorchJD
# is compared in more than one dimension. byzfl's CAF is compared up to n/4: with f = 12 of 25 numbers it took 44 s.
UNSQUARED = "TorchJD sums distances, the paper (and steadfed) their squares"
POWER_STEP = "byzfl's top eigenvalue is one power step from a random vector; steadfed's is exact"

RULES: tuple[Pair, ...] = (
    Pair("Mean", "byzfl Average", ours(lambda _: Mean()), byzfl(lambda peer, _: peer.Average())),
    Pair("Mean", "TorchJD Mean", ours(lambda _: Mean()), torchjd(lambda peer, _: peer.Mean())),
    Pair("Median", "byzfl Median", ours(lambda _: Median()), byzfl(lambda peer, _: peer.Median())),
    Pair(
        "Median",
        "torch median(0)",
        ours(lambda _: Median()),
        torch_median,
        why="of an even number of values torch takes the lower middle one, steadfed the mean of the middle two",
        equations=same(defined(definitions.lower_median), torch_median),
    ),
    Pair("TrimmedMean", "byzfl TrMean", ours(trimmed), byzfl(lambda peer, f: peer.TrMean(f=f))),
    Pair("TrimmedMean", "TorchJD TrimmedMean", ours(trimmed), torchjd(lambda peer, cloud: peer.TrimmedMean(cloud.f))),
    Pair(
        "MeanAroundMedian",
        "byzfl Meamed",
        ours(lambda f: MeanAroundMedian(num_byzantine=f)),
        byzfl(lambda peer, f: peer.Meamed(f=f)),
    ),
    Pair(
        "Krum",
        "byzfl Krum",
        ours(lambda f: Krum(num_byzantine=f)),
        byzfl_krum,
        largest=krum_bound,
        why=ONE_NEIGHBOUR_MORE,
        equations=same(defined(definitions.krum_one_more_neighbour), byzfl_krum),
    ),
    Pair(
        "Krum",
        "TorchJD Krum",
        ours(lambda f: Krum(num_byzantine=f)),
        torchjd_krum,
        largest=krum_bound,
        shapes=PLANES,
        why=UNSQUARED,
        equations=same(defined(definitions.krum_unsquared), torchjd_krum),
    ),
    Pair(
        "MultiKrum",
        "byzfl MultiKrum",
        ours(lambda f: MultiKrum(num_byzantine=f)),
        byzfl_multi_krum,
        largest=krum_bound,
        why=ONE_NEIGHBOUR_MORE,
        equations=same(defined(definitions.multi_krum_one_more_neighbour), byzfl_multi_krum),
    ),
    Pair(
        "MultiKrum",
        "TorchJD Krum, n_selected = n − f",
        ours(lambda f: MultiKrum(num_byzantine=f)),
        torchjd_multi_krum,
        largest=krum_bound,
        shapes=PLANES,
        why=UNSQUARED,
        equations=same(defined(definitions.multi_krum_unsquared), torchjd_multi_krum),
    ),
    Pair(
        "GeometricMedian",
        "byzfl GeometricMedian",
        ours(lambda _: GeometricMedian()),
        byzfl_weiszfeld,
        why="byzfl makes three steps from the origin with ν = 0.1; steadfed runs to the end",
        equations=same(origin_start, byzfl_weiszfeld),
    ),
    Pair(
        "GeometricMedian",
        f"byzfl GeometricMedian, T = {LONG['T']}, ν = {LONG['nu']:g}",
        ours(lambda _: GeometricMedian()),
        byzfl(lambda peer, _: peer.GeometricMedian(**LONG)),
        unique_only=True,
        tolerance=CONVERGED,
    ),
    Pair(
        "Rfa, ν = 0.1",
        "byzfl GeometricMedian",
        ours(lambda _: Rfa(smoothing=NU, num_iterations=STEPS)),
        byzfl_weiszfeld,
        why="byzfl starts at the origin, steadfed at the mean",
        equations=centred_start,
    ),
    Pair(
        "CenteredClipping, first round",
        "byzfl CenteredClipping",
        ours(lambda _: CenteredClipping(radius=RADIUS, num_iterations=STEPS)),
        byzfl(lambda peer, _: peer.CenteredClipping(L=STEPS, tau=RADIUS)),
    ),
    Pair("CenteredClipping, second round", "byzfl CenteredClipping", second_round, byzfl(byzfl_second_round)),
    Pair(
        "MinimumDiameter",
        "byzfl MDA",
        ours(lambda f: MinimumDiameter(num_byzantine=f)),
        byzfl_mda,
        most_subsets=330,
        why="of the subsets of smallest diameter byzfl takes the first, steadfed that of the smallest sum of squares",
        equations=same(defined(definitions.first_of_smallest_diameter), byzfl_mda),
    ),
    Pair(
        "SmallestSpread",
        "byzfl SMEA",
        our_smea,
        byzfl_smea,
        most_subsets=60,
        single=True,
        why=POWER_STEP,
        equations=smea_equations,
    ),
    Pair(
        "Caf",
        "byzfl CAF",
        our_caf,
        byzfl_caf,
        smallest=1,
        largest=lambda clients: clients // 4,
        single=True,
        tolerance=FILTERED,
        why=POWER_STEP + "; byzfl's largest τ is also sought among rows without weight (and f = 0 returns None)",
        equations=caf_equations,
    ),
    Pair(
        "NearestNeighborMixing + Mean",
        "byzfl NNM + Average",
        ours(lambda f: NearestNeighborMixing(rule=Mean(num_byzantine=f))),
        byzfl(mixed(lambda peer, f: peer.NNM(f=f), average=True)),
    ),
    Pair(
        "NearestNeighborMixing + TrimmedMean",
        "byzfl NNM + TrMean",
        ours(lambda f: NearestNeighborMixing(rule=trimmed(f))),
        byzfl(mixed(lambda peer, f: peer.NNM(f=f))),
    ),
    Pair(
        "Bucketing + TrimmedMean",
        "byzfl Bucketing + TrMean",
        ours(lambda f: Bucketing(rule=trimmed(f))),
        byzfl_buckets,
        largest=bucket_bound,
        single=True,
        why="each draws its own permutation",
        equations=same(their_buckets, byzfl_buckets),
    ),
    Pair(
        "Clipping + TrimmedMean",
        "byzfl Clipping + TrMean",
        ours(lambda f: Clipping(radius=RADIUS, rule=trimmed(f))),
        byzfl(mixed(lambda peer, _: peer.Clipping(c=RADIUS))),
    ),
    Pair(
        "AdaptiveClipping + TrimmedMean",
        "byzfl ARC + TrMean",
        ours(lambda f: AdaptiveClipping(rule=trimmed(f))),
        byzfl_arc,
    ),
    Pair(
        "AdaptiveClipping + TrimmedMean, K = 242, f = 33",
        "byzfl ARC + TrMean",
        ours(lambda f: AdaptiveClipping(rule=trimmed(f))),
        byzfl_arc,
        largest=lambda _: 33,
        smallest=33,
        shapes=ROUNDED_ARC,
        why="byzfl computes ⌊2 (f/n) (n − f)⌋ in floats and gets 56, not 57: the first cohort where it matters",
        equations=same(arc_rounded, byzfl_arc),
    ),
)
