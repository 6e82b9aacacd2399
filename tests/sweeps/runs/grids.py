"""Grids and results as tests need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, final

from steadfed.sweeps._pool import Failure, Pool, ThisProcess
from steadfed.sweeps.runs._figures import Figures
from steadfed.sweeps.runs._results import CellState, Result
from steadfed.sweeps.runs._task import CellTask

T = TypeVar("T")
R = TypeVar("R")
BASE = """
[base]
rounds = 4
local_steps = 1
batch_size = 8
cohort_size = 8
partition = { name = "iid", num_clients = 8 }
model = { name = "softmax-regression" }
"""
SMALL = (
    BASE
    + """
[grid]
rule = ["rage", "median"]
attack = ["none", "sign-flip"]
byzantine_fraction = [0, 0.25]
seed = [0, 1]
"""
)
"""Two rules, with and without two Byzantine clients, twice; cells take no time."""

NAMED = (
    BASE
    + """
[grid]
rule = ["rage", "median"]
attack = ["none", "sign-flip"]
seed = [0, 1]
byzantine_fraction = 0.25

[settings.few.base]
rounds = 2

[settings.many]
bound_probability = 0.9
base = { cohort_size = 8, partition = { name = "dirichlet", num_clients = 16, alpha = 0.5 } }
grid = { attack = ["none", "nan", "ones"], seed = 0 }
"""
)
"""Two settings that have names, rounds, clients, attacks and seeds of their own."""


@final
class Witness(Pool):
    """Plays cells here, one after the other, and notes which."""

    def __init__(self) -> None:
        self.played: list[str] = []

    def outcomes(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[tuple[T, R | Failure]]:
        for task, outcome in ThisProcess().outcomes(work, tasks):
            assert isinstance(task, CellTask)
            self.played.append(task.key)
            yield task, outcome


def result(
    rule: str,
    attack: str,
    accuracy: float | None,
    *,
    seed: int = 0,
    fraction: float = 0.2,
    state: CellState = CellState.FINISHED,
    precision: float | None = None,
    **settings: str | float,
) -> Result:
    """Return a result with this accuracy."""
    figures = Figures(
        accuracy=accuracy,
        final_accuracy=accuracy,
        best_accuracy=accuracy,
        curve_rounds=[1, 2],
        curve=[0.1, accuracy or 0.0],
        precision=precision,
        recall=precision,
        honest_removed=0.0 if precision is None else 0.1,
        skipped=0,
        assumption_violated=0,
        seconds=1.0,
    )
    return Result(
        settings={"byzantine_fraction": fraction, "rule": rule, "attack": attack, "seed": seed, **settings},
        state=state,
        reason=None if state is CellState.FINISHED else "because",
        figures=figures if state is CellState.FINISHED else None,
        assumed=1,
        num_byzantine=1,
        key=f"{rule}{attack}{seed}{settings}",
        config="seed = 0",
    )
