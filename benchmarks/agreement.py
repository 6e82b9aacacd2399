"""Values of rules and attacks against those of the peers, and the reason of every difference, checked.

Run it with ``python -m benchmarks.agreement``. Clouds of 11, 25 and 40 rows with 1, 7 and 200 columns, float64 and
float32, without ties; the number of Byzantine rows runs from 0 to the largest that both sides allow. Rows are standard
normal about a common offset; or each has a width of its own; or they are two groups, three standard deviations apart;
or the Byzantine ones are shifted by six standard deviations and scattered twice as wide. Every difference is the
Euclidean distance of two updates (for attacks of two matrices of rows), relative to the longest row (of f rows: to √f
times that).

The program ends with code 1 if values differ that must agree, if values agree that are said to differ, or if the value
under the peer's definition is not the peer's.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks import machine
from benchmarks.attack_pairs import ATTACKS
from benchmarks.pairs import Cloud, Pair
from benchmarks.rule_pairs import RULES
from steadfed.extend import stream

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
"""What counts as rounding."""
OFFSET, APART, SHIFT, WIDTH = 0.3, 3.0, 6.0, 2.0
NAMES = {torch.float64: "float64", torch.float32: "float32"}
Rows = NDArray[np.float64]
Forged = NDArray[np.bool_]
COLUMNS = ("steadfed", "peer", "cases", "differ", "float64", "float32", "verdict", "under their definition")


@dataclass
class Found:
    """What was found of one pair."""

    pair: Pair
    cases: int = 0
    differing: int = 0
    largest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(NAMES.values(), 0.0))
    """The largest difference, by dtype of the rows."""
    unexplained: float = 0.0
    """The largest difference between two sides of an equation of the explanation."""
    wrong_equations: int = 0

    def compare(self, cloud: Cloud) -> None:
        """Compare the two values, and the sides of the explanation's equations."""
        dtype = cloud.rows.dtype
        tolerance = self.pair.tolerance or TOLERANCE[torch.float32 if self.pair.single else dtype]
        found = difference(self.pair.ours(cloud), self.pair.theirs(cloud), cloud)
        self.cases += 1
        self.differing += found > tolerance
        self.largest[NAMES[dtype]] = max(self.largest[NAMES[dtype]], found)
        for left, right in self.pair.equations(cloud) if self.pair.equations else ():
            apart = difference(left, right, cloud)
            self.unexplained = max(self.unexplained, apart)
            self.wrong_equations += apart > tolerance

    @property
    def verdict(self) -> str:
        """What the comparison says, in a few words."""
        if not self.pair.why:
            return "EQUAL EXPECTED" if self.differing else "equal"
        if self.wrong_equations:
            return "NOT EXPLAINED"
        return "differs by definition" if self.differing else "DIFFERENCE EXPECTED"

    @property
    def as_expected(self) -> bool:
        """Whether equal is what must be equal, and explained what differs."""
        return self.verdict in {"equal", "differs by definition"}

    def row(self) -> list[str]:
        """Return the row of the table."""
        return [
            self.pair.steadfed,
            self.pair.peer,
            str(self.cases),
            str(self.differing),
            *(f"{self.largest[name]:.0e}" for name in NAMES.values()),
            self.verdict,
            f"{self.unexplained:.0e}" if self.pair.equations else "",
        ]

    def record(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "steadfed": self.pair.steadfed,
            "peer": self.pair.peer,
            "cases": self.cases,
            "differing": self.differing,
            "largest": self.largest,
            "verdict": self.verdict,
            "why": self.pair.why,
            "explained_to": self.unexplained if self.pair.equations else None,
        }


def difference(left: Tensor, right: Tensor, cloud: Cloud) -> float:
    """Return ‖left − right‖ relative to the longest row; equal infinities do not differ."""
    left, right = left.double(), right.double()
    apart = torch.where(left == right, 0.0, left - right)
    number = left.shape[0] if left.ndim == 2 else 1
    return float(apart.norm()) / (cloud.size * math.sqrt(number))


def clouds(pair: Pair) -> Iterator[Cloud]:
    """Yield the clouds on which a pair is compared."""
    for clients, dim in pair.shapes:
        if pair.unique_only and dim == 1 and clients % 2 == 0:
            continue
        for num_byzantine, kind in product(pair.bounds(clients), KINDS):
            generator = stream(1, "agreement", clients, dim, num_byzantine, kind)
            rows = generator.standard_normal((clients, dim))
            forged = np.isin(np.arange(clients), generator.permutation(clients)[:num_byzantine])
            KINDS[kind](rows, forged, generator)
            for dtype in NAMES:
                yield Cloud(torch.from_numpy(rows + OFFSET).to(dtype), forged)


def _uneven(rows: Rows, _: Forged, generator: np.random.Generator) -> None:
    rows *= np.exp(generator.standard_normal((len(rows), 1)))


def _grouped(rows: Rows, _: Forged, generator: np.random.Generator) -> None:
    rows[generator.random(len(rows)) < 0.4] += _direction(rows, generator, APART)


def _attacked(rows: Rows, forged: Forged, generator: np.random.Generator) -> None:
    rows[forged] = WIDTH * rows[forged] + _direction(rows, generator, SHIFT)


def _direction(rows: Rows, generator: np.random.Generator, length: float) -> NDArray[np.float64]:
    direction = generator.standard_normal(rows.shape[1])
    return np.asarray(length * direction / np.linalg.norm(direction))


KINDS: Mapping[str, Callable[[Rows, Forged, np.random.Generator], None]] = {
    "even": lambda *_: None,
    "uneven": _uneven,
    "grouped": _grouped,
    "attacked": _attacked,
}
"""What is done to standard normal rows, in place."""


def compare(pairs: Sequence[Pair], title: str, out: Console) -> list[Found]:
    """Compare every pair and print the table."""
    results = []
    table = Table(*COLUMNS, title=title)
    for pair in pairs:
        found = Found(pair)
        for cloud in clouds(pair):
            found.compare(cloud)
        results.append(found)
        table.add_row(*found.row())
    out.print(table)
    for found in results:
        if found.pair.why:
            out.print(f"{found.pair.steadfed} / {found.pair.peer}: {found.pair.why}.")
    out.print()
    return results


def main() -> None:
    """Compare, print, store; exit with 1 if anything is not as expected."""
    argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__).parse_args()
    out, about = machine.console(), machine.describe()
    out.print(machine.headline(about), "\n")
    rules = compare(RULES, "Rules: largest difference relative to the longest row", out)
    attacks = compare(ATTACKS, "Attacks: largest difference relative to the longest row", out)
    payload = {"rules": [found.record() for found in rules], "attacks": [found.record() for found in attacks]}
    path = machine.store("agreement", {"machine": about, "data": __doc__} | payload)
    out.print(f"Stored in {path}.")
    unexpected = [found for found in rules + attacks if not found.as_expected]
    for found in unexpected:
        out.print(f"NOT AS EXPECTED: {found.pair.steadfed} against {found.pair.peer}: {found.verdict}.")
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
