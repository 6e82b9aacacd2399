"""A comparison: the cells of a grid in a folder, each played once, whatever ended the process before.

OUT/grid.toml         the grid that was compared last
OUT/cells/KEY/        a run per cell; with figures.json it is done
OUT/results.parquet   one row per point of the grid, replaced as a whole as cells are done
OUT/lock              held by the process that works in the folder
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import final

from steadfed._core.durable import sole_holder
from steadfed.errors import CorruptRunError
from steadfed.runs import config_to_toml
from steadfed.server._folder import RunFolder
from steadfed.sweeps._pool import Failure, Pool
from steadfed.sweeps._store import make_folder, sole_writer, write_file
from steadfed.sweeps.runs._cells import CellPlanner, ComparisonCell
from steadfed.sweeps.runs._figures import Figures, figures_of, read_figures
from steadfed.sweeps.runs._grid import ComparisonGrid
from steadfed.sweeps.runs._ranked_by import ranked_by
from steadfed.sweeps.runs._results import CellState, Result, outcome_of, read_results, result_before_play, write_results
from steadfed.sweeps.runs._task import CellTask, keep_files, play_cell, play_elsewhere, tidy

RESULTS, GRID, CELLS = "results.parquet", "grid.toml", "cells"
_PAUSE = 3.0
"""Seconds between two writings of the results, at least."""
_SHARE = 20.0
"""And so many times as long as the last one took."""
_PATIENCE = 20.0
"""Seconds to wait for the workers of a comparison that was killed to end."""


@final
@dataclass(frozen=True, kw_only=True)
class ComparisonProgress:
    """How far a comparison is."""

    finished: int
    """Cells that are done, those of earlier times among them."""
    failed: int
    refused: int
    left: int
    """Cells that are to be played now."""
    total: int
    """Different runs of the grid, refused ones included."""
    last: ComparisonCell | None = None
    """The cell that was done just now."""
    reason: str | None = None
    """Why it failed, if it did."""


@final
@dataclass
class Comparison:
    """A grid and the folder it is compared in.

    Raises:
        SteadfedError: the grid means nothing, or its data are missing.
    """

    grid: ComparisonGrid
    path: Path
    plan: CellPlanner = field(init=False)
    cells: list[ComparisonCell] = field(init=False)
    _figures: dict[str, Figures] = field(default_factory=dict)
    _failures: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Work out the cells, and look which are done: by their folders, or by the results where a folder is gone."""
        self.plan = CellPlanner(self.grid)
        self.cells = self.plan.cells()
        folders = {key: self._folder(key) for key in self.runs}
        lacking = not all(folder.exists() for folder in folders.values())
        noted = {each.key: each.figures for each in self._earlier_results()} if lacking else {}
        for key, folder in folders.items():
            figures = self._figures_in(folder) if folder.exists() else noted.get(key)
            if figures is not None:
                self._figures[key] = figures

    def _figures_in(self, folder: Path) -> Figures | None:
        """Return the figures of a cell; those of an older version, which knew accuracies alone, made anew if wanted."""
        figures = read_figures(folder)
        if figures is None or self.grid.metric is None or figures.metric_rounds:
            return figures
        try:
            return figures_of(RunFolder.open(folder).records())
        except CorruptRunError:
            return figures

    @cached_property
    def runs(self) -> dict[str, ComparisonCell]:
        """The different runs that can be played, by their keys, in the order of the grid."""
        runs: dict[str, ComparisonCell] = {}
        for cell in self.cells:
            if cell.refused is None:
                runs.setdefault(cell.key, cell)
        return runs

    def results(self) -> list[Result]:
        """Return what is known of every point of the grid, ranked by its metric."""
        known = (outcome_of(each, self._figures.get(each.key), self._failures.get(each.key)) for each in self._unplayed)
        return ranked_by(known, self.grid.metric)

    @cached_property
    def _unplayed(self) -> list[Result]:
        return [result_before_play(cell) for cell in self.cells]

    @cached_property
    def _num_refused(self) -> int:
        return len({cell.key for cell in self.cells if cell.refused is not None})

    def progress(self, left: int, last: ComparisonCell | None = None, reason: str | None = None) -> ComparisonProgress:
        """Return how far it is."""
        return ComparisonProgress(
            finished=len(self._figures),
            failed=len(self._failures),
            refused=self._num_refused,
            left=left,
            total=len(self.runs) + self._num_refused,
            last=last,
            reason=reason,
        )

    def play(
        self, pool: Pool, *, limit: int | None = None, seconds: float | None = None
    ) -> Iterator[ComparisonProgress]:
        """Play what is not done yet, and yield after every cell; whoever stops in between loses no finished cell.

        Args:
            pool: who plays.
            limit: play at most so many cells.
            seconds: begin no cell after so long.

        Raises:
            RunError: another process works in the folder, or it cannot be written.
        """
        end = None if seconds is None else time.monotonic() + seconds
        make_folder(self.path)
        with sole_writer(self.path / "lock", self.path):
            self._failures |= self._earlier_failures()
            left = [cell for key, cell in self.runs.items() if key not in self._figures]
            left = left if limit is None else left[:limit]
            self._prepare(left)
            yield self.progress(len(left))
            yield from self._play(pool, left, end)

    def _play(self, pool: Pool, left: list[ComparisonCell], end: float | None) -> Iterator[ComparisonProgress]:
        by_key = {cell.key: cell for cell in left}
        tasks = (self._task(cell) for cell in left if end is None or time.monotonic() < end)
        due = time.monotonic() + _PAUSE
        try:
            for number, (task, outcome) in enumerate(_outcomes(pool, tasks), 1):
                self._failures.pop(task.key, None)
                if isinstance(outcome, Failure):
                    self._failures[task.key] = outcome.reason
                else:
                    self._figures[task.key] = outcome
                if (now := time.monotonic()) > due:
                    self._write()
                    due = time.monotonic() + max(_PAUSE, _SHARE * (time.monotonic() - now))
                yield self.progress(len(left) - number, by_key[task.key], self._failures.get(task.key))
        finally:
            self._write()

    def _prepare(self, left: list[ComparisonCell]) -> None:
        """Make the folder ready: the grid in it, no worker of an earlier time left, nothing kept that is not needed."""
        make_folder(self.path / CELLS)
        write_file(self.path / GRID, self.grid.text.encode())
        for cell in left:
            _wait_for(self._folder(cell.key) / "lock")
        for key in self._figures:
            tidy(self._folder(key))
        self._write()

    def _earlier_failures(self) -> dict[str, str]:
        """Return why cells failed the last time, as long as they have not been played again."""
        known = self.runs
        return {
            each.key: each.reason or ""
            for each in self._earlier_results()
            if each.state is CellState.FAILED and each.key in known and each.key not in self._figures
        }

    def _earlier_results(self) -> list[Result]:
        """Return what the results said the last time; nothing if there are none."""
        try:
            return read_results(self.path / RESULTS)
        except CorruptRunError:
            return []

    def _task(self, cell: ComparisonCell) -> CellTask:
        return CellTask(
            key=cell.key,
            config=config_to_toml(cell.config),
            data_sha256=self.plan.dataset(cell.config.data).checksum,
            code=cell.code,
            folder=str(self._folder(cell.key)),
        )

    def _write(self) -> None:
        write_results(self.path / RESULTS, self.results())

    def _folder(self, key: str) -> Path:
        return self.path / CELLS / key


def _outcomes(pool: Pool, tasks: Iterable[CellTask]) -> Iterator[tuple[CellTask, Figures | Failure]]:
    """Yield what came of the cells, their files where they belong."""
    if pool.shares_disk:
        yield from pool.outcomes(play_cell, tasks)
        return
    for task, found in pool.outcomes(play_elsewhere, tasks):
        if isinstance(found, Failure):
            yield task, found
        else:
            outcome, files = found
            keep_files(Path(task.folder), files)
            yield task, outcome


def _wait_for(lock: Path) -> None:
    """Wait until nobody works in the folder of a cell: the workers of a driver that was killed end by themselves."""
    end = time.monotonic() + _PATIENCE
    while lock.exists() and time.monotonic() < end:
        try:
            with sole_holder(lock):
                return
        except BlockingIOError:
            time.sleep(0.05)
