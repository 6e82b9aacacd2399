"""Time of every rule that a peer has too, against the peer, measured as ratios inside one run.

Run it with ``python -m benchmarks.rules``; ``--quick`` takes small shapes. Data, rounds and their rotation are those of
benchmarks.filter. Every rule is told the true f. Wrappers are measured with the mean inside, where they are nearly all
that costs, and with the trimmed mean. The rules that search subsets run at small shapes of their own. A peer that
changes what it is handed works on a copy, which is restored outside the measured time.

What is compared is not always the same work: see docs/peers.md for the differences of definition. byzfl's geometric
median makes three steps, steadfed's runs to the end, its Rfa makes three; both centered clippings make three.
"""

import argparse
import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks import machine
from benchmarks.filter import SEED, Shape, colluding_updates
from benchmarks.peers import byzfl_module, obstacle, torchjd_aggregators
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
    SmallestSpread,
    TrimmedMean,
    Wrapper,
)

SHAPES: tuple[Shape, ...] = ((100, 10**5), (50, 10**6))
SUBSET_SHAPES: tuple[Shape, ...] = ((15, 10**4), (20, 10**4))
QUICK_SHAPES: tuple[Shape, ...] = ((50, 10_000),)
QUICK_SUBSET_SHAPES: tuple[Shape, ...] = ((15, 1000),)
ROUNDS = 7
STEPS = 3
COLUMNS = ("steadfed", "ms", "peer", "ms", "peer / steadfed", "min..max", "rounds", "")
IN_PLACE = ("byzfl Clipping", "byzfl ARC")
"""Peers that write into the rows they are handed."""
MIXING = ("NearestNeighborMixing", "byzfl NNM")
"""Competitors whose memory is measured."""

Run = Callable[[Tensor], object]


@dataclass(frozen=True)
class Contest:
    """A rule of steadfed, and what the peers have for it."""

    steadfed: str
    rule: Aggregator
    peers: Mapping[str, Run]


@dataclass
class Outcome:
    """Everything measured at one shape."""

    clients: int
    dim: int
    num_byzantine: int
    busy: float = 0.0
    rounds: list[dict[str, float]] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """Rule and peer, for every pair that was measured."""
    memory: dict[str, int | str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def ratios(self, rule: str, peer: str) -> list[float]:
        """Return in every round how many times as long as the rule the peer takes."""
        return machine.ratios_of(self.rounds, peer, rule)

    def losses(self) -> list[tuple[str, str, float]]:
        """Return the pairs of which the peer is faster, by the median of the ratios."""
        medians = [(rule, peer, statistics.median(self.ratios(rule, peer))) for rule, peer in self.pairs]
        return [each for each in medians if each[2] < 1.0]


def one_by_one(f: int) -> list[Contest]:
    """Return the rules without a wrapper."""
    byzfl, torchjd = byzfl_module("aggregators"), torchjd_aggregators()
    weiszfeld = byzfl.GeometricMedian(T=STEPS)
    return [
        Contest("Mean", Mean(), {"byzfl Average": byzfl.Average(), "TorchJD Mean": torchjd.Mean()}),
        Contest("Median", Median(), {"byzfl Median": byzfl.Median()}),
        Contest(
            "TrimmedMean",
            TrimmedMean(num_byzantine=f),
            {"byzfl TrMean": byzfl.TrMean(f=f), "TorchJD TrimmedMean": torchjd.TrimmedMean(f)},
        ),
        Contest("MeanAroundMedian", MeanAroundMedian(num_byzantine=f), {"byzfl Meamed": byzfl.Meamed(f=f)}),
        Contest(
            "Krum", Krum(num_byzantine=f), {"byzfl Krum": byzfl.Krum(f=f), "TorchJD Krum": torchjd.Krum(n_byzantine=f)}
        ),
        Contest("GeometricMedian", GeometricMedian(), {"byzfl GeometricMedian": weiszfeld}),
        Contest("Rfa", Rfa(num_iterations=STEPS), {"byzfl GeometricMedian": weiszfeld}),
        Contest("Caf", Caf(num_byzantine=f), {"byzfl CAF": byzfl.CAF(f=f)}),
    ]


def with_parameters(f: int, clients: int, radius: float) -> list[Contest]:
    """Return the rules that are told more than f."""
    byzfl, torchjd = byzfl_module("aggregators"), torchjd_aggregators()

    def clip_from_origin(rows: Tensor) -> object:  # the peer's object remembers its last update
        return byzfl.CenteredClipping(L=STEPS, tau=radius)(rows)

    return [
        Contest(
            "MultiKrum",
            MultiKrum(num_byzantine=f),
            {
                "byzfl MultiKrum": byzfl.MultiKrum(f=f),
                "TorchJD Krum, n − f": torchjd.Krum(n_byzantine=f, n_selected=clients - f),
            },
        ),
        Contest(
            "CenteredClipping",
            CenteredClipping(radius=radius, num_iterations=STEPS),
            {"byzfl CenteredClipping": clip_from_origin},
        ),
    ]


def wrapped(f: int, radius: float) -> list[Contest]:
    """Return the wrappers, with the mean and with the trimmed mean inside."""
    byzfl = byzfl_module("aggregators")
    inside = {"Mean": Mean(num_byzantine=f), "TrimmedMean": TrimmedMean(num_byzantine=f)}
    theirs_inside = {"Mean": ("Average", byzfl.Average()), "TrimmedMean": ("TrMean", byzfl.TrMean(f=f))}
    contests = []
    for name, rule in inside.items():
        wrappers: list[tuple[Wrapper, str, Any]] = [
            (NearestNeighborMixing(rule=rule), "NNM", byzfl.NNM(f=f)),
            (Bucketing(rule=rule), "Bucketing", byzfl.Bucketing(s=2)),
            (Clipping(radius=radius, rule=rule), "Clipping", byzfl.Clipping(c=radius)),
            (AdaptiveClipping(rule=rule), "ARC", byzfl.ARC(f=f)),
        ]
        their_name, their_rule = theirs_inside[name]
        for wrapper, before_name, before in wrappers:
            peer = {f"byzfl {before_name} + {their_name}": partial(_one_after_another, before, their_rule)}
            contests.append(Contest(f"{type(wrapper).__name__} + {name}", wrapper, peer))
    return contests


def _one_after_another(before: Callable[[Tensor], Tensor], rule: Run, rows: Tensor) -> object:
    return rule(before(rows))


def with_subsets(f: int) -> list[Contest]:
    """Return the rules that search subsets."""
    byzfl = byzfl_module("aggregators")
    return [
        Contest("MinimumDiameter", MinimumDiameter(num_byzantine=f), {"byzfl MDA": byzfl.MDA(f=f)}),
        Contest("SmallestSpread", SmallestSpread(num_byzantine=f), {"byzfl SMEA": byzfl.SMEA(f=f)}),
    ]


def contests_at(shape: Shape, num_byzantine: int, *, subsets: bool) -> list[Contest]:
    """Return everything that is measured at a shape."""
    if subsets:
        return with_subsets(num_byzantine)
    clients, radius = shape[0], math.sqrt(shape[1])  # an honest row is about so long
    return one_by_one(num_byzantine) + with_parameters(num_byzantine, clients, radius) + wrapped(num_byzantine, radius)


def measure(shape: Shape, num_rounds: int, out: Console, *, subsets: bool) -> Outcome:
    """Measure the times of every rule and peer at one shape, and the memory of nearest-neighbour mixing."""
    array, byzantine = colluding_updates(*shape)
    updates, num_byzantine = torch.from_numpy(array), int(byzantine.sum())
    outcome = Outcome(*shape, num_byzantine)
    contests = contests_at(shape, num_byzantine, subsets=subsets)
    everyone: dict[str, Run] = {}
    for contest in contests:
        everyone |= {contest.steadfed: contest.rule, **contest.peers}
    outcome.skipped = {name: why for name in everyone if (why := obstacle(name, *shape, num_byzantine))}
    outcome.pairs = [
        (contest.steadfed, peer) for contest in contests for peer in contest.peers if peer not in outcome.skipped
    ]
    for run in everyone.values():  # nobody pays for loading code
        run(updates[:, :1000].clone())
    copies = {name: updates.clone() for name in everyone if name.startswith(IN_PLACE)}
    calls = {
        name: partial(run, copies.get(name, updates)) for name, run in everyone.items() if name not in outcome.skipped
    }

    def restore(name: str, _: object) -> None:
        if name in copies:
            copies[name].copy_(updates)

    torch.default_generator.manual_seed(SEED)  # some peers draw at random
    out.print(f"{shape[0]} x {shape[1]:,}: {num_rounds} rounds of {len(calls)} competitors ...")
    with machine.Neighbours() as neighbours:
        outcome.rounds = machine.interleaved(calls, num_rounds, restore)
    outcome.busy = neighbours.share
    if not subsets:
        measure_memory(outcome, array, [name for name in calls if name.startswith(MIXING)], out)
    return outcome


def measure_memory(outcome: Outcome, updates: Any, names: Sequence[str], out: Console) -> None:
    """Measure the peak memory of some competitors, each in a fresh process that loads the same updates."""
    if not machine.can_measure_memory():
        out.print("Peak memory is not measured: this system has no /proc/self/clear_refs.")
        return
    with tempfile.TemporaryDirectory(prefix="steadfed-bench-") as folder:
        path = Path(folder) / "updates.npy"
        np.save(path, updates)
        for name in names:
            try:
                outcome.memory[name] = machine.in_fresh_process(peak_memory, name, path, outcome.num_byzantine)
            except BrokenProcessPool:
                outcome.memory[name] = "the process was killed"


def peak_memory(name: str, path: Path, num_byzantine: int) -> int:
    """Return the peak of resident memory while a competitor runs, above what is resident with the updates in memory.

    It has run once on a few columns before, so that the code it loads is not counted.
    """
    updates = torch.from_numpy(np.load(path))
    shape = (updates.shape[0], updates.shape[1])
    for contest in contests_at(shape, num_byzantine, subsets=False):
        everyone: dict[str, Run] = {contest.steadfed: contest.rule, **contest.peers}
        if run := everyone.get(name):
            run(updates[:, :1000].clone())
            return machine.peak_of_call(partial(run, updates))
    raise KeyError(name)


def report(outcome: Outcome, out: Console) -> None:
    """Print the table of one shape and what a reader must know beside it."""
    size = 4 * outcome.clients * outcome.dim
    table = Table(
        *COLUMNS,
        title=f"K = {outcome.clients}, d = {outcome.dim:,} float32 ({size / 1e6:.0f} MB), f = {outcome.num_byzantine}",
    )
    for rule, peer in outcome.pairs:
        ratios = outcome.ratios(rule, peer)
        ms = [1e3 * statistics.median(machine.times_of(outcome.rounds, name)) for name in (rule, peer)]
        middle = statistics.median(ratios)
        table.add_row(
            rule,
            f"{ms[0]:.1f}",
            peer,
            f"{ms[1]:.1f}",
            f"{middle:.2f}",
            f"{min(ratios):.2f}..{max(ratios):.2f}",
            str(len(ratios)),
            "SLOWER" if middle < 1.0 else "",
        )
    out.print(table)
    for name, why in outcome.skipped.items():
        out.print(f"{name} is skipped: {why}.")
    for name, peak in outcome.memory.items():
        amount = f"{peak / 1e6:,.0f} MB, {100 * peak / size:,.1f} % of the input" if isinstance(peak, int) else peak
        out.print(f"Peak memory of {name} above the input: {amount}.")
    if outcome.busy > machine.BUSY:
        out.print(f"BUSY: other processes used {outcome.busy:.0%} of the cores meanwhile; do not trust these times.")
    out.print()


def report_losses(outcomes: Sequence[Outcome], out: Console) -> None:
    """Say which peers are faster, if any."""
    number = sum(len(outcome.pairs) for outcome in outcomes)
    losses = [(outcome, *loss) for outcome in outcomes for loss in outcome.losses()]
    out.print(f"steadfed is slower in {len(losses)} of {number} pairs.")
    for outcome, rule, peer, ratio in losses:
        out.print(f"  {outcome.clients} x {outcome.dim:,}: {rule} takes {1.0 / ratio:.2f} times as long as {peer}.")


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small shapes, for a first look")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of every shape (default {ROUNDS})")
    options = parser.parse_args()
    out, about = machine.console(), machine.describe()
    out.print(machine.headline(about), "\n")
    shapes = (QUICK_SHAPES, QUICK_SUBSET_SHAPES) if options.quick else (SHAPES, SUBSET_SHAPES)
    outcomes = []
    for subsets, chosen in enumerate(shapes):
        for shape in chosen:
            outcomes.append(measure(shape, options.rounds, out, subsets=bool(subsets)))
            report(outcomes[-1], out)
    report_losses(outcomes, out)
    payload = {"machine": about, "data": __doc__, "shapes": [asdict(outcome) for outcome in outcomes]}
    out.print(f"Stored in {machine.store('rules', payload)}.")


if __name__ == "__main__":
    main()
