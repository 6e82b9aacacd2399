"""Who does the tasks of a sweep: this process, or worker processes of which any may die."""

from __future__ import annotations

import multiprocessing
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any, ClassVar, TypeVar, final

from steadfed._core.workers import end_with_parent, interrupts_blocked

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")
Work = Callable[[TaskT], ResultT]
"""What is to be done with a task."""

_LISTENING = 0.5
"""Seconds after which a Ctrl-C is noticed at the latest: one that another thread took does not end the waiting."""


@final
@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a task has no result."""

    reason: str


Outcomes = Iterator[tuple[TaskT, ResultT | Failure]]


class Pool(ABC):
    """Does tasks side by side. A worker that dies takes its own task with it, and no other."""

    shares_disk: ClassVar[bool] = True
    """Whether what a worker writes is there for this process."""

    @abstractmethod
    def outcomes(self, work: Work[TaskT, ResultT], tasks: Iterable[TaskT]) -> Outcomes[TaskT, ResultT]:
        """Yield what came of the tasks, in the order in which they are done; a task is taken when there is room.

        What `work` raises is raised here.
        """

    def in_order(self, work: Work[TaskT, ResultT], tasks: Sequence[TaskT]) -> Iterator[ResultT | Failure]:
        """Yield what came of different tasks, in the order of the tasks."""
        outcomes = self.outcomes(work, tasks)
        done: dict[TaskT, ResultT | Failure] = {}
        for task in tasks:
            while task not in done:
                finished, outcome = next(outcomes)
                done[finished] = outcome
            yield done.pop(task)


@final
@dataclass(frozen=True)
class ThisProcess(Pool):
    """One task after the other, here."""

    def outcomes(self, work: Work[TaskT, ResultT], tasks: Iterable[TaskT]) -> Outcomes[TaskT, ResultT]:
        """Do a task when its outcome is asked for."""
        for task in tasks:
            yield task, work(task)


@final
@dataclass(frozen=True, kw_only=True)
class WorkerProcesses(Pool):
    """Processes of this machine, started anew (not forked); they end with this one, and do not hear Ctrl-C."""

    jobs: int = 1

    def outcomes(self, work: Work[TaskT, ResultT], tasks: Iterable[TaskT]) -> Outcomes[TaskT, ResultT]:
        """Give a worker its next task before the outcome of the last one is looked at, so that none waits."""
        rest = iter(tasks)
        workers: list[_Worker] = []
        try:
            for task in islice(rest, self.jobs):
                workers.append(_Worker(work))
                workers[-1].begin(task)
            while workers:
                ready = wait([channel for worker in workers for channel in worker.channels], _LISTENING)
                for worker in [each for each in workers if not each.channels.isdisjoint(ready)]:
                    done = worker.task, worker.outcome()
                    for task in islice(rest, 1):
                        worker.begin(task)
                        break
                    else:
                        worker.stop()
                        workers.remove(worker)
                    yield done
        finally:
            for worker in workers:
                worker.stop()


class _Worker:
    """A process and the task it is at. One that has died is replaced when there is another task."""

    def __init__(self, work: Work[Any, Any]) -> None:
        self._work = work
        self._process: Any = None

    def begin(self, task: Any) -> None:
        """Hand the process a task; start it if there is none."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            with interrupts_blocked(), theirs:
                self._process = context.Process(target=_serve, args=(theirs, self._work), daemon=True)
                self._process.start()
            self.channels = {self._connection, self._process.sentinel}
            """What is ready when the task is done or the process is gone."""
        self.task = task
        with suppress(OSError):  # a process that is gone is noticed by `outcome`
            self._connection.send(task)

    def outcome(self) -> Any:
        """Return what came of the task, or that the process is gone; raise what the work raised."""
        reply = None
        with suppress(EOFError, OSError):  # the process is gone
            if self._connection.poll():  # it may be gone, and something that it started keeps the connection open
                reply = self._connection.recv()
        if reply is None:
            self._process.join()
            code = self._process.exitcode
            self.stop()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return Failure(reason=f"the worker process ended abruptly ({how}), perhaps for want of memory")
        result, error = reply
        if error is not None:
            raise error
        return result

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._connection.close()
            self._process = None


def _serve(connection: Connection, work: Work[Any, Any]) -> None:
    """Do tasks as they come, until nobody is left to send one."""
    end_with_parent()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            connection.send((work(task), None))
        except Exception as error:  # noqa: BLE001  raised again where the outcome is looked at
            error.add_note(traceback.format_exc())
            connection.send((None, error))
