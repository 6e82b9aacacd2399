"""Runs from their beginning, or from where they stopped, to their end in one call."""

from __future__ import annotations

import os
from collections import deque

from steadfed.data import Dataset
from steadfed.runs._run import Run
from steadfed.server import RunHistory, open_run
from steadfed.server._places import reserve_folder
from steadfed.simulation import RunConfig


def run(
    config: RunConfig, path: str | os.PathLike[str] | None = None, *, dataset: Dataset | None = None, jobs: int = 1
) -> RunHistory:
    """Carry out a configuration in a new folder, to its end; `Run.start(...).play()` does so round by round.

    >>> import tempfile
    >>> history = run(RunConfig(rounds=2), tempfile.mkdtemp())
    >>> history.summary["rounds"], history["round"].tolist()
    (2, [0.0, 1.0])

    Args:
        config: what to run.
        path: a folder that does not exist, or is empty; the first of runs/run-1, runs/run-2, … if left out.
        dataset: the data, if they are not to be loaded from `config.data`.
        jobs: how many worker processes take the clients' steps; the result does not depend on it.

    Returns:
        What the run has written, by rounds and clients; a notebook shows it as a table and a plot.

    Raises:
        SteadfedError: the configuration cannot run, or the run cannot go on; what is done is in the folder.
    """
    place = reserve_folder("run", otherwise="path") if path is None else path
    return _play_to_end(Run.start(config, place, dataset=dataset, jobs=jobs))


def resume(path: str | os.PathLike[str], *, dataset: Dataset | None = None, jobs: int = 1) -> RunHistory:
    """Continue the run in a folder to its end: the same results as if it had never stopped.

    Raises:
        SteadfedError: there is no run that can go on; the message says why.
    """
    return _play_to_end(Run.resume(path, dataset=dataset, jobs=jobs))


def _play_to_end(started: Run) -> RunHistory:
    deque(started.play(), maxlen=0)
    return open_run(started.folder.path)
