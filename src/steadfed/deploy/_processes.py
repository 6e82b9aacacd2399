"""Processes that are told apart even if their numbers were given to others since.

A number alone says nothing: after a crash or a restart of the machine it may belong to anybody. A process is known by
its number and the time it was created, and those of a deployment by a variable in their environment besides.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from steadfed.deploy._environment import MARKER
from steadfed.errors import RunError

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
POLL = 0.1
"""Seconds between two looks at what does not report by itself."""
STARTING = 2.0
"""Seconds that a process may take from its first moment until its environment can be read; under load it waits."""
KERNEL = (0, 2)
"""What the kernel's own threads descend from, which have neither words nor an environment."""
CLOCK_STEP = 2.0
"""Times of creation are told by the clock of the machine, which is corrected now and then; a number that is given anew
so soon would have gone through all others."""


def find_process(pid: int, created: float) -> psutil.Process | None:
    """Return the process with this number if it was created then and runs; else None."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if abs(process.create_time() - created) <= CLOCK_STEP and is_alive(process):
            return process
    return None


def is_alive(process: psutil.Process) -> bool:
    """Return whether this very process runs; one that has ended does not, and is reaped if it is a child of this one.

    What a child started waits for its number to be free.
    """
    with suppress(psutil.NoSuchProcess):
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            return True
        with suppress(psutil.TimeoutExpired):
            process.wait(timeout=0)
    return False


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


def read_log(log: Path, start: int = 0) -> str:
    """Return what a log holds from some byte on, without colours; nothing if there is no log."""
    try:
        with log.open("rb") as file:
            file.seek(start)
            return COLOUR.sub("", file.read().decode(errors="replace"))
    except OSError:
        return ""


def process_tree(roots: Iterable[psutil.Process], marker: str) -> set[psutil.Process]:
    """Return the roots, all that descend from them, and all that carry the marker (or it and a slash), if they run."""
    found = {*roots, *_carrying(marker)}
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            found.update(root.children(recursive=True))
    return {process for process in found - {psutil.Process()} if is_alive(process)}


def end_process_tree(roots: Sequence[psutil.Process], marker: str, *, patience: float = 8.0) -> None:
    """Ask the roots to end; when they have, or patience is over, end by force what is left of their family.

    Raises:
        RunError: something cannot be ended.
    """
    members = process_tree(roots, marker)
    for root in roots:
        with suppress(psutil.Error):
            root.terminate()
    wait_until(lambda: not any(is_alive(root) for root in roots), patience)
    for _ in range(10):  # a process that is being ended may have started another
        members = {process for process in members | process_tree(roots, marker) if is_alive(process)}
        if not members:
            return
        kill_processes(members)
    listed = ", ".join(str(pid) for pid in sorted(process.pid for process in members if is_alive(process)))
    if listed:
        raise RunError(f"cannot end the processes {listed} of the federation; end them as the user who started them")


def kill_processes(processes: Iterable[psutil.Process], patience: float = 2.0) -> None:
    """End processes by force, and wait until they have."""
    for process in processes:
        with suppress(psutil.Error):  # it has just ended, or somebody else started it
            process.kill()
    wait_until(lambda: not any(is_alive(process) for process in processes), patience)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds, at most so long; return whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def _carrying(marker: str) -> Iterator[psutil.Process]:
    """Yield the processes that were started with the marker, where the system says so."""
    for pid in psutil.pids():
        with suppress(psutil.Error):  # somebody else's, or gone
            process = psutil.Process(pid)
            if f"{_environment(process).get(MARKER, '')}/".startswith(f"{marker}/"):
                yield process


def _environment(process: psutil.Process) -> dict[str, str]:
    """Return the environment of a process; one that is being started has none for a moment, as it has no words yet."""
    wait_until(lambda: bool(process.environ() or process.cmdline()) or process.ppid() in KERNEL, STARTING)
    return process.environ()
