"""Running a grid: matrices side by side in processes, records in the order of the grid."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from steadfed._core.own_code import loaded
from steadfed.aggregators import Aggregator
from steadfed.attacks import Attack, Knowledge
from steadfed.errors import CohortTooSmallError, OwnCodeError, RunError, TooManySubsetsError
from steadfed.sweeps._pool import Failure, ThisProcess, WorkerProcesses
from steadfed.sweeps._store import append_rows, open_lines
from steadfed.sweeps.matrices._catalogue import attack_for, code_of, rule_for
from steadfed.sweeps.matrices._grid import GauntletGrid, GauntletMatrix
from steadfed.sweeps.matrices._populations import AttackedPopulation, Population, population, under_attack
from steadfed.sweeps.matrices._record import GauntletRecord, read_records, record_key

MatrixRules = tuple[GauntletMatrix, tuple[str, ...]]
"""A matrix and the rules that are still to be tried on it."""


def run(grid: GauntletGrid, *, seed: int = 0, out: Path | None = None, jobs: int = 1) -> Iterator[list[GauntletRecord]]:
    """Yield the records of one matrix after the other; those that `out` holds already are not run again.

    The outcome depends on the grid and the seed only, not on `jobs`; the records are in the order of the grid. Each
    matrix is appended to `out` as soon as it is done, so a run that was stopped goes on where it was.

    Raises:
        ParameterError, UnknownNameError: a grid that means nothing; a file that holds other things.
        RunError: a worker process was lost, or the file cannot be written.
    """
    grid.check()
    pool = ThisProcess() if jobs == 1 else WorkerProcesses(jobs=jobs)
    with nullcontext() if out is None else open_lines(out):
        known = {} if out is None else {record.key: record for record in read_records(out)}
        matrices = [replace(matrix, seed=seed + matrix.seed) for matrix in grid.matrices()]
        tasks = {matrix: tuple(rule for rule in grid.rules if _key(rule, matrix) not in known) for matrix in matrices}
        outcomes = pool.in_order(try_matrix, [task for task in tasks.items() if task[1]])
        for matrix, rules in tasks.items():
            done = _records(next(outcomes)) if rules else []
            if out is not None:
                append_rows(out, (record.row() for record in done))
            known |= {record.key: record for record in done}
            yield [known[_key(rule, matrix)] for rule in grid.rules]


def _key(rule: str, matrix: GauntletMatrix) -> str:
    return record_key(rule, matrix, code_of(rule, matrix.attack))


def _records(outcome: list[GauntletRecord] | Failure) -> list[GauntletRecord]:
    if isinstance(outcome, Failure):
        raise RunError(f"{outcome.reason}; run again with fewer jobs to go on")
    return outcome


def try_matrix(task: MatrixRules) -> list[GauntletRecord]:
    """Return the records of some rules on one matrix. An attack that knows the rule is staged for every rule anew."""
    matrix, rules = task
    people = _population(matrix.model, matrix.cohort_size, matrix.dim, matrix.num_byzantine, matrix.seed)
    attack = loaded(attack_for(matrix.attack))
    same_for_all = None if Knowledge.RULE in attack.all_needs() else under_attack(people, attack, seed=matrix.seed)
    return [_try_rule(label, matrix, people, attack, same_for_all) for label in rules]


def _try_rule(
    label: str, matrix: GauntletMatrix, people: Population, attack: Attack, staged: AttackedPopulation | None
) -> GauntletRecord:
    rule = loaded(rule_for(label, matrix.num_byzantine, people.shape.sigma0))
    try:
        rule.check_cohort(matrix.cohort_size)
        return _outcome(label, matrix, rule, staged or under_attack(people, attack, rule, matrix.seed))
    except (CohortTooSmallError, TooManySubsetsError, OwnCodeError) as error:
        code = code_of(label, matrix.attack)
        return GauntletRecord(rule=label, **vars(matrix), refused=str(error), code=code)


def _outcome(label: str, matrix: GauntletMatrix, rule: Aggregator, attacked: AttackedPopulation) -> GauntletRecord:
    started = time.perf_counter()
    result = attacked.aggregate(rule)
    seconds = time.perf_counter() - started
    return GauntletRecord(
        rule=label,
        **vars(matrix),
        error=attacked.error(result.update),
        trace_coefficient=attacked.trace_coefficient(result.update),
        honest_weight_lost=attacked.honest_weight_lost(result.weights) if result.attributed else None,
        byzantine_weight=attacked.byzantine_weight(result.weights) if result.attributed else None,
        assumption_violated=result.assumption_violated,
        stop=result.stop.name.lower(),
        seconds=seconds,
        code=code_of(label, matrix.attack),
    )


@lru_cache(maxsize=2)
def _population(model: str, cohort_size: int, dim: int, num_byzantine: int, seed: int) -> Population:
    return population(model, cohort_size=cohort_size, dim=dim, num_byzantine=num_byzantine, seed=seed)
