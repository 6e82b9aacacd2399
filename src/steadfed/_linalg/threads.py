"""How many threads work, and on what.

Large column blocks are spread over worker threads; inside each of them, and for all K x K work, BLAS runs on one
thread. Small threaded BLAS calls collapse under load (a tenfold slowdown was measured), and with one thread per block
a result does not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

Task = TypeVar("Task")
Slot = TypeVar("Slot")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _BlasLimit:
    """The limit of BLAS to one thread, which is global to the process, and how many are inside of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._inside = 0
        self._restoring = ExitStack()

    def enter(self) -> None:
        """Set the limit if nobody has."""
        with self.lock:
            if self._inside == 0:
                OpenBLASController.clear_controlling_thread(force=True)  # or only the first thread could set limits
                self._restoring.callback(_controller().limit(limits=1, user_api="blas").restore_original_limits)
            self._inside += 1

    def leave(self) -> None:
        """Restore the old limits if nobody else is inside."""
        with self.lock:
            self._inside -= 1
            if self._inside == 0:
                OpenBLASController.clear_controlling_thread(force=True)
                self._restoring.close()


_blas_limit = _BlasLimit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread for the whole process while inside; the last one to leave restores the old limits.

    BLAS limits are global, so concurrent callers are counted: otherwise the second to enter would save the limit of
    the first and restore it for good.
    """
    _blas_limit.enter()
    try:
        yield
    finally:
        _blas_limit.leave()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch work on one thread while inside, which makes its sums the same everywhere."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)


def num_workers() -> int:
    """Return how many threads work on column blocks: the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    work: Callable[[Task, Slot], None], tasks: Iterable[Task], slots: list[Slot], consume: Callable[[Task, Slot], None]
) -> None:
    """Run `work(task, slot)` on one thread per slot and `consume(task, slot)` here, in the order of the tasks.

    A slot (scratch memory) is handed to the next task only after it was consumed, so memory is bounded by the slots
    and the order of consumption, and hence every sum, is the same for any number of slots. A single task, as small
    matrices are, is run here: starting threads would take longer than the work.
    """
    tasks = list(tasks)
    if len(slots) == 1 or len(tasks) == 1:
        for task in tasks:
            work(task, slots[0])
            consume(task, slots[0])
        return
    free = deque(slots)
    pending: deque[tuple[Task, Slot, Future[None]]] = deque()

    def consume_first() -> None:
        task, slot, future = pending.popleft()
        future.result()
        consume(task, slot)
        free.append(slot)

    with ThreadPoolExecutor(len(slots)) as executor:
        for task in tasks:
            if not free:
                consume_first()
            slot = free.popleft()
            pending.append((task, slot, executor.submit(work, task, slot)))
        while pending:
            consume_first()
