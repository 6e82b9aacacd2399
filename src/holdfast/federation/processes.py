"""Processes that are told apart even if their numbers were given to others since.

A number alone says nothing: after a crash or a restart of the machine it may belong to anybody. A process is known by
its number and the time it was started, and those of a federation by a variable in their environment besides.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from holdfast.errors import RunError
from holdfast.federation.installed import MARKER

PROC = Path("/proc")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
POLL = 0.1
"""Seconds between two looks at what does not report by itself."""


@final
@dataclass(frozen=True)
class Process:
    """A process, known by its number and the time it was started."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process that has this number now; None if none has, or if it has ended and was not reaped."""
        started = _start_time(pid)
        return None if started is None else cls(pid, started)

    @property
    def is_running(self) -> bool:
        """Whether this very process runs."""
        return _start_time(self.pid) == self.started

    def send(self, number: signal.Signals) -> bool:
        """Send a signal, if it is still this process that has the number; return whether it was sent."""
        if not self.is_running:
            return False
        try:
            os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):  # it has just ended, or somebody else started it
            return False
        return True


def launch(command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that Ctrl-C does not reach it; what it prints goes to the log."""
    with log.open("ab") as target:
        return subprocess.Popen(  # noqa: S603  the commands are Flower's
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=target,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )


def printed(log: Path, start: int = 0) -> str:
    """Return what a log holds from some byte on, without colours; nothing if there is no log."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            return COLOUR.sub("", file.read().decode(errors="replace"))
    except OSError:
        return ""


def family(roots: Iterable[Process], marker: str) -> set[Process]:
    """Return the roots that run, all that descend from them, and all that carry the marker (or it and a slash)."""
    parents = _parents()
    found = {root.pid for root in roots if root.is_running}
    while True:
        children = {pid for pid, parent in parents.items() if parent in found} - found
        if not children:
            break
        found |= children
    found |= {pid for pid in parents if _carries(pid, marker)}
    found -= {os.getpid()}
    return {process for process in map(Process.of, found) if process is not None}


def end(
    roots: Sequence[Process], marker: str, *, patience: float = 8.0, reap: Callable[[], object] = lambda: None
) -> None:
    """Ask the roots to end; when they have, or patience is over, end by force what is left of their families.

    `reap` takes note of children that ended: what they started waits for their numbers to be free.

    Raises:
        RunError: something cannot be ended.
    """
    members = family(roots, marker)
    for root in roots:
        root.send(signal.SIGTERM)
    until(lambda: not _left(set(roots), reap), patience)
    for _ in range(10):  # a process that is being ended may have started another
        members = _left(members | family(roots, marker), reap)
        if not members:
            return
        for process in members:
            process.send(signal.SIGKILL)
        until(lambda: not _left(members, reap), 2.0)  # noqa: B023  called at once
    listed = ", ".join(str(process.pid) for process in sorted(_left(members, reap), key=lambda each: each.pid))
    if listed:
        raise RunError(f"cannot end the processes {listed} of the federation; end them as the user who started them")


def _left(processes: set[Process], reap: Callable[[], object]) -> set[Process]:
    reap()
    return {process for process in processes if process.is_running}


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds, at most so long; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def _start_time(pid: int) -> str | None:
    """Return when a process was started, in a form that no other process with this number ever has."""
    if not sys.platform.startswith("linux"):
        return _ps_start_time(pid)
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return f"{_boot()} {fields[19]}"


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, which may hold anything: state, parent, …, start (20th)."""
    try:
        return (PROC / str(pid) / "stat").read_text(encoding="latin-1").rpartition(")")[2].split()
    except OSError:
        return None


def _boot() -> str:
    """Return what tells this start of the machine from others."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _ps_start_time(pid: int) -> str | None:
    listed = _ps("-o", "stat=,lstart=", "-p", str(pid)).split(maxsplit=1)
    return listed[1].strip() if len(listed) == 2 and not listed[0].startswith("Z") else None


def _parents() -> dict[int, int]:
    """Return the parent of every process."""
    if sys.platform.startswith("linux"):
        stats = {int(each.name): _stat(int(each.name)) for each in PROC.iterdir() if each.name.isdigit()}
        return {pid: int(fields[1]) for pid, fields in stats.items() if fields is not None}
    pairs = (line.split() for line in _ps("-A", "-o", "pid=,ppid=").splitlines())
    return {int(pid): int(parent) for pid, parent in pairs}


def _carries(pid: int, marker: str) -> bool:
    """Return whether a process was started with the marker, where the system says so."""
    try:
        variables = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # somebody else's, gone, or no such folder
        return False
    pattern = re.compile(re.escape(f"{MARKER}={marker}".encode()) + rb"(/.*)?")
    return any(pattern.fullmatch(variable) for variable in variables)


def _ps(*arguments: str) -> str:
    return subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607


def argv(process: Process) -> str:
    """Return the command line of a process; empty if it is gone."""
    if sys.platform.startswith("linux"):
        try:
            return (PROC / str(process.pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    return _ps("-o", "args=", "-p", str(process.pid)).strip()
