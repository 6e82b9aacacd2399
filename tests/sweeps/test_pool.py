from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from steadfed.errors import ParameterError
from steadfed.sweeps._pool import Failure, ThisProcess, WorkerProcesses


def double(task: int) -> int:
    return 2 * task


def die_of_three(task: int) -> int:
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def refuse_two(task: int) -> int:
    if task == 2:
        raise ParameterError("two is too many")
    return task


def last_first(task: tuple[str, int]) -> int:
    """Wait until the next task is done, if there is one."""
    folder, number = task
    (Path(folder) / str(number)).touch()
    while number == 0 and not (Path(folder) / "1").exists():
        time.sleep(0.01)
    return number


@pytest.mark.parametrize("pool", [ThisProcess(), WorkerProcesses(jobs=2)], ids=lambda pool: type(pool).__name__)
def test_every_task_has_an_outcome_and_there_may_be_fewer_tasks_than_workers(
    pool: ThisProcess | WorkerProcesses,
) -> None:
    assert sorted(pool.outcomes(double, range(5))) == [(n, 2 * n) for n in range(5)]
    assert list(pool.outcomes(double, [7])) == [(7, 14)]
    assert list(pool.outcomes(double, [])) == []
    assert multiprocessing.active_children() == []


def test_outcomes_in_the_order_of_the_tasks_wait_for_the_slow_ones(tmp_path: Path) -> None:
    tasks = [(str(tmp_path), number) for number in range(4)]
    assert list(WorkerProcesses(jobs=2).in_order(last_first, tasks)) == [0, 1, 2, 3]


def test_a_worker_that_dies_fails_its_own_task_and_is_replaced() -> None:
    found = dict(WorkerProcesses(jobs=1).outcomes(die_of_three, range(6)))
    dead = found.pop(3)
    assert isinstance(dead, Failure)
    assert "ended abruptly (signal 9)" in dead.reason
    assert found == {n: n for n in (0, 1, 2, 4, 5)}


def test_what_the_work_raises_is_raised_with_where_it_happened() -> None:
    with pytest.raises(ParameterError, match="two is too many") as raised:
        list(WorkerProcesses(jobs=1).outcomes(refuse_two, range(4)))
    assert "refuse_two" in raised.value.__notes__[0]
    assert multiprocessing.active_children() == []


def test_whoever_stops_listening_leaves_no_worker_behind() -> None:
    outcomes = WorkerProcesses(jobs=2).outcomes(double, iter(range(100)))
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []
