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
from typing import Any, ClassVar, Generic, TypeVar, final

from holdfast.workers import deaf_children, end_with_parent

Task = TypeVar("Task")
Result = TypeVar("Result")

_LISTENING = 0.5
"""Seconds after which a Ctrl-C is noticed at the latest: one that another thread took does not end the waiting."""


@final
@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a task has no result."""

    reason: str


class Pool(ABC):
    """Does tasks side by side. A worker that dies takes its own task with it, and no other."""

    shares_disk: ClassVar[bool] = True
    """Whether what a worker writes is there for this process."""

    @abstractmethod
    def outcomes(
        self, work: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | Failure]]:
        """Yield what came of the tasks, in the order in which they are done; a task is taken when there is room.

        What `work` raises is raised here.
        """

    def in_order(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result | Failure]:
        """Yield what came of different tasks, in the order of the tasks."""
        outcomes = self.outcomes(work, tasks)
        done: dict[Task, Result | Failure] = {}
        for task in tasks:
            while task not in done:
                finished, outcome = next(outcomes)
                done[finished] = outcome
            yield done.pop(task)


@final
class ThisProcess(Pool):
    """One task after the other, here."""

    def outcomes(
        self, work: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | Failure]]:
        """Do a task when its outcome is asked for."""
        for task in tasks:
            yield task, work(task)


@final
@dataclass(frozen=True, kw_only=True)
class WorkerProcesses(Pool):
    """Processes of this machine, started anew (not forked); they end with this one, and do not hear Ctrl-C."""

    jobs: int = 1

    def outcomes(
        self, work: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | Failure]]:
        """Give a worker its next task before the outcome of the last one is looked at, so that none waits."""
        rest = iter(tasks)
        workers = [_Worker[Task, Result](work) for _ in range(self.jobs)]
        try:
            for worker in workers:
                worker.take(rest)
            while busy := {channel: worker for worker in workers for channel in worker.channels()}:
                for worker in dict.fromkeys(busy[channel] for channel in wait(list(busy), _LISTENING)):
                    done = worker.outcome()
                    worker.take(rest)
                    yield done
        finally:
            for worker in workers:
                worker.stop()


class _Worker(Generic[Task, Result]):
    """A process and the task it is at; one that has died is replaced with the next task."""

    def __init__(self, work: Callable[[Task], Result]) -> None:
        self._work = work
        self._tasks: list[Task] = []
        """The task under way, if there is one."""
        self._process: Any = None
        self._connection: Connection

    def take(self, tasks: Iterator[Task]) -> None:
        """Begin the next task, if there is one."""
        self._tasks = list(islice(tasks, 1))
        if self._tasks and self._process is None:
            self._start()
        for task in self._tasks:
            with suppress(OSError):  # a worker that died since is noticed by `outcome`
                self._connection.send(task)

    def channels(self) -> list[Any]:
        """Return what is ready when the task is done or the process is gone; nothing if there is no task."""
        return [self._connection, self._process.sentinel] if self._tasks else []

    def outcome(self) -> tuple[Task, Result | Failure]:
        """Return the task under way and what came of it."""
        (task,) = self._tasks
        try:
            if not self._connection.poll():  # the process is gone, and something it started keeps the connection open
                return task, self._death()
            result, error = self._connection.recv()
        except (EOFError, OSError):
            return task, self._death()
        if error is not None:
            raise error
        return task, result

    def _death(self) -> Failure:
        self._process.join()
        code = self._process.exitcode
        self.stop()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return Failure(reason=f"the worker process ended abruptly ({how}), perhaps for want of memory")

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._connection.close()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        with deaf_children(), theirs:
            self._process = context.Process(target=_serve, args=(theirs, self._work), daemon=True)
            self._process.start()


def _serve(connection: Connection, work: Callable[[Any], Any]) -> None:
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
