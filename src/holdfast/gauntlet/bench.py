"""Running a grid: cells side by side in processes, records in the order of the grid."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path

from holdfast.aggregators import Aggregator
from holdfast.attacks import Attack, Knowledge
from holdfast.errors import CohortTooSmallError, TooManySubsetsError
from holdfast.gauntlet.grid import Cell, Grid
from holdfast.gauntlet.lineup import attack_called, rule_called
from holdfast.gauntlet.record import Record, append, cell_key, drop_torn_line, read_records
from holdfast.scenes import Population, Scene, attacked, population

Task = tuple[Cell, tuple[str, ...]]
"""A cell and the rules that are still to be tried on it."""


def run(grid: Grid, *, seed: int = 0, out: Path | None = None, jobs: int = 1) -> Iterator[list[Record]]:
    """Yield the records of one cell after the other; those that `out` holds already are not run again.

    The outcome depends on the grid and the seed only, not on `jobs`; the records are in the order of the grid. Each
    cell is appended to `out` as soon as it is done, so a run that was stopped goes on where it was.
    """
    grid.check()
    known: dict[str, Record] = {}
    if out is not None and out.exists():
        drop_torn_line(out)
        known = {record.key: record for record in read_records(out)}
    shifted = [Cell(**{**vars(cell), "seed": seed + cell.seed}) for cell in grid.cells()]
    tasks = [(cell, tuple(rule for rule in grid.rules if cell_key(rule, cell) not in known)) for cell in shifted]
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, spawn, initializer=_end_with_parent) if jobs > 1 else nullcontext()
    with pool as workers:
        fresh = map(try_cell, tasks) if workers is None else workers.map(try_cell, tasks, chunksize=4)
        for (cell, _), records in zip(tasks, fresh, strict=True):
            if out is not None:
                append(out, records)
            by_rule = {record.rule: record for record in records}
            yield [by_rule.get(rule) or known[cell_key(rule, cell)] for rule in grid.rules]


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, however it ended: nobody would take its results."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def try_cell(task: Task) -> list[Record]:
    """Return the records of some rules on one cell. An attack that knows the rule is staged for every rule anew."""
    cell, rules = task
    if not rules:
        return []
    people = _population(cell.model, cell.cohort_size, cell.dim, cell.num_byzantine, cell.seed)
    attack = attack_called(cell.attack)
    same_for_all = None if Knowledge.RULE in attack.all_needs() else attacked(people, attack, seed=cell.seed)
    return [_try(label, cell, people, attack, same_for_all) for label in rules]


def _try(label: str, cell: Cell, people: Population, attack: Attack, staged: Scene | None) -> Record:
    rule = rule_called(label, cell.num_byzantine, people.shape.sigma0)
    try:
        rule.check_cohort(cell.cohort_size)
        return _outcome(label, cell, rule, staged or attacked(people, attack, rule, cell.seed))
    except (CohortTooSmallError, TooManySubsetsError) as error:
        return Record(rule=label, **vars(cell), refused=str(error))


def _outcome(label: str, cell: Cell, rule: Aggregator, scene: Scene) -> Record:
    started = time.perf_counter()
    result = scene.aggregate(rule)
    seconds = time.perf_counter() - started
    return Record(
        rule=label,
        **vars(cell),
        error=scene.error(result.update),
        honest_weight_lost=scene.honest_weight_lost(result.weights),
        byzantine_weight=scene.byzantine_weight(result.weights),
        promise_broken=result.promise_broken,
        stop=result.stop.name.lower(),
        seconds=seconds,
    )


@lru_cache(maxsize=2)
def _population(model: str, cohort_size: int, dim: int, num_byzantine: int, seed: int) -> Population:
    return population(model, cohort_size=cohort_size, dim=dim, num_byzantine=num_byzantine, seed=seed)
