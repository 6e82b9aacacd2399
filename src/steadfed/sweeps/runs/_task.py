"""A cell in a worker: data loaded once, the run played to its end or from where it was."""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import final

from steadfed._core.durable import replace_file
from steadfed._linalg.threads import one_torch_thread
from steadfed.data import Dataset, DataSource
from steadfed.errors import CorruptRunError, DataError, RunError, SteadfedError
from steadfed.runs import Run, config_from_toml
from steadfed.runs._code import code_digests
from steadfed.runs._files import seal_config
from steadfed.runs._run import made_with
from steadfed.server._folder import RunFolder
from steadfed.simulation import RunConfig
from steadfed.sweeps._pool import Failure
from steadfed.sweeps.runs._figures import FIGURES, Figures, figures_of, write_figures

Files = dict[str, bytes]
"""The files of a folder by name."""


@final
@dataclass(frozen=True, kw_only=True)
class CellTask:
    """A cell as it is sent to a worker: plain text, so that any process on any machine can take it."""

    key: str
    config: str
    """The configuration as TOML."""
    data_sha256: str
    code: str
    """The source of the user's own rule and attack, hashed: see `code_digests`."""
    folder: str
    """Where the run lives on the machine of the driver."""


def play_cell(task: CellTask) -> Figures | Failure:
    """Play a cell in its folder, from its last checkpoint if there is one; whatever goes wrong is the cell's affair."""
    try:
        with one_torch_thread():
            return _play(task, Path(task.folder))
    except SteadfedError as error:
        return Failure(reason=str(error))
    except Exception as error:  # noqa: BLE001  code of the user's own may raise anything
        return Failure(reason=f"{type(error).__name__}: {error}")


def play_elsewhere(task: CellTask) -> tuple[Figures | Failure, Files]:
    """Play a cell in a folder of this machine that does not stay, and return its files with what came of it."""
    with tempfile.TemporaryDirectory(prefix="steadfed-cell-") as folder:
        here = replace(task, folder=f"{folder}/{task.key}")
        outcome = play_cell(here)
        if isinstance(outcome, Failure):
            return outcome, {}
        return outcome, {path.name: path.read_bytes() for path in Path(here.folder).iterdir() if path.name != "lock"}


def keep_files(folder: Path, files: Files) -> None:
    """Write the files of a cell that was played elsewhere, as a local worker would have done: the figures last."""
    if files:
        folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, key=lambda name: name == FIGURES):
        replace_file(folder / name, files[name])


def _play(task: CellTask, folder: Path) -> Figures:
    config = config_from_toml(task.config)
    dataset = _load(config.data)
    if dataset.checksum != task.data_sha256:
        raise DataError(
            f"the data have the SHA-256 {dataset.checksum[:12]}… here and {task.data_sha256[:12]}… where the "
            f"comparison was started; all machines need the same files"
        )
    if str(found := code_digests(config)) != task.code:
        raise RunError(
            f"the source of {', '.join(each.removeprefix('code of ') for each in found)} here is not that where the "
            f"comparison was started; all machines need the same files, and none may change while it runs"
        )
    run = _open(folder, config, dataset)
    deque(run.play(), maxlen=0)
    figures = figures_of(run.folder.records())
    write_figures(folder, figures)
    tidy(folder)
    return figures


def tidy(folder: Path) -> None:
    """Remove what a finished cell does not need any more."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _open(folder: Path, config: RunConfig, dataset: Dataset) -> Run:
    """Return the run in a folder; one that is damaged is begun anew, as it would come to the same."""
    if (folder / "config.toml").exists():
        try:
            return Run.resume(folder, dataset=dataset)
        except CorruptRunError:
            shutil.rmtree(folder)
    RunFolder.create(folder, seal_config(config, made_with(dataset, config)))
    return Run.resume(folder, dataset=dataset)


@lru_cache(maxsize=2)
def _load(source: DataSource) -> Dataset:
    """Return a data set, loaded once in a process."""
    return source.load()
