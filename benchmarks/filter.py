"""Time, memory and accuracy of the filter against its peers, measured as ratios inside one run.

Run it with ``python -m benchmarks.filter``; ``--quick`` takes small shapes, ``--shape 100x1000000`` one of your own.

Times are compared only inside one round, in which every competitor runs once. The order rotates from round to round, so
that drifting load hits all alike. A rule above 2 s runs in the first three rounds only, one above 20 s in the first.

Data: honest rows are standard normal; K/5 colluding rows, at random places, are the honest mean plus a common shift of
8 σ₀ in a random direction plus 0.1 times standard normal noise. It is one attack, chosen so that every peer finishes:
the errors show that the outputs are sane, they do not rank the rules.
"""

import argparse
import math
import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks import machine
from benchmarks.peers import obstacle, peer_rules
from steadfed.aggregators import Aggregation, GeometricMedian, Krum, Median, Rage
from steadfed.extend import stream

SHAPES = ((100, 10**6), (1000, 10**5), (50, 10**6), (400, 10**5))
QUICK_SHAPES = ((50, 20_000), (200, 10_000))
GROWTH = {"d": [(100, 10**4), (100, 10**5), (100, 10**6)], "K": [(k, 10**5) for k in (50, 100, 200, 400, 800)]}
QUICK_GROWTH = {"d": [(50, 10**4), (50, 10**5)], "K": [(k, 10**4) for k in (50, 100, 200)]}
SEED = 1
SHIFT, JITTER = 8.0, 0.1
ROUNDS = 9
REMOVED_BELOW = 0.1
"""A client counts as removed if its weight in the output is below this share of 1/K."""
MEAN, AUTO = "torch mean(0)", "steadfed Rage auto"
BY_COORDINATE = {"steadfed Median", "torch median(0)", "byzfl Median", "byzfl TrMean"}
"""Rules that mix clients differently in every coordinate, so that no client has one weight."""

COLUMNS = ("", "median ms", "x mean(0)", "min..max", "rounds", "error/σ₀√ε", "removed B/H", "peak MB", "% input")

Shape = tuple[int, int]
Run = Callable[[Tensor], object]


@dataclass(frozen=True)
class Problem:
    """Updates of which it is known who forged them."""

    updates: Tensor
    byzantine: NDArray[np.bool_]
    honest_mean: NDArray[np.float64]
    gram: NDArray[np.float64]
    sigma0: float

    @property
    def unit(self) -> float:
        """The unit of every error: σ₀ √ε."""
        return self.sigma0 * math.sqrt(float(self.byzantine.mean()))

    def error(self, output: Tensor) -> float:
        """Return ‖output − honest mean‖ in units of σ₀ √ε."""
        return float(np.linalg.norm(output.numpy() - self.honest_mean)) / self.unit

    def removed(self, output: Tensor) -> tuple[int, int]:
        """Return how many Byzantine and how many honest clients have no weight in ``output`` = Σ w_i · row_i.

        The weights are recovered from the output alone, by one K x K system, so all rules are judged alike.
        """
        vector = output.double().numpy()
        products = [rows @ vector for rows in np.array_split(self.updates.numpy(), 10)]
        weights = np.linalg.solve(self.gram, np.concatenate(products))
        gone = weights < REMOVED_BELOW / len(weights)
        return int((gone & self.byzantine).sum()), int((gone & ~self.byzantine).sum())


@dataclass
class Measured:
    """Everything measured at one shape."""

    clients: int
    dim: int
    num_byzantine: int
    sigma0: float
    busy: float = 0.0
    """The share of the machine that other processes used during the rounds."""
    rounds: list[dict[str, float]] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=dict)
    removed: dict[str, tuple[int, int]] = field(default_factory=dict)
    memory: dict[str, int | str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def times(self, name: str) -> list[float]:
        """Return the times of a rule, round by round."""
        return machine.times_of(self.rounds, name)

    def ratios(self, over: str, under: str = MEAN) -> list[float]:
        """Return the ratio of two times in every round that has both."""
        return machine.ratios_of(self.rounds, over, under)

    def gemm_rate(self) -> float:
        """Return the best rate of a large float32 product seen in the rounds, in operations per second."""
        return machine.PRODUCT_OPERATIONS / min(time for name in machine.PRODUCTS for time in self.times(name))

    def floor(self) -> float:
        """Return what the triangle of the Gram matrix and one more read pass cost at the best, as a ratio to the mean.

        Best product and best read pass of the run over the median of the mean: it errs on the low side.
        """
        triangle = self.clients * (self.clients + 1) * self.dim / self.gemm_rate()
        return (triangle + min(self.times(machine.READ_PASS))) / statistics.median(self.times(MEAN))


def colluding_updates(clients: int, dim: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the updates and who is Byzantine; σ₀ in the shift is its value for many columns, √(d/honest) + 1."""
    generator = stream(SEED, "bench", clients, dim)
    updates = generator.standard_normal((clients, dim), dtype=np.float32)
    byzantine = np.zeros(clients, dtype=bool)
    byzantine[generator.permutation(clients)[: clients // 5]] = True
    direction = generator.standard_normal(dim, dtype=np.float32)
    length = SHIFT * (math.sqrt(dim / (~byzantine).sum()) + 1.0)
    centre = updates[~byzantine].mean(axis=0) + direction * np.float32(length / np.linalg.norm(direction))
    updates[byzantine] = centre + np.float32(JITTER) * updates[byzantine]
    return updates, byzantine


def known_problem(clients: int, dim: int) -> Problem:
    """Return colluding updates with what is known of them: the honest mean and σ₀² = λ_max of the honest covariance."""
    updates, byzantine = colluding_updates(clients, dim)
    gram = np.zeros((clients, clients))
    for start in range(0, dim, 16384):
        block = updates[:, start : start + 16384].astype(np.float64)
        gram += block @ block.T
    inner = gram[np.ix_(~byzantine, ~byzantine)]
    centred = inner - inner.mean(axis=0) - inner.mean(axis=1)[:, None] + inner.mean()
    sigma0 = math.sqrt(float(np.linalg.eigvalsh(centred)[-1]) / len(inner))
    honest_mean = updates[~byzantine].mean(axis=0, dtype=np.float64)
    return Problem(torch.from_numpy(updates), byzantine, honest_mean, gram, sigma0)


def rules(num_byzantine: int, sigma0: float) -> dict[str, Run]:
    """Return every rule by name, each told the true number of Byzantine clients."""
    peers = peer_rules(num_byzantine)
    return {
        MEAN: lambda updates: updates.mean(0),
        AUTO: Rage(num_byzantine=num_byzantine),
        "steadfed Rage known": Rage(mode="known", num_byzantine=num_byzantine, sigma0=sigma0),
        "steadfed Rage exact": Rage(mode="exact", num_byzantine=num_byzantine, sigma0=sigma0),
        "steadfed Rage lazy": Rage(mode="lazy", num_byzantine=num_byzantine, sigma0=sigma0),
        "steadfed Krum": Krum(num_byzantine=num_byzantine),
        "steadfed GeometricMedian": GeometricMedian(),
        "steadfed Median": Median(),
        "torch median(0)": lambda updates: updates.median(0).values,
        **{name: run for name, run in peers.items() if name != "byzfl Average"},
    }


def measure(shape: Shape, num_rounds: int, out: Console) -> Measured:
    """Measure times, errors and memory of every rule at one shape."""
    problem = known_problem(*shape)
    num_byzantine = int(problem.byzantine.sum())
    measured = Measured(*shape, num_byzantine, problem.sigma0)
    competitors = rules(num_byzantine, problem.sigma0)
    measured.skipped = {name: why for name in competitors if (why := obstacle(name, *shape, num_byzantine))}
    runnable = {name: run for name, run in competitors.items() if name not in measured.skipped}
    calls = {name: partial(run, problem.updates) for name, run in (runnable | machine.yardsticks()).items()}
    for run in rules(1, 1.0).values():  # nobody pays for loading code
        run(problem.updates[:10, :1000])

    def judge(name: str, result: object) -> None:
        output = result.update if isinstance(result, Aggregation) else result
        if name not in competitors or not isinstance(output, Tensor):
            return
        measured.errors.setdefault(name, []).append(problem.error(output))
        if name not in measured.removed and name not in BY_COORDINATE:
            measured.removed[name] = problem.removed(output)

    torch.default_generator.manual_seed(SEED)  # the peer's CAF starts from a random vector
    out.print(f"{shape[0]} x {shape[1]:,}: {num_rounds} rounds of {len(calls)} competitors, then their memory ...")
    with machine.Neighbours() as neighbours:
        measured.rounds = machine.interleaved(calls, num_rounds, judge)
    measured.busy = neighbours.share
    measure_memory(measured, problem, list(runnable), out)
    return measured


def measure_memory(measured: Measured, problem: Problem, names: Sequence[str], out: Console) -> None:
    """Measure the peak memory of every rule, each in a fresh process that loads the same updates."""
    if not machine.can_measure_memory():
        out.print("Peak memory is not measured: this system has no /proc/self/clear_refs.")
        return
    with tempfile.TemporaryDirectory(prefix="steadfed-bench-") as folder:
        path = Path(folder) / "updates.npy"
        np.save(path, problem.updates.numpy())
        for name in names:
            try:
                measured.memory[name] = machine.in_fresh_process(
                    peak_memory, name, path, measured.num_byzantine, problem.sigma0
                )
            except BrokenProcessPool:
                measured.memory[name] = "the process was killed"


def peak_memory(name: str, path: Path, num_byzantine: int, sigma0: float) -> int:
    """Return the peak of resident memory while a rule runs, above what is resident with the updates in memory.

    The rule has run once on a few numbers before, so that the code it loads is not counted.
    """
    updates = torch.from_numpy(np.load(path))
    rules(1, 1.0)[name](updates[:10, :1000].clone())
    run = rules(num_byzantine, sigma0)[name]
    return machine.peak_of_call(lambda: run(updates))


def shape_table(measured: Measured) -> Table:
    """Return the table of one shape."""
    size = 4 * measured.clients * measured.dim
    table = Table(
        title=f"K = {measured.clients}, d = {measured.dim:,} float32 ({size / 1e6:.0f} MB), "
        f"{measured.num_byzantine} Byzantine at {SHIFT:g} σ₀, σ₀ = {measured.sigma0:.1f}"
    )
    for title in COLUMNS:
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for name in dict.fromkeys(name for times in measured.rounds for name in times):
        table.add_row(*shape_row(measured, name, size))
    return table


def shape_row(measured: Measured, name: str, size: int) -> list[str]:
    """Return the row of one competitor."""
    times, ratios = measured.times(name), measured.ratios(name)
    errors, memory = measured.errors.get(name), measured.memory.get(name)
    error = "" if not errors else f"{statistics.median(errors):.3f}"
    if errors and max(errors) - min(errors) > 0.01 * max(errors):
        error = f"{min(errors):.2f}..{max(errors):.2f}"
    return [
        name,
        f"{1e3 * statistics.median(times):.1f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f}..{max(ratios):.2f}",
        str(len(times)),
        error,
        "{}/{}".format(*measured.removed[name]) if name in measured.removed else "",
        f"{memory / 1e6:.1f}" if isinstance(memory, int) else memory or "",
        f"{100 * memory / size:.1f}" if isinstance(memory, int) else "",
    ]


def report_shape(measured: Measured, out: Console) -> None:
    """Print the table of one shape and what a reader must know beside it."""
    out.print(shape_table(measured))
    for name, why in measured.skipped.items():
        out.print(f"{name} is skipped: {why}.")
    few = [name for name in measured.rounds[0] if len(measured.times(name)) < len(measured.rounds)]
    if few:
        limits = ", ".join(f"above {above:g} s in {rounds}" for above, rounds in machine.FEWER_ROUNDS)
        out.print(f"Too slow for all {len(measured.rounds)} rounds ({limits}): {', '.join(few)}.")
    if measured.busy > machine.BUSY:
        out.print(f"BUSY: other processes used {measured.busy:.0%} of the cores meanwhile; do not trust these times.")
    out.print(f"Best product {measured.gemm_rate() / 1e9:.0f} GFLOP/s, compute floor {measured.floor():.1f} x mean.\n")


def measure_growth(sizes: dict[str, list[Shape]], num_rounds: int, out: Console) -> dict[str, Any]:
    """Measure how the time of Rage auto grows, print it, and return the raw times with the fitted exponents."""
    shapes = list(dict.fromkeys(shape for series in sizes.values() for shape in series))
    rule = Rage(byzantine_fraction=0.2)
    calls = {f"{k}x{d}": partial(rule, torch.from_numpy(colluding_updates(k, d)[0])) for k, d in shapes}
    rounds = machine.interleaved(calls, num_rounds, lambda *_: None)
    table = Table(
        "grows", "size: median ms", "exponent", "last step", title="Growth of Rage auto: time ~ size^exponent"
    )
    exponents: dict[str, list[float]] = {}
    for name, series in sizes.items():
        medians = [statistics.median(t[f"{k}x{d}"] for t in rounds if f"{k}x{d}" in t) for k, d in series]
        lengths = [shape[0] if name == "K" else shape[1] for shape in series]
        exponents[name] = [machine.exponent(lengths, medians), machine.exponent(lengths[-2:], medians[-2:])]
        fixed = f"d = {series[0][1]:,}" if name == "K" else f"K = {series[0][0]}"
        cells = (f"{length:,}: {1e3 * median:.1f}" for length, median in zip(lengths, medians, strict=True))
        table.add_row(f"{name} at {fixed}", "   ".join(cells), *(f"{value:.2f}" for value in exponents[name]))
    out.print(table)
    return {"rounds": rounds, "exponents_all_and_last_step": exponents}


def shape_of(text: str) -> Shape:
    """Read a shape such as 100x1000000."""
    clients, dim = (int(part) for part in text.split("x"))
    if clients < 15 or dim < clients:
        raise argparse.ArgumentTypeError(
            f"a shape needs at least 15 clients and as many parameters as clients, got {text!r}"
        )
    return clients, dim


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.filter", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small shapes, for a first look")
    parser.add_argument("--shape", type=shape_of, action="append", help="clients x parameters, may be repeated")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of every shape (default {ROUNDS})")
    options = parser.parse_args()
    out, about = machine.console(), machine.describe()
    out.print(machine.headline(about), "\n")
    results = []
    for shape in options.shape or (QUICK_SHAPES if options.quick else SHAPES):
        results.append(measure(shape, options.rounds, out))
        report_shape(results[-1], out)
    growth = measure_growth(QUICK_GROWTH if options.quick else GROWTH, options.rounds, out)
    payload = {"machine": about, "data": __doc__, "shapes": [asdict(measured) for measured in results]}
    path = machine.store("filter", payload | {"growth": growth})
    out.print(f"Stored in {path}.")


if __name__ == "__main__":
    main()
