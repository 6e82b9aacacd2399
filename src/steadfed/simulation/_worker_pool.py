"""Who takes the local steps of a cohort: this process, or worker processes over one shared matrix.

Workers are forked after the data and the engine are in place, so they hold both without a copy. The matrix, the model
and the names of the clients lie in anonymous shared memory; what goes through the pipes is a few numbers per chunk.
Every process works on one thread, and a client's bits do not depend on its chunk, so the result is the same for any
number of workers.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import struct
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.arrays import Indices
from steadfed._linalg.threads import one_blas_thread, one_torch_thread
from steadfed.attacks._replacement import AdversarialTraining
from steadfed.errors import ParameterError, RunError, SteadfedError
from steadfed.simulation._adversarial_steps import adversarial_steps
from steadfed.simulation._engines.base import Engine
from steadfed.simulation._local import Chunk

_ORDER = struct.Struct("<qdqqq")
"""Round, step size, number of steps, first and last row of a chunk."""
_REPLY = struct.Struct("<d")
"""Seconds spent on drawing batches; anything longer is the text of an error."""
_COMPANY = 8
"""How many clients are taken together at least, to which company matters; a cohort of many makes four chunks or more,
so that a few workers have something to do."""


@dataclass(frozen=True, eq=False)
class Start:
    """What clients start from."""

    model: Float[Tensor, " d"]
    """x, the global model."""
    buffers: Float[Tensor, " m"]
    """The server's floating-point buffers."""
    momentum: Float[Tensor, "R d"] | None
    """Every client's own momentum, if there is any; what a client leaves is put back."""


class WorkerPool:
    """Takes the local steps of cohorts; a context manager, because worker processes must be ended.

    Each worker costs the memory of its own working set only.
    """

    def __init__(self, engine: Engine, cohort_size: int, jobs: int = 1) -> None:
        """Set the memory aside; workers, for more than one job, are started on entering."""
        if not isinstance(jobs, int) or jobs < 1:
            raise ParameterError(f"jobs must be a whole number of at least 1, got {jobs!r}")
        device = next(engine.task.module.parameters()).device
        if jobs > 1 and device.type != "cpu":
            raise ParameterError(f"worker processes compute on the cpu only; on {device} use jobs = 1, got {jobs}")
        self._engine, self._jobs = engine, min(jobs, cohort_size)
        self._memory = _Memory(engine, cohort_size)
        self._workers = [_Worker() for _ in range(self._jobs)] if self._jobs > 1 else []
        self._momentum_is_fresh = True
        self.sampling_seconds = 0.0
        """Time that drawing batches took in the last call, of the slowest process."""

    def __enter__(self) -> Self:
        """Start the workers."""
        if self._workers and "fork" not in multiprocessing.get_all_start_methods():
            raise ParameterError(f"worker processes need a system that can fork; use jobs = 1, got {self._jobs}")
        if self._workers and multiprocessing.current_process().daemon:
            raise ParameterError(
                f"a daemonic process, such as one of a pool, may not start others; use jobs = 1, got {self._jobs}"
            )
        with one_blas_thread():  # the workers inherit it; the lock behind it may be held by a thread they do not have
            near_ends: list[Connection] = []
            for worker in self._workers:
                worker.start(self._engine, self._memory, near_ends)
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.stop()

    def stop(self) -> None:
        """End the workers, whatever they are doing."""
        for worker in self._workers:
            worker.stop()

    @property
    def momentum(self) -> Float[Tensor, "R d"] | None:
        """Every client's momentum, if there is any."""
        self._momentum_is_fresh = False  # whoever gets it may write to it
        return self._memory.start.momentum

    def forget(self) -> None:
        """Set every client's momentum to 0, without touching memory that was never written."""
        momentum = self._memory.start.momentum
        if momentum is not None and not self._momentum_is_fresh:
            momentum.zero_()
        self._momentum_is_fresh = True

    @property
    def matrix(self) -> Float[Tensor, "K d"]:
        """The rows of all clients of a cohort, in memory that every process sees."""
        return self._memory.matrix

    @property
    def buffer_matrix(self) -> Float[Tensor, "K m"]:
        """The buffers of all clients of a cohort, likewise."""
        return self._memory.buffer_matrix

    def train(
        self, start_from: tuple[Float[Tensor, " d"], Float[Tensor, " m"]], cohort: Chunk, first_row: int = 0
    ) -> None:
        """Leave (x − x_r)/η and the buffers of every client in its row of the matrices.

        Args:
            start_from: the global model and its buffers.
            cohort: the clients, those of one kind adjacent.
            first_row: the row of the first of them.
        """
        self._momentum_is_fresh = False
        memory, last_row = self._memory, first_row + len(cohort)
        memory.clients[first_row:last_row] = cohort.clients
        memory.poisoned[first_row:last_row] = cohort.poisoned
        memory.start.model.copy_(start_from[0])
        memory.start.buffers.copy_(start_from[1])
        chunks = self._chunks(cohort.clients, cohort.poisoned)
        orders = deque(
            _ORDER.pack(cohort.round, cohort.lr, cohort.steps, first_row + first, first_row + last)
            for first, last in chunks
        )
        self.sampling_seconds = self._run_in_workers(orders) if self._workers else self._run_here(orders)

    def _chunks(self, clients: Indices, poisoned: NDArray[np.bool_] | None = None) -> Iterator[tuple[int, int]]:
        """Yield the first and last row of chunks of one kind each, small enough that every worker gets two.

        If company matters to the engine, they are the same for any number of workers, as the result must be.
        """
        size, number = self._engine.chunk_size, len(clients)
        if self._engine.company_matters:
            size = min(size, max(_COMPANY, -(-number // 4)))
        elif self._workers:
            size = max(1, min(size, -(-number // (2 * self._jobs))))
        kinds = self._engine.kinds(clients)
        if poisoned is not None and _training(self._engine) is not None:  # attackers take other steps than the others
            kinds = 2 * kinds + poisoned
        borders = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(clients)]
        for first, last in pairwise(borders):
            for start in range(first, last, size):
                yield start, min(start + size, last)

    def _run_here(self, orders: deque[bytes]) -> float:
        with one_torch_thread():
            try:
                return sum(_carry_out(order, self._engine, self._memory) for order in orders)
            except SteadfedError:
                raise
            except Exception as error:
                raise RunError(f"a client's local steps failed: {type(error).__name__}: {error}") from error

    def _run_in_workers(self, orders: deque[bytes]) -> float:
        """Let the workers do all chunks. After a failure none is left running: its reply might be taken for another."""
        try:
            return self._hand_out(orders)
        except BaseException:
            self.stop()
            raise

    def _hand_out(self, orders: deque[bytes]) -> float:
        """Hand out chunks, the next to whoever is done, until all are done."""
        busy: dict[Connection, _Worker] = {}
        for worker in self._workers:
            if orders:
                worker.send(orders.popleft())
                busy[worker.pipe] = worker
        seconds = dict.fromkeys(busy, 0.0)
        while busy:
            ready = wait(list(busy))
            for pipe in [each for each in busy if each in ready]:
                seconds[pipe] += busy[pipe].receive()
                if orders:
                    busy[pipe].send(orders.popleft())
                else:
                    del busy[pipe]
        return max(seconds.values(), default=0.0)


class _Memory:
    """The tensors that all processes see; in anonymous shared memory, which has no limit of its own as /dev/shm has."""

    def __init__(self, engine: Engine, cohort_size: int) -> None:
        layout = engine.task.layout
        some = next(engine.task.module.parameters())
        num_clients = engine.task.data.shares.num_clients

        def shared(*shape: int, dtype: torch.dtype = some.dtype) -> Tensor:
            return _shared(shape, dtype) if some.device.type == "cpu" else torch.zeros(shape, dtype=dtype)

        self.matrix = shared(cohort_size, layout.dim).to(some.device)
        self.buffer_matrix = shared(cohort_size, layout.buffer_dim).to(some.device)
        self.start = Start(
            shared(layout.dim).to(some.device),
            shared(layout.buffer_dim).to(some.device),
            shared(num_clients, layout.dim).to(some.device) if engine.task.local.momentum else None,
        )
        self.clients = _shared((cohort_size,), torch.int64).numpy()
        self.poisoned = _shared((cohort_size,), torch.bool).numpy()


class _Worker:
    """One process and the pipe to it."""

    def __init__(self) -> None:
        self._pipe: Connection | None = None
        self._process: ForkProcess | None = None

    @property
    def pipe(self) -> Connection:
        """The near end of the pipe."""
        if self._pipe is None:
            raise RunError("no worker process is running; enter the `with` block of the federation (again) first")
        return self._pipe

    def start(self, engine: Engine, memory: _Memory, near_ends: list[Connection]) -> None:
        """Fork, and add the near end of the pipe to those of the siblings, which the process does not keep open.

        The pipe is made only now: a sibling that was forked before must not hold its far end open.
        """
        self._pipe, far_end = multiprocessing.Pipe()
        near_ends.append(self._pipe)
        process = multiprocessing.get_context("fork").Process(
            target=_work, args=(far_end, near_ends, engine, memory), daemon=True
        )
        process.start()
        far_end.close()
        self._process = process

    def send(self, order: bytes) -> None:
        try:
            self.pipe.send_bytes(order)
        except OSError:
            raise self._death() from None

    def receive(self) -> float:
        try:
            reply = self.pipe.recv_bytes()
        except (EOFError, OSError):
            raise self._death() from None
        if len(reply) != _REPLY.size:
            raise RunError(f"a client's local steps failed: {reply.decode(errors='replace')}")
        return float(_REPLY.unpack(reply)[0])

    def stop(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._process = None

    def _death(self) -> RunError:
        code = None
        if self._process is not None:
            self._process.join(5.0)
            code = self._process.exitcode
        hint = " (killed, perhaps because memory ran out)" if code == -signal.SIGKILL else ""
        return RunError(f"a worker process ended with exit code {code}{hint}; fewer jobs need less memory")


def _work(pipe: Connection, near_ends: list[Connection], engine: Engine, memory: _Memory) -> None:
    """Carry out orders until the pipe closes, which it does when the parent ends, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    for other in near_ends:  # or this process would keep its own pipe and its siblings' open
        other.close()
    _close_files(pipe.fileno())
    torch.set_num_threads(1)
    while True:
        try:
            pipe.send_bytes(_reply(pipe.recv_bytes(), engine, memory))
        except (EOFError, OSError):
            os._exit(0)  # nobody is left to work for, and nothing of the parent's is to be cleaned up here


def _close_files(but: int) -> None:
    """Close all that the parent has open: a lock on a folder would outlive it while a worker is still at work."""
    os.closerange(3, but)
    os.closerange(max(3, but + 1), 2**16)


def _reply(order: bytes, engine: Engine, memory: _Memory) -> bytes:
    """Return what the parent is told about an order: seconds, or what went wrong."""
    try:
        return _REPLY.pack(_carry_out(order, engine, memory))
    except BaseException:  # noqa: BLE001  whatever a user's model raises is told to the parent
        return traceback.format_exc().encode(errors="backslashreplace")


def _carry_out(order: bytes, engine: Engine, memory: _Memory) -> float:
    """Take the steps of some rows; return how long drawing the batches took."""
    round_number, lr, steps, start, stop = _ORDER.unpack(order)
    rows = slice(start, stop)
    chunk = Chunk(round_number, lr, steps, memory.clients[rows].copy(), memory.poisoned[rows].copy())
    return take_steps(engine, chunk, memory.start, memory.matrix[rows], memory.buffer_matrix[rows])


@torch.no_grad()
def take_steps(
    engine: Engine, chunk: Chunk, start: Start, rows: Float[Tensor, "c d"], buffer_rows: Float[Tensor, "c m"]
) -> float:
    """Leave (x − x_r)/η of every client in its row (line 15 of Algorithm 1, with the sign that descends)."""
    before = engine.task.timer.seconds("batches")
    rows.copy_(start.model.expand_as(rows))
    buffer_rows.copy_(start.buffers.expand_as(buffer_rows))
    buffers = buffer_rows if buffer_rows.shape[1] else None
    places = torch.from_numpy(chunk.clients).to(rows.device)
    momentum = None if start.momentum is None else start.momentum[places]
    training = _training(engine) if chunk.poisoned.all() else None
    if training is None:
        with torch.enable_grad():
            engine.train(rows, chunk, momentum=momentum, buffers=buffers)
    else:
        adversarial_steps(engine, training, chunk, start.model, rows, momentum=momentum, buffers=buffers)
    if start.momentum is not None and momentum is not None:
        start.momentum[places] = momentum
    torch.sub(start.model, rows, out=rows).div_(chunk.lr)
    return engine.task.timer.seconds("batches") - before


def _training(engine: Engine) -> AdversarialTraining | None:
    """Return how clients train while they attack through their data, if they do and in another way than the others."""
    adversarial = engine.task.data.adversarial
    return None if adversarial is None else adversarial.training


def _shared(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return zeros in anonymous memory that forked processes share; pages are taken when they are first written."""
    number = int(np.prod(shape, dtype=np.int64))
    if number == 0:
        return torch.zeros(shape, dtype=dtype)
    try:
        pages = mmap.mmap(-1, number * dtype.itemsize)
    except (OSError, OverflowError) as error:
        size = " × ".join(map(str, shape))
        raise RunError(
            f"{number * dtype.itemsize:,} bytes of memory for {size} numbers cannot be had: {error}; clients × "
            f"parameters are kept for a cohort, and for all clients if they have momentum"
        ) from None
    return torch.frombuffer(pages, dtype=dtype, count=number).view(shape)
