"""Running a grid: cells side by side in processes, records in the order of the grid."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path

from holdfast.aggregators import Aggregator
from holdfast.attacks import Attack, Knowledge
from holdfast.errors import CohortTooSmallError, HoldfastError, TooManySubsetsError
from holdfast.gauntlet.grid import Cell, Grid
from holdfast.gauntlet.lineup import attack_called, rule_called
from holdfast.gauntlet.record import Record, append, cell_key, drop_torn_line, read_records, sole_writer
from holdfast.scenes import Population, Scene, attacked, population
from holdfast.workers import deaf_children, end_with_parent

Task = tuple[Cell, tuple[str, ...]]
"""A cell and the rules that are still to be tried on it."""


def run(grid: Grid, *, seed: int = 0, out: Path | None = None, jobs: int = 1) -> Iterator[list[Record]]:
    """Yield the records of one cell after the other; those that `out` holds already are not run again.

    The outcome depends on the grid and the seed only, not on `jobs`; the records are in the order of the grid. Each
    cell is appended to `out` as soon as it is done, so a run that was stopped goes on where it was.

    Raises:
        ParameterError, UnknownNameError: a grid that means nothing; a file that is another run's or holds other things.
        HoldfastError: a worker process was lost.
    """
    grid.check()
    with nullcontext() if out is None else sole_writer(out):
        yield from _continued(grid, seed, out, jobs)


def _continued(grid: Grid, seed: int, out: Path | None, jobs: int) -> Iterator[list[Record]]:
    """Run what is missing in a file that nobody else writes to."""
    known: dict[str, Record] = {}
    if out is not None:
        drop_torn_line(out)
        known = {record.key: record for record in read_records(out)}
    shifted = [Cell(**{**vars(cell), "seed": seed + cell.seed}) for cell in grid.cells()]
    tasks = [(cell, tuple(rule for rule in grid.rules if cell_key(rule, cell) not in known)) for cell in shifted]
    for (cell, _), records in zip(tasks, _outcomes(tasks, jobs), strict=True):
        if out is not None:
            append(out, records)
        by_rule = {record.rule: record for record in records}
        yield [by_rule.get(rule) or known[cell_key(rule, cell)] for rule in grid.rules]


def _outcomes(tasks: list[Task], jobs: int) -> Iterator[list[Record]]:
    """Yield the records of every task in order, here or from worker processes."""
    if jobs == 1:
        yield from map(try_cell, tasks)
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=end_with_parent)
    try:
        with deaf_children():  # the pool starts its workers when it is given work
            outcomes = pool.map(try_cell, tasks)
        yield from outcomes
    except BrokenProcessPool:
        raise HoldfastError(
            f"one of {jobs} worker processes ended abruptly, perhaps for want of memory; run again with fewer jobs"
        ) from None
    finally:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()  # all is done, or nobody waits for it any more
        pool.shutdown(cancel_futures=True)


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
