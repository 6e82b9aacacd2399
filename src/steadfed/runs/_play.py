"""Runs from their beginning, or from where they stopped, to their end in one call."""

from __future__ import annotations

import os
from collections import deque

from steadfed.data import Dataset
from steadfed.runs._run import Run
from steadfed.simulation import RunConfig


def run(config: RunConfig, path: str | os.PathLike[str], *, dataset: Dataset | None = None, jobs: int = 1) -> Run:
    """Carry out a configuration in a new folder, to its end; `Run.start(...).play()` does so round by round.

    >>> import tempfile
    >>> run(RunConfig(rounds=2), tempfile.mkdtemp()).folder.summary()["rounds"]
    2

    Args:
        config: what to run.
        path: a folder that does not exist, or is empty.
        dataset: the data, if they are not to be loaded from `config.data`.
        jobs: how many worker processes take the clients' steps; the result does not depend on it.

    Raises:
        SteadfedError: the configuration cannot run, or the run cannot go on; what is done is in the folder.
    """
    return _play_to_end(Run.start(config, path, dataset=dataset, jobs=jobs))


def resume(path: str | os.PathLike[str], *, dataset: Dataset | None = None, jobs: int = 1) -> Run:
    """Continue the run in a folder to its end: the same results as if it had never stopped.

    Raises:
        SteadfedError: there is no run that can go on; the message says why.
    """
    return _play_to_end(Run.resume(path, dataset=dataset, jobs=jobs))


def _play_to_end(started: Run) -> Run:
    deque(started.play(), maxlen=0)
    return started
