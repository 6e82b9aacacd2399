"""What every benchmark needs to know of the machine it runs on: its parts, its memory, and where results are kept.

A time means nothing without the machine, the versions and the commit it was measured with, so each stored result
carries them. Memory is read from ``/proc/self/status``, which exists on Linux only.
"""

import importlib.metadata
import json
import multiprocessing
import os
import platform
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np
import psutil
import torch
from rich.console import Console
from threadpoolctl import threadpool_info
from torch import Tensor

from steadfed.extend import stream

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("steadfed", "torch", "numpy", "scipy", "flwr", "byzfl", "torchjd")
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
WIDTH_WITHOUT_TERMINAL = 140

CUBE = 2048
PRODUCTS = (f"torch {CUBE}³ product", f"numpy {CUBE}³ product")
PRODUCT_OPERATIONS = 2 * CUBE**3
READ_PASS = "torch ones @ X"
BUSY = 0.05
"""Times are not to be trusted if other processes use more than this share of the machine."""
FEWER_ROUNDS = ((20.0, 1), (2.0, 3))
"""What takes longer than so many seconds runs in so many rounds only."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def describe() -> dict[str, Any]:
    """Return the machine, the versions and the commit, ready for JSON."""
    load = os.getloadavg() if hasattr(os, "getloadavg") else None
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": load,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in PACKAGES},
        "torch_threads": torch.get_num_threads(),
        "torch_build": torch.__config__.show(),
        "thread_pools": [
            {key: pool.get(key) for key in ("user_api", "internal_api", "version", "num_threads", "architecture")}
            for pool in threadpool_info()
        ],
        "commit": _commit(),
    }


def headline(machine: dict[str, Any]) -> str:
    """Return one line that names the machine, the versions, the commit and how busy the machine was at the start."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    load = machine["load_average"]
    busy = f", load {load[0]:.2f} at the start" if load else ""
    return (
        f"{machine['cpu']} ({machine['instructions']}), {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 1e9:.0f} GB{busy}; Python {machine['python']}, {versions}; "
        f"commit {machine['commit']}"
    )


def console() -> Console:
    """Return where a benchmark prints: as wide as the terminal, and wide enough for the tables without one."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH_WITHOUT_TERMINAL)


def versions(packages: Sequence[str] = PACKAGES) -> str:
    """Return one line that names the packages that are installed, with their versions."""
    return ", ".join(f"{name} {version}" for name in packages if (version := _version(name)))


def store(name: str, payload: dict[str, Any]) -> Path:
    """Write ``payload`` to ``results/<name>-<date and time>.json`` and return the path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{datetime.now(UTC):%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(payload, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def yardsticks() -> dict[str, Callable[[Tensor], object]]:
    """Return calls that measure the machine: the rate of its products and of reading its memory."""
    left, right = torch.from_numpy(stream(0, "yardstick").standard_normal((2, CUBE, CUBE), dtype=np.float32))
    return {
        "torch X @ X.T": lambda updates: updates @ updates.T,
        READ_PASS: lambda updates: torch.ones(len(updates)) @ updates,
        PRODUCTS[0]: lambda _: left @ right,
        PRODUCTS[1]: lambda _: left.numpy() @ right.numpy(),
    }


def interleaved(
    calls: Mapping[str, Callable[[], object]], num_rounds: int, look: Callable[[str, object], None]
) -> list[dict[str, float]]:
    """Return, round by round, the seconds of every call; ``look`` sees each result outside the measured time.

    The order rotates from round to round, so that load which comes and goes hits all alike.
    """
    return interleaved_by_clock(calls, num_rounds, look)["wall"]


def interleaved_by_clock(
    calls: Mapping[str, Callable[[], object]], num_rounds: int, look: Callable[[str, object], None]
) -> dict[str, list[dict[str, float]]]:
    """Return the same by the wall's clock ("wall") and by the processor's, over all threads ("CPU")."""
    allowed = dict.fromkeys(calls, num_rounds)
    rounds: dict[str, list[dict[str, float]]] = {"wall": [], "CPU": []}
    for number in range(num_rounds):
        names = [name for name in calls if allowed[name] > number]
        if not names:
            break  # every call is so slow that fewer rounds are enough
        turn = number % len(names)
        times: dict[str, float] = {}
        worked: dict[str, float] = {}
        for name in names[turn:] + names[:turn]:
            start, begun = time.perf_counter(), time.process_time()
            result = calls[name]()
            times[name], worked[name] = time.perf_counter() - start, time.process_time() - begun
            allowed[name] = min([allowed[name], *(few for above, few in FEWER_ROUNDS if times[name] > above)])
            look(name, result)
            del result
        rounds["wall"].append(times)
        rounds["CPU"].append(worked)
    return rounds


def times_of(rounds: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """Return the times of a call in the rounds that have it."""
    return [times[name] for times in rounds if name in times]


def ratios_of(rounds: Sequence[Mapping[str, float]], over: str, under: str) -> list[float]:
    """Return the ratio of two times in every round that has both."""
    return [times[over] / times[under] for times in rounds if over in times and under in times]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return p of the fitted law seconds ~ size^p: the slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def in_fresh_process(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Return ``function(...)``, called in a new Python process that has done nothing before.

    Raises what the function raises, and ``BrokenProcessPool`` if the process was killed, say for want of memory.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as executor:
        return executor.submit(function, *args, **kwargs).result()


def can_measure_memory() -> bool:
    """Tell whether this system lets a process read and reset the peak of its own memory."""
    return STATUS.exists() and CLEAR_REFS.exists()


def memory_bytes(field: str) -> int:
    """Return one field of ``/proc/self/status``: VmRSS, VmHWM (the peak of it), RssAnon or RssFile."""
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(f"{STATUS} has no field {field!r}.")


def reset_peak_memory() -> None:
    """Set VmHWM back to the memory that is resident now."""
    CLEAR_REFS.write_text("5", encoding="ascii")


def peak_of_call(call: Callable[[], object]) -> int:
    """Return the peak of resident memory while ``call`` runs, above what is resident before."""
    before = memory_bytes("VmRSS")
    reset_peak_memory()
    call()
    return max(0, memory_bytes("VmHWM") - before)


class Neighbours:
    """Measure, while inside the context, which share of the machine's cores is used by others than this process."""

    share = 0.0

    def __enter__(self) -> Self:
        """Look at the clocks."""
        self._start = time.perf_counter(), _seconds_of_others()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Look at the clocks again."""
        available = (time.perf_counter() - self._start[0]) * (psutil.cpu_count() or 1)
        self.share = max(0.0, (_seconds_of_others() - self._start[1]) / available)


class PeakOf:
    """Sample one field of ``/proc/self/status`` in a thread while inside the context, and keep the largest value."""

    def __init__(self, field: str, interval: float = 0.005) -> None:
        self.field = field
        self.interval = interval
        self.peak = self.start = 0
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        while not self._leave.wait(self.interval):
            self.peak = max(self.peak, memory_bytes(self.field))

    def __enter__(self) -> Self:
        """Read the field once and begin to sample."""
        self.peak = self.start = memory_bytes(self.field)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read the field a last time and end the thread."""
        self._leave.set()
        self._thread.join()
        self.peak = max(self.peak, memory_bytes(self.field))


def _seconds_of_others() -> float:
    """Return the processor time used since the start of the system, idle time and this process left out."""
    idle = ("idle", "iowait", "guest", "guest_nice")  # guests are counted as users already
    used = sum(seconds for name, seconds in psutil.cpu_times()._asdict().items() if name not in idle)
    return float(used) - time.process_time()


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """Return the commit of this checkout, with "+changes" if the library itself differs from it."""
    folder = Path(__file__).parent
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", "../src", "../pyproject.toml")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}+changes" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
