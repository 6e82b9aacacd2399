"""Who plays the cells: processes of this machine, or those of a Ray cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, final

from holdfast.comparison.playing import Failure, Files, Outcome, Task, begin, play_cell, play_elsewhere
from holdfast.durable import replace_file
from holdfast.errors import RunError
from holdfast.workers import deaf_children

INSTALL_RAY = "pip install 'holdfast[ray]'"
_PATIENCE = 10.0
"""Seconds to wait for a cluster to answer."""
_LISTENING = 0.5
"""Seconds after which a Ctrl-C is noticed at the latest: one that another thread took does not end the waiting."""


class Workers(ABC):
    """Plays tasks side by side. A worker that dies takes its own cell with it, and no other."""

    @abstractmethod
    def outcomes(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Yield what came of the tasks, in the order in which they are done; a task is taken when there is room."""


@final
@dataclass(frozen=True, kw_only=True)
class LocalWorkers(Workers):
    """Processes of this machine, started anew (not forked), one torch thread each."""

    jobs: int = 1

    def outcomes(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Keep one task more than there are processes, so that none waits."""
        from pebble import ProcessPool

        pool = ProcessPool(self.jobs, initializer=begin, context=multiprocessing.get_context("spawn"))
        waiting: dict[Future[Outcome], Task] = {}
        try:
            while True:
                with deaf_children():
                    for task in islice(tasks, self.jobs + 1 - len(waiting)):
                        waiting[pool.schedule(play_cell, args=(task,))] = task
                if not waiting:
                    return
                for future in wait(waiting, _LISTENING, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), _outcome(future)
        finally:
            pool.stop()  # type: ignore[no-untyped-call]
            pool.join()


def _outcome(future: Future[Outcome]) -> Outcome:
    from pebble import ProcessExpired

    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, ProcessExpired):
        how = f"signal {-error.exitcode}" if error.exitcode < 0 else f"exit code {error.exitcode}"
        return Failure(reason=f"the worker process ended abruptly ({how}), perhaps for want of memory")
    return Failure(reason=f"{type(error).__name__}: {error}")


@final
@dataclass(frozen=True, kw_only=True)
class RayWorkers(Workers):
    """Tasks on a Ray cluster, one CPU each; the driver alone writes files, so machines need no common disk."""

    address: str
    """Such as auto, 10.0.0.1:6379 or ray://10.0.0.1:10001."""

    def outcomes(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Keep two tasks for every CPU of the cluster."""
        ray = _connected(self.address)
        remote = ray.remote(num_cpus=1, max_retries=0)(play_elsewhere)
        waiting: dict[Any, Task] = {}
        try:
            while True:
                room = max(1, 2 * int(ray.cluster_resources().get("CPU", 1)) - len(waiting))
                for task in islice(tasks, room):
                    waiting[remote.remote(task)] = task
                if not waiting:
                    return
                for reference in ray.wait(list(waiting), num_returns=1)[0]:
                    task = waiting.pop(reference)
                    yield task, _fetched(ray, reference, Path(task.folder))
        finally:
            ray.shutdown()


def _connected(address: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if find_spec("ray") is None:
        raise RunError(f"Ray is not installed, and --ray needs it: {INSTALL_RAY}")
    try:
        _knock(address)
        import ray

        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        why = str(error).strip().partition("\n")[0]
        raise RunError(
            f"cannot reach a Ray cluster at {address!r}: {why}; `ray start --head` begins one and says its address"
        ) from None
    return ray


def _knock(address: str) -> None:
    """Raise `OSError` soon if nobody listens at HOST:PORT; Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE):
            pass


def _fetched(ray: Any, reference: Any, folder: Path) -> Outcome:
    """Return what came of a task, its files written where a local worker would have written them: figures last."""
    try:
        outcome, files = ray.get(reference)
    except (ray.exceptions.RayError, OSError) as error:
        return Failure(reason=f"the task was lost on the cluster: {str(error).strip().splitlines()[0]}")
    _write(folder, files)
    found: Outcome = outcome
    return found


def _write(folder: Path, files: Files) -> None:
    if files:
        folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, key=lambda name: name == "figures.json"):
        replace_file(folder / name, files[name])
