"""Sites of very different size: what weighing them costs and gains, without attack and under an update times −1000.

Run it with ``python -m benchmarks.site_weights``; it takes half a minute, and the tables go to README.md. Seven sites
with 190 to 17,834 samples, as hospitals have them (the largest holds 51.7 %), and the same with the largest at 43 %.
The target is the weighted mean of the honest rows: of all of them without attack. Rows are a common direction of length
1, a direction of the site's own with length 0.7, and the noise of an average over its samples. Errors are relative to
the length of the target, means over seeds; "refuses" where a rule promises nothing and says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch

from steadfed._core.arrays import Matrix, Vector
from steadfed._core.rng import stream
from steadfed.aggregators import Aggregator, GeometricMedian, Krum, Mean, Median, Rage, ServerView, TrimmedMean
from steadfed.errors import CohortTooSmallError
from steadfed.server._site_weights import Sites

SIZES: Mapping[str, tuple[float, ...]] = {
    "Aachen 51.7 %": (190, 1_210, 2_360, 3_050, 4_260, 5_590, 17_834),
    "largest 43 %": (190, 1_910, 3_600, 4_700, 6_060, 7_180, 17_834),
}
DIM, SEEDS, FACTOR = 10_000, 20, -1000.0


class Contender(NamedTuple):
    """A rule, and how its sites are weighed."""

    rule: Aggregator
    weighed: bool = False
    max_share: float | None = None


CONTENDERS: Mapping[str, Contender] = {
    "`median`": Contender(Median(num_byzantine=1)),
    "`trimmed-mean`, f = 1": Contender(TrimmedMean(num_byzantine=1)),
    "`geometric-median`": Contender(GeometricMedian(num_byzantine=1)),
    "`krum`, f = 1": Contender(Krum(num_byzantine=1)),
    "`rage`, f = 1, every site alike": Contender(Rage(num_byzantine=1)),
    "`mean`, weighted": Contender(Mean(), weighed=True),
    "`rage`, weighted, ε = 0.25": Contender(Rage(byzantine_weight=0.25), weighed=True),
    "`rage`, weighted, ε = 0.44": Contender(Rage(byzantine_weight=0.44), weighed=True),
    "`rage`, weighted, f = 1": Contender(Rage(num_byzantine=1), weighed=True),
    "`rage`, shares up to 0.24, ε = 0.24": Contender(Rage(byzantine_weight=0.24), weighed=True, max_share=0.24),
}
LIARS: Mapping[str, int | None] = {"nobody lies": None, "the smallest": 0, "a middle one": 3, "the largest": 6}


def rows_of(sizes: Vector, seed: int) -> Matrix:
    """Return the honest updates: common, the site's own, noise."""
    rng = stream(seed, "site weights")
    common, own = rng.standard_normal(DIM), rng.standard_normal((len(sizes), DIM))
    noise = rng.standard_normal((len(sizes), DIM)) * np.sqrt(190.0 / sizes)[:, None]
    return np.asarray((common + 0.7 * own + noise) / np.sqrt(DIM))


def relative_error(contender: Contender, sizes: Vector, liar: int | None, seed: int) -> float:
    """Return ‖update − target‖ / ‖target‖; NaN if the rule refuses."""
    rows = rows_of(sizes, seed)
    honest = np.arange(len(sizes)) != (-1 if liar is None else liar)
    target = sizes[honest] @ rows[honest] / sizes[honest].sum()
    rows[~honest] *= FACTOR
    names = list(range(len(sizes)))
    view = ServerView(sampled=False)
    if contender.weighed:
        view = Sites.of(dict(zip(names, sizes.tolist(), strict=True)), contender.max_share).told(view, names, names)
    try:
        update = contender.rule(torch.from_numpy(rows), view).update.numpy()
    except CohortTooSmallError:
        return float("nan")
    return float(np.linalg.norm(update - target) / np.linalg.norm(target))


def lines() -> Iterator[str]:
    """Yield the tables in Markdown."""
    for title, sizes in SIZES.items():
        yield f"\n| {title} | " + " | ".join(LIARS) + " |"
        yield "|---|" + "---|" * len(LIARS)
        for name, contender in CONTENDERS.items():
            cells = []
            for liar in LIARS.values():
                errors = [relative_error(contender, np.array(sizes, dtype=float), liar, seed) for seed in range(SEEDS)]
                mean = float(np.mean(errors))
                cells.append("refuses" if np.isnan(mean) else f"{mean:.2g}")
            yield f"| {name} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
