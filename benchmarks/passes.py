"""The filter in units of torch's mean(0): exact, certified and fast, with one thread and two, wall and CPU time.

Run it with ``python -m benchmarks.passes``; ``--shape 100x1000000`` takes one shape, ``--rounds`` more or fewer rounds.

Every competitor runs once in a round, in rotating order; figures are medians of the ratios inside a round, with ranges.
Threads are those that the process may use (its affinity) and those that torch and BLAS are told: a thread of BLAS that
waits for work burns CPU time, which would count for whoever comes next. Updates: `colluding_updates` of
``benchmarks.filter``. The physical limit of a rule is explained at `Measured.limit`.
"""

import argparse
import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from torch import Tensor

from benchmarks import machine
from benchmarks.filter import MEAN, Shape, colluding_updates, shape_of
from benchmarks.peers import peer_rules
from steadfed._linalg.sketch import buckets_for, is_cheaper
from steadfed.aggregators import Krum, Mean, Rage, ServerView

SHAPES = (
    (100, 10**6),
    (1000, 10**6),
    (1000, 10**5),
    (20, 10**7),
    (50, 10**6),
    (400, 10**5),
    (100, 10**4),
    (200, 10**4),
)
LARGE = 3 * 10**8
"""Numbers of a matrix from which the slow competitors are left out."""
ROUNDS = 7
FAST, CERTIFIED, EXACT, FROM_LIST = "Rage fast", "Rage certified", "Rage exact products", "Rage fast, list of rows"
OUR_MEAN, OUR_KRUM = "steadfed Mean", "steadfed Krum fast"
MEDIAN, PEER_KRUM, PEER_CAF = "torch median(0)", "byzfl Krum", "byzfl CAF"
SKETCHES = {FAST: 1, CERTIFIED: 2, EXACT: 0, FROM_LIST: 1, OUR_MEAN: 0, OUR_KRUM: 1}
"""How many sketches a rule of ours takes, where they are cheaper than the product of the rows."""
VIEW = ServerView(secret=1)


@dataclass(frozen=True)
class Target:
    """A ratio of CPU times at one shape with one thread, and what it is meant to stay below or above."""

    shape: Shape
    over: str
    under: str
    limit: float
    at_most: bool = True
    stretch: float | None = None


TARGETS = (
    Target((100, 10**6), FAST, MEAN, 2.2, stretch=1.7),
    Target((100, 10**6), CERTIFIED, MEAN, 3.3),
    Target((1000, 10**6), FAST, MEAN, 2.5),
    Target((1000, 10**5), FAST, MEAN, 10.0, stretch=7.0),
    Target((20, 10**7), FAST, MEAN, 2.3),
    Target((100, 10**6), FROM_LIST, FAST, 1.5),
    Target((100, 10**6), MEDIAN, FAST, 15.0, at_most=False),
    Target((100, 10**6), PEER_KRUM, FAST, 10.0, at_most=False),
    Target((100, 10**6), PEER_CAF, FAST, 25.0, at_most=False),
    Target((50, 10**6), OUR_MEAN, MEAN, 0.8),
    Target((200, 10**4), PEER_KRUM, CERTIFIED, 1.0, at_most=False),
)


@dataclass
class Measured:
    """Rounds of one shape with one number of threads, by clock."""

    shape: Shape
    threads: int
    busy: float
    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def ratios(self, over: str, under: str, clock: str = "CPU") -> list[float]:
        """Return the ratio of two times in every round that has both."""
        return machine.ratios_of(self.rounds[clock], over, under)

    def limit(self, name: str) -> float | None:
        """Return the physical limit of a rule as a ratio to the mean, if it is known.

        The reads that it cannot do without, at the best rate of a product with one vector, plus the products of its
        sketches, or of the rows, with themselves at the best rate seen for a large product.
        """
        clients, dim = self.shape
        sketches = SKETCHES.get(name)
        if sketches is None:
            return None
        reads, columns = 1, dim
        if name == OUR_MEAN:
            columns = 0
        elif sketches and is_cheaper(clients, dim, sketches):
            reads, columns = 1 + sketches, sketches * buckets_for(clients)
        times = self.rounds["CPU"]
        rate = machine.PRODUCT_OPERATIONS / min(min(machine.times_of(times, each)) for each in machine.PRODUCTS)
        least = reads * min(machine.times_of(times, machine.READ_PASS)) + clients * (clients + 1) * columns / rate
        return least / statistics.median(machine.times_of(times, MEAN))


def competitors(updates: Tensor, num_byzantine: int) -> dict[str, Callable[[], object]]:
    """Return every call by name."""
    rows = [row.clone() for row in updates]
    peers = peer_rules(num_byzantine)
    calls: dict[str, Callable[[], object]] = {MEAN: lambda: updates.mean(0)}
    for name, gram in ((FAST, "fast"), (CERTIFIED, "certified"), (EXACT, "exact")):
        calls[name] = partial(Rage(num_byzantine=num_byzantine, gram=gram), updates, VIEW)
    calls[FROM_LIST] = partial(Rage(num_byzantine=num_byzantine, gram="fast"), rows, VIEW)
    calls[OUR_MEAN] = partial(Mean(), updates)
    calls[OUR_KRUM] = partial(Krum(num_byzantine=num_byzantine, gram="fast"), updates, VIEW)
    if updates.numel() < LARGE:
        calls[MEDIAN] = lambda: updates.median(0).values
        calls |= {name: partial(peers[name], updates) for name in (PEER_KRUM, PEER_CAF)}
    return calls | {name: partial(run, updates) for name, run in machine.yardsticks().items()}


def measure(shape: Shape, threads: int, num_rounds: int, out: Console) -> Measured:
    """Measure every competitor at one shape with one number of threads."""
    torch.set_num_threads(threads)
    with _on_cores(threads), threadpool_limits(threads):
        calls = competitors(torch.from_numpy(colluding_updates(*shape)[0]), shape[0] // 5)
        out.print(f"{shape[0]} x {shape[1]:,}, {threads} thread(s): {num_rounds} rounds of {len(calls)} ...")
        with machine.Neighbours() as neighbours:
            rounds = machine.interleaved_by_clock(calls, num_rounds, lambda *_: None)
    return Measured(shape, threads, neighbours.share, rounds)


@contextmanager
def _on_cores(number: int) -> Iterator[None]:
    """Keep every thread of the process on so many cores: BLAS has started its own, which would work elsewhere."""
    cores = os.sched_getaffinity(0)
    _move_threads(set(sorted(cores)[:number]))
    try:
        yield
    finally:
        _move_threads(cores)


def _move_threads(cores: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread.name), cores)


def table_of(measured: Measured) -> Table:
    """Return times and ratios to the mean by both clocks."""
    busy = f", others used {measured.busy:.0%} of the cores" if measured.busy > machine.BUSY else ""
    title = "K = {}, d = {:,}, {} thread(s){}".format(*measured.shape, measured.threads, busy)
    table = Table("", "CPU ms", "x mean(0)", "min..max", "limit", "wall ms", "x mean(0)", "min..max", title=title)
    for name in measured.rounds["CPU"][0]:
        cells = [name]
        for clock in ("CPU", "wall"):
            ratios = measured.ratios(name, MEAN, clock)
            times = machine.times_of(measured.rounds[clock], name)
            cells += [
                f"{1e3 * statistics.median(times):.1f}",
                f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f}..{max(ratios):.2f}",
            ]
        limit = measured.limit(name)
        cells.insert(4, "" if limit is None else f"{limit:.2f}")
        table.add_row(*cells)
    return table


def report_targets(results: Mapping[tuple[Shape, int], Measured], out: Console) -> list[dict[str, Any]]:
    """Print and return what was measured of every target: CPU time, one thread."""
    columns = ("shape", "ratio", "target", "CPU, 1 thread", "min..max", "met", "physical limit", "wall, 2 threads")
    table = Table(*columns, title="Targets")
    verdicts = []
    for target in TARGETS:
        one, two = results.get((target.shape, 1)), results.get((target.shape, 2))
        if one is None:
            continue
        ratios = one.ratios(target.over, target.under)
        ratio = statistics.median(ratios)
        met = ratio <= target.limit if target.at_most else ratio >= target.limit
        wall = None if two is None else statistics.median(two.ratios(target.over, target.under, "wall"))
        limit = one.limit(target.over) if target.under == MEAN else None
        verdicts.append(
            asdict(target)
            | {"measured": ratio, "physical_limit": limit, "met": met, "wall_two_threads": wall, "busy": one.busy}
        )
        sign, doubt = "≤" if target.at_most else "≥", "?" if one.busy > machine.BUSY else ""
        stretch = "" if target.stretch is None else f" (stretch {target.stretch:g})"
        table.add_row(
            "{} x {:,}".format(*target.shape),
            f"{target.over} / {target.under}",
            f"{sign} {target.limit:g} x{stretch}",
            f"{ratio:.2f} x",
            f"{min(ratios):.2f}..{max(ratios):.2f}",
            ("yes" if met else "no") + doubt,
            "" if limit is None else f"{limit:.2f} x",
            "" if wall is None else f"{wall:.2f} x",
        )
    out.print(table)
    return verdicts


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passes", description=__doc__)
    parser.add_argument("--shape", type=shape_of, action="append", help="clients x parameters, may be repeated")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of every shape (default {ROUNDS})")
    options = parser.parse_args()
    out, about = machine.console(), machine.describe()
    out.print(machine.headline(about), "\n")
    results: dict[tuple[Shape, int], Measured] = {}
    for shape in options.shape or SHAPES:
        for threads in (1, 2):
            results[shape, threads] = measure(shape, threads, options.rounds, out)
            out.print(table_of(results[shape, threads]))
    verdicts = report_targets(results, out)
    payload = {"machine": about, "shapes": [asdict(measured) for measured in results.values()], "targets": verdicts}
    out.print(f"Stored in {machine.store('passes', payload)}.")


if __name__ == "__main__":
    main()
