"""A cell in a worker: data loaded once, the run played to its end or from where it was."""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import final

import torch

from holdfast.comparison.cells import data_toml
from holdfast.comparison.figures import Figures, figures_of, write_figures
from holdfast.data import DATASETS, Dataset
from holdfast.errors import CorruptRunError, DataError, HoldfastError
from holdfast.runs import Run, config_from_toml
from holdfast.runs.files import sealed
from holdfast.runs.run import made_with
from holdfast.server.folder import RunFolder
from holdfast.simulation import RunConfig
from holdfast.workers import end_with_parent

Files = dict[str, bytes]
"""The files of a folder by name."""


@final
@dataclass(frozen=True, kw_only=True)
class Task:
    """A cell as it is sent to a worker: plain text, so that any process on any machine can take it."""

    key: str
    config: str
    """The configuration as TOML."""
    data_sha256: str
    folder: str
    """Where the run lives on the machine of the driver."""


@final
@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a cell has no figures."""

    reason: str


Outcome = Figures | Failure


def begin() -> None:
    """Prepare a worker process: it ends with its parent, and computes in one thread."""
    end_with_parent()
    torch.set_num_threads(1)


def play_cell(task: Task) -> Outcome:
    """Play a cell in its folder, from its last checkpoint if there is one; whatever goes wrong is the cell's affair."""
    try:
        return _played(task, Path(task.folder))
    except HoldfastError as error:
        return Failure(reason=str(error))
    except Exception as error:  # noqa: BLE001  code of the user's own may raise anything
        return Failure(reason=f"{type(error).__name__}: {error}")


def play_elsewhere(task: Task) -> tuple[Outcome, Files]:
    """Play a cell in a folder of this machine that does not stay, and return its files with what came of it."""
    with tempfile.TemporaryDirectory(prefix="holdfast-cell-") as folder:
        here = Task(key=task.key, config=task.config, data_sha256=task.data_sha256, folder=f"{folder}/{task.key}")
        outcome = play_cell(here)
        if isinstance(outcome, Failure):
            return outcome, {}
        return outcome, {path.name: path.read_bytes() for path in Path(here.folder).iterdir() if path.name != "lock"}


def _played(task: Task, folder: Path) -> Figures:
    config = config_from_toml(task.config)
    dataset = _dataset(data_toml(config.data))
    if dataset.checksum != task.data_sha256:
        raise DataError(
            f"the data have the SHA-256 {dataset.checksum[:12]}… here and {task.data_sha256[:12]}… where the "
            f"comparison was started; all machines need the same files"
        )
    run = _opened(folder, config, dataset)
    deque(run.play(), maxlen=0)
    figures = figures_of(run.folder.records())
    write_figures(folder, figures)
    tidy(folder)
    return figures


def tidy(folder: Path) -> None:
    """Remove what a finished cell does not need any more."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _opened(folder: Path, config: RunConfig, dataset: Dataset) -> Run:
    """Return the run in a folder; one that is damaged is begun anew, as it would come to the same."""
    if (folder / "config.toml").exists():
        try:
            return Run.resume(folder, dataset=dataset)
        except CorruptRunError:
            shutil.rmtree(folder)
    RunFolder.create(folder, sealed(config, made_with(dataset)))
    return Run.resume(folder, dataset=dataset)


@lru_cache(maxsize=2)
def _dataset(source: str) -> Dataset:
    """Return a data set, loaded once in a process."""
    return DATASETS.from_table(tomllib.loads(source)).load()
