"""What is looked at while a federation is disturbed, and what must hold at the end."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from steadfed.server._checkpoint import numbers
from steadfed.server._history import RunHistory

ALLOWED_GROWTH, ALLOWED_BYTES = 0.10, 32 << 20
"""How much more memory than at its beginning a process may have at its end: a share, and bytes besides."""
FEWEST_SAMPLES = 20
"""Of a process whose growth is judged."""
POISONED = 1.5
"""Distance from the middle of what honest nodes want beyond which nobody honest goes; 1 as the farthest of them is."""
SETTLED = 12
"""Rounds that were not skipped after which a model that began far away is where honest nodes want it."""
DISTANCE = "metrics.server/distance"
"""The column of what the server app says of the model after each round."""


@dataclass
class Chain:
    """The rounds that were seen to be safe: each has a line and a checkpoint after it."""

    folder: Path
    safe: int = 0
    digest: str = hashlib.sha256().hexdigest()
    losses: list[str] = field(default_factory=list)
    """Every time that a safe round was gone or another one."""

    def look(self) -> None:
        """Compare what is there with what was there."""
        try:
            lines = (self.folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
            states = numbers(self.folder / "checkpoints")
        except FileNotFoundError:
            if self.safe:
                self.losses.append(f"after {self.safe} rounds the folder is gone")
            return
        whole = [line for line in lines if line.endswith(b"\n")]
        if len(whole) < self.safe or _digest(whole[: self.safe]) != self.digest:
            self.losses.append(f"of {self.safe} safe rounds {len(whole)} are there, or others")
        self.safe = max(self.safe, min(len(whole), max(states, default=0)))
        self.digest = _digest(whole[: self.safe])


def _digest(lines: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(lines)).hexdigest()


@dataclass
class Vitals:
    """Memory and open files of processes, sample by sample; a process that is started again is another one."""

    samples: dict[str, dict[int, list[tuple[int, int]]]] = field(default_factory=dict)

    def look(self, name: str, process: psutil.Process) -> None:
        """Take a sample."""
        try:
            sample = (process.memory_info().rss, process.num_fds())
        except psutil.Error:  # it has just ended
            return
        self.samples.setdefault(name, {}).setdefault(process.pid, []).append(sample)

    def report(self) -> dict[str, dict[str, Any]]:
        """Return memory and files at the start and the end of the longest life of each process."""
        found = {}
        for name, lives in self.samples.items():
            longest = max(lives.values(), key=len)
            first, last = _ends(longest)
            found[name] = {
                "lives": len(lives),
                "samples": len(longest),
                "memory_start": first[0],
                "memory_end": last[0],
                "memory_peak": max(rss for life in lives.values() for rss, _ in life),
                "files_start": first[1],
                "files_end": last[1],
            }
        return found

    def growths(self) -> list[str]:
        """Return every process life in which memory or open files grew beyond what is allowed."""
        found = []
        for name, lives in self.samples.items():
            for pid, life in lives.items():
                if len(life) < FEWEST_SAMPLES:
                    continue
                (memory, files), (memory_end, files_end) = _ends(life)
                if memory_end > memory * (1 + ALLOWED_GROWTH) + ALLOWED_BYTES:
                    found.append(f"{name} ({pid}) grew from {memory >> 20} to {memory_end >> 20} MB")
                if files_end > 2 * files + 20:
                    found.append(f"{name} ({pid}) had {files} open files, then {files_end}")
        return found


def _ends(life: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the medians of the second fifth, when everything is loaded, and of the last."""
    fifth = max(1, len(life) // 5)
    begin, end = life[fifth : 2 * fifth] or life, life[-fifth:]
    return (_medians(begin), _medians(end))


def _medians(part: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return int(statistics.median(rss for rss, _ in part)), int(statistics.median(files for _, files in part))


def rounds_of(folder: Path, hostile: str) -> dict[str, Any]:
    """Return what the records say: rounds, replies, how far the model was from where honest nodes want it."""
    history = RunHistory(folder)
    tally = history.tally
    distances = [float(each) for each in history[DISTANCE]] if DISTANCE in history.columns else []
    played = history.rounds_played - tally.skipped
    culprit = next((each for each in history.clients if str(each.client) == hostile), None)
    return {
        "rounds": history.rounds_played,
        "skipped": tally.skipped,
        "problems": list(history.problems),
        "replies_received": int(history.entries.received.sum()),
        "replies_asked": len(history.entries.received),
        "faults": history.rounds.fault_counts,
        "played": played,
        "distances": [round(each, 4) for each in distances],
        "distance_at_the_end": distances[-1] if distances else None,
        "poisoned_rounds": led_away(distances),
        "hostile_removed_rate": None if culprit is None else culprit.removed_rate,
    }


def led_away(distances: Sequence[float]) -> int:
    """Return how many rounds ended farther from what honest nodes want than they began, and than any of these is.

    Honest nodes lead the model nearer in every round, however many were skipped before: it begins far away.

    >>> led_away([30.5, 30.5, 15.2, 1.2, 0.4, 1.4, 7.0])
    1
    """
    return sum(not after <= max(before, POISONED) for before, after in pairwise(distances))


def broken(found: Mapping[str, Any]) -> list[str]:
    """Return what of all that must hold does not."""
    rounds, leaks = found["rounds"], found["leaks"]
    end = rounds["distance_at_the_end"]
    checks = {
        f"rounds that were written are lost: {found['losses']}": not found["losses"],
        f"the records cannot be read: {rounds['problems']}": not rounds["problems"],
        "no round was played": rounds["rounds"] > rounds["skipped"],
        f"{rounds['poisoned_rounds']} models were poisoned": not rounds["poisoned_rounds"],
        f"the last model is {end} away from what honest nodes want": rounds["played"] <= SETTLED
        or (end is not None and end <= POISONED),
        f"memory or files grow: {found['growths']}": not found["growths"],
        f"left behind: {leaks}": not any(leaks.values()),
        f"errors of the test itself: {found['errors']}": not found["errors"],
    }
    return [words for words, holds in checks.items() if not holds]
