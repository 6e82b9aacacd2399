"""The runs below a folder: found again and again, named by what they are called below it.

Nothing outside the folder is looked at: links are not followed, neither those to folders nor those to the files of a
run, and what is no file is not opened. A run is asked for by its id, which is looked up among those that were found, so
no path ever comes from a visitor.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from steadfed._core.wording import harmless
from steadfed._ui.pacing import Paced
from steadfed.server._history import RunSummaries, RunSummary
from steadfed.server._history.files import CONFIG, LOCK, ROUNDS, SUMMARY

DEEPEST = 8
"""How far below the folder runs are looked for."""
MOST = 20_000
"""How many runs are found at most."""
_LETTERS = 120
_FILES = frozenset({CONFIG, ROUNDS, SUMMARY, LOCK, "model.safetensors"})
_FOLDERS = frozenset({"checkpoints", "snapshots"})
"""What a run writes; a link under one of these names, or a pipe, is no run of this folder."""


@final
@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run of the list."""

    id: str
    place: str
    """Its path below the folder."""
    summary: RunSummary

    def as_dict(self) -> dict[str, Any]:
        """Return what a page shows, as plain values; no letter in it acts."""
        summary = self.summary
        above, _, _ = self.place.rpartition("/")
        return {
            "id": self.id,
            "name": harmless(summary.name, limit=_LETTERS),
            "above": harmless(above, limit=_LETTERS),
            "state": summary.state.value,
            "played": summary.rounds_played,
            "planned": summary.rounds_planned,
            "accuracy": summary.last_accuracy,
            "best": summary.best_accuracy,
            "loss": summary.last_loss,
            "rule": harmless(summary.rule, limit=_LETTERS),
            "attack": harmless(summary.attack, limit=_LETTERS),
            "data": harmless(summary.data, limit=_LETTERS),
            "deployed": summary.deployed,
            "changed": summary.changed,
        }


@final
@dataclass(frozen=True, kw_only=True)
class Listing:
    """All runs at some moment."""

    entries: tuple[RunEntry, ...]
    version: str
    """Another if anything that the list shows is another."""


@final
class Catalogue:
    """The runs below a folder, which need not be there yet; scanned at most every `patience` seconds."""

    def __init__(self, folder: Path, *, patience: float = 1.0) -> None:
        self.folder = folder.resolve()
        self._summaries = RunSummaries()
        self._known: frozenset[Path] = frozenset()
        self._paths = Paced(self._scan, patience=patience)
        self._listing = Paced(self._look, patience=patience)

    def paths(self) -> dict[str, Path]:
        """Return the folder of every run by its id."""
        return self._paths.get()

    def path_of(self, run: str) -> Path | None:
        """Return the folder of a run; None if there is no such run (any more)."""
        path = self.paths().get(run)
        return path if path is not None and _is_run(path) else None

    def listing(self) -> Listing:
        """Return what there is to say of every run."""
        return self._listing.get()

    def place_of(self, path: Path) -> str:
        """Return the path of a run below the folder; its name if it is the folder."""
        return path.relative_to(self.folder).as_posix() if path != self.folder else path.name

    def _scan(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for path in _runs_below(self.folder, DEEPEST):
            if len(found) >= MOST:
                break
            found[id_of(self.place_of(path))] = path
        return found

    def _look(self) -> Listing:
        paths = self.paths()
        now = frozenset(paths.values())
        for gone in self._known - now:
            self._summaries.forget(gone)
        self._known = now
        entries = tuple(
            RunEntry(id=run, place=self.place_of(path), summary=self._summaries.summarize(path))
            for run, path in paths.items()
        )
        version = hashlib.sha256(repr(entries).encode(errors="replace")).hexdigest()[:16]
        return Listing(entries=entries, version=version)


def id_of(place: str) -> str:
    """Return the id of the run at a place: the same after every restart, and nothing that could be a path.

    >>> id_of("demo-1")
    '6b01c344dbe5827b'
    """
    return hashlib.sha256(place.encode(errors="surrogateescape")).hexdigest()[:16]


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folder if it is a run, or else the runs below it; what cannot be read holds none."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name == CONFIG for entry in entries):
        if _is_own(entries):
            yield folder
        return
    for entry in entries:
        if depth and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
            yield from _runs_below(Path(entry.path), depth - 1)


def _is_run(path: Path) -> bool:
    """Tell whether a folder still holds a run, of files and not of links."""
    try:
        with os.scandir(path) as scan:
            entries = list(scan)
    except OSError:
        return False
    return any(entry.name == CONFIG for entry in entries) and _is_own(entries)


def _is_own(entries: list[os.DirEntry[str]]) -> bool:
    """Tell whether the files of a run are files in its folder: no links to somewhere else, no pipes to wait at."""
    return all(entry.is_file(follow_symlinks=False) for entry in entries if entry.name in _FILES) and not any(
        entry.is_symlink() for entry in entries if entry.name in _FOLDERS
    )
