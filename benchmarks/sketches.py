"""What a sketch costs in accuracy: the filter's decisions with the rows' own Gram matrix and with a sketched one.

Run it with ``python -m benchmarks.sketches``; ``--seeds``, ``--rows``, ``--strength`` choose how much. Every matrix (a
spectrum of the honest rows, a strength of the attack, a seed) is filtered exactly, and through sketches of several
widths. Everything is computed from the exact Gram matrix: the true spread at the sketch's weights, how far the update
moved, its error.

An attack is f = K/5 rows in one place, `strength` times σ₀ from the honest mean in a random direction of their span. It
adds ε (1 − ε) strength² σ₀² to the spread, which meets the threshold 3 λ_min at strengths from 3 to 4.
"""

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks import machine
from steadfed._linalg.gram import pivoted_gram
from steadfed._linalg.sketch import SketchedColumns
from steadfed._linalg.sources import as_columns
from steadfed._linalg.spectrum import eigen_directions
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators._rage.constants import KAPPA, REJECTION, RHO
from steadfed.aggregators._rage.deciding import decide_by_displacement
from steadfed.aggregators._rage.displacement import Reach
from steadfed.extend import stream

Rows = NDArray[np.float32]
DIM = 131_072
ROWS = (50, 100, 400, 1000)
WIDTHS = (8_176, 16_368, 32_752)
STRENGTHS = (0.0, 1.5, 2.5, 3.0, 3.3, 3.6, 4.0, 6.0, 20.0)
SEEDS = 10


@dataclass(frozen=True)
class Outcome:
    """What one sketch did to the filter's decision on one matrix."""

    num_rows: int
    spectrum: str
    strength: float
    seed: int
    num_buckets: int
    spread_error: float
    """Sketched over true spread at the sketch's own weights, minus 1."""
    fresh_ratio: float
    """The same under a second key: what a certificate rests on."""
    moved: float
    """How far the weights moved, in total variation."""
    update_moved: float
    """How far the update moved, in σ₀ √ε."""
    error: float
    """The error of the update, in σ₀ √ε."""
    exact_error: float


def _flat(rng: np.random.Generator, rows: int) -> Rows:
    return rng.standard_normal((rows, DIM), dtype=np.float32)


def _power(rng: np.random.Generator, rows: int) -> Rows:
    return _flat(rng, rows) * (np.arange(1, DIM + 1, dtype=np.float32) ** np.float32(-0.5))


def _clusters(rng: np.random.Generator, rows: int) -> Rows:
    centres = 0.3 * rng.standard_normal((5, DIM), dtype=np.float32)
    return _flat(rng, rows) + centres[rng.integers(0, 5, rows)]


def _low_rank(rng: np.random.Generator, rows: int) -> Rows:
    basis = rng.standard_normal((10, DIM), dtype=np.float32)
    return rng.standard_normal((rows, 10), dtype=np.float32) @ basis + np.float32(0.1) * _flat(rng, rows)


def _heavy_tails(rng: np.random.Generator, rows: int) -> Rows:
    return rng.standard_t(3, (rows, DIM)).astype(np.float32)


def _heavy_coordinates(rng: np.random.Generator, rows: int) -> Rows:
    """Every row has one coordinate of its own that is as long as the rest of it."""
    found = _flat(rng, rows)
    found[np.arange(rows), rng.permutation(DIM)[:rows]] += np.float32(math.sqrt(DIM))
    return found


SPECTRA: dict[str, Callable[[np.random.Generator, int], Rows]] = {
    "flat": _flat,
    "power law": _power,
    "clusters": _clusters,
    "low rank": _low_rank,
    "t with 3 degrees": _heavy_tails,
    "heavy coordinates": _heavy_coordinates,
}


def outcomes(num_rows: int, spectrum: str, seed: int, strengths: Sequence[float]) -> Iterator[Outcome]:
    """Yield what sketches do to the filter at every strength of the attack."""
    rng = stream(seed, "sketches", spectrum, num_rows)
    rows = SPECTRA[spectrum](rng, num_rows)
    number = num_rows // 5
    honest = rows[number:]
    mean = honest.mean(axis=0, dtype=np.float64)
    gram = pivoted_gram(as_columns(honest)).matrix
    sigma0 = math.sqrt(eigen_directions(gram, np.ones(len(honest)), 1).top / len(honest))
    mixed = rng.standard_normal(len(honest), dtype=np.float32)
    direction = (mixed - mixed.mean()) @ honest
    direction /= np.linalg.norm(direction)
    jitter = np.float32(0.05) * rows[:number].copy()
    for strength in strengths:
        if strength:
            rows[:number] = mean + strength * sigma0 * direction + jitter
        yield from _compared(rows, sigma0, Outcome(num_rows, spectrum, strength, seed, 0, 0, 0, 0, 0, 0, 0))


def _compared(rows: Rows, sigma0: float, about: Outcome) -> Iterator[Outcome]:
    columns, number = as_columns(rows), len(rows) // 5
    unit = sigma0 * math.sqrt(0.2)
    exact = pivoted_gram(columns).matrix
    honest = np.where(np.arange(len(rows)) < number, 0.0, 1.0 / (len(rows) - number))
    first = _weights(exact, number)
    for width in WIDTHS:
        sketched = SketchedColumns(columns, about.seed)
        sketched.num_buckets = width
        fresh = sketched.with_fresh_key()
        fresh.num_buckets = width
        seen = pivoted_gram(sketched).matrix
        weights = _weights(seen, number)
        true = _spread(exact, weights)
        yield Outcome(
            about.num_rows,
            about.spectrum,
            about.strength,
            about.seed,
            width,
            _spread(seen, weights) / true - 1.0,
            _spread(pivoted_gram(fresh).matrix, weights) / true,
            float(np.abs(weights - first).sum()) / 2.0,
            _length(exact, weights - first) / unit,
            _length(exact, weights - honest) / unit,
            _length(exact, first - honest) / unit,
        )


def _weights(gram: NDArray[np.float64], num_byzantine: int) -> NDArray[np.float64]:
    """Return what RAGE decides, without a second pass over the rows."""
    reach = Reach(RHO, RHO * REJECTION, KAPPA["auto"])
    weights = decide_by_displacement(gram, num_byzantine, reach, sampled=False, confirm=False).weights
    return np.asarray(weights / weights.sum())


def _spread(gram: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return eigen_directions(gram, weights, 1).top


def _length(gram: NDArray[np.float64], combination: NDArray[np.float64]) -> float:
    return math.sqrt(max(0.0, float(combination @ gram @ combination)))


def table_of(found: list[Outcome]) -> Table:
    """Return the largest and the usual of every figure, by rows, spectrum and width."""
    table = Table(
        *(
            "K",
            "spectrum",
            "m",
            "spread error",
            "fresh key, least",
            "weights moved",
            "update moved",
            "worst error",
            "exact",
        ),
        title="median (largest) over strengths and seeds; errors and moves of the update in σ₀ √ε",
    )
    groups: dict[tuple[int, str, int], list[Outcome]] = defaultdict(list)
    for outcome in found:
        groups[outcome.num_rows, outcome.spectrum, outcome.num_buckets].append(outcome)
    for (num_rows, spectrum, width), group in groups.items():
        table.add_row(
            str(num_rows),
            spectrum,
            f"{width:,}",
            _both([abs(outcome.spread_error) for outcome in group], ".1%"),
            f"{min(outcome.fresh_ratio for outcome in group):.3f}",
            _both([outcome.moved for outcome in group], ".1%"),
            _both([outcome.update_moved for outcome in group], ".3f"),
            f"{max(outcome.error for outcome in group):.2f}",
            f"{max(outcome.exact_error for outcome in group):.2f}",
        )
    return table


def _both(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({max(values):{form}})"


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sketches", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"matrices of every kind (default {SEEDS})")
    parser.add_argument("--rows", type=int, action="append", help="numbers of clients, may be repeated")
    parser.add_argument("--strength", type=float, action="append", help="strengths of the attack, may be repeated")
    options = parser.parse_args()
    out, about = machine.console(), machine.describe()
    found: list[Outcome] = []
    with one_blas_thread():
        for num_rows in options.rows or ROWS:
            here = [
                outcome
                for spectrum in SPECTRA
                for seed in range(options.seeds)
                for outcome in outcomes(num_rows, spectrum, seed, options.strength or STRENGTHS)
            ]
            out.print(table_of(here))
            found += here
    payload: dict[str, Any] = {"machine": about, "dim": DIM, "outcomes": [asdict(outcome) for outcome in found]}
    out.print(f"Stored in {machine.store('sketches', payload)}.")


if __name__ == "__main__":
    main()
