"""A run that computes nothing worth knowing, but whose every round depends on all before; and children to kill."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from steadfed._core.signatures import SigningKey
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord
from steadfed.server._snapshots import Snapshot

WATCHED = (
    *("server/_folder.py", "server/_checkpoint.py", "server/_snapshots.py", "server/_signatures.py"),
    *("server/_results.py", "steadfed/_core/durable.py"),
)
"""The files between whose lines a child is killed."""


def toy_record(number: int, weight: float = 1.0) -> RoundRecord:
    seconds = {"round": time.perf_counter()}
    clients = (number % 3, "second")
    return RoundRecord(
        round=number, step=number + 1, lr=0.1, cohort=clients, received=clients, weights=(weight, 0.0), seconds=seconds
    )


def toy_round(state: Checkpoint) -> tuple[RoundRecord, Checkpoint]:
    """Return the record of the next round and the state after it."""
    model = state.tensors["model"] * 0.75 + state.round
    memory = state.tensors["rule/sum of models"] + model.double().sum()
    after = Checkpoint(
        round=state.round + 1,
        tensors={"model": model, "rule/sum of models": memory},
        facts={"weights": [*state.facts["weights"], float(model[0])]},
    )
    return toy_record(state.round, float(model[0])), after


def write_round(
    folder: RunFolder, before: Checkpoint, record: RoundRecord, after: Checkpoint, key: SigningKey | None = None
) -> None:
    """Write down a round that was played."""
    keep_some(folder, before)
    folder.append(record, key)
    folder.save_checkpoint(after)


def keep_some(folder: RunFolder, state: Checkpoint) -> None:
    """Keep the model after every second round."""
    if state.round % 2 == 0:
        model = state.tensors["model"]
        folder.save_snapshot(Snapshot(round=state.round, model=model, buffers=model[:1]))


def go_on(folder: RunFolder, rounds: int, key: SigningKey | None = None) -> None:
    """Do what is left of the rounds, as after any interruption, and write the results."""
    with folder.locked():
        state = folder.latest_checkpoint()
        folder.rewind(state.round if state else 0)
        if state is None:
            tensors = {"model": torch.ones(3), "rule/sum of models": torch.zeros((), dtype=torch.float64)}
            state = Checkpoint(round=0, tensors=tensors, facts={"weights": []})
        while state.round < rounds:
            record, after = toy_round(state)
            write_round(folder, state, record, after, key)
            state = after
        keep_some(folder, state)
        folder.write_model({"layer.weight": state.tensors["model"]})
        folder.write_summary({"rounds": rounds, "loss": float("nan"), "seconds": time.perf_counter()})


def toy_run(path: Path, rounds: int) -> RunFolder:
    """Return the folder of a run that nothing interrupted."""
    folder = RunFolder.create(path, "name = 'toy'\n")
    go_on(folder, rounds)
    return folder


def in_child(work: Callable[[], Any]) -> tuple[int, str]:
    """Do the work in a forked process; return its exit code (negative if a signal ended it) and what it said."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # no thread matters to the child
        pid = os.fork()
    if not pid:
        code = 1
        torch.set_num_threads(1)  # threads of the parent's do not exist here, and a sum on two would wait for them
        try:
            os.write(writer, str(work()).encode())
            code = 0
        except BaseException:  # noqa: BLE001  a child must never come back into the test
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as file:
        said = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def kill_at_line(count: int, work: Callable[[], Any]) -> int:
    """Do the work in a child that gets kill -9 before the n-th line of the watched files; return its exit code."""
    left = count

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(WATCHED):
            return None
        if event == "line":
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return watch

    def traced() -> None:
        sys.settrace(watch)
        work()

    code, said = in_child(traced)
    assert code in {0, -signal.SIGKILL}, said
    return code
