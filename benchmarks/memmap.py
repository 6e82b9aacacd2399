"""Filter a matrix of updates that lies on disk and is larger than the memory one would like to spend on it.

Run it with ``python -m benchmarks.memmap``. It writes K x d float32 numbers (300 x 10,000,000, 12 GB) to a temporary
file, drops the file from the page cache, filters it in a fresh process with ``Rage(byzantine_fraction=0.2)``, and
deletes it, whatever happens.

Two figures of memory are reported. RssAnon is what the process itself holds; it is sampled while the filter runs. VmHWM
is the peak of all resident memory and includes RssFile, the pages of the file that happen to be mapped: they are page
cache, which the system takes back when it needs it.

Data: standard normal honest rows; K/5 Byzantine rows, at random places, that lie 8 σ₀ away in one common random
direction, with 0.1 times standard normal noise. Every row has its own counter-based stream.
"""

import argparse
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks import machine
from steadfed._linalg.threads import num_workers
from steadfed.aggregators import Rage
from steadfed.extend import stream

SEED = 1
SHIFT, JITTER = 8.0, 0.1
BYZANTINE_FRACTION = 0.2
SPARE_BYTES = 1 << 30
"""Disk space that is left free."""
REMOVED_BELOW = 0.1
"""A client counts as removed if its weight is below this share of 1/K."""


def check_space(folder: Path, size: int) -> None:
    """Leave with a clear message if the file does not fit on the disk."""
    free = shutil.disk_usage(folder).free
    if free < size + SPARE_BYTES:
        sys.exit(
            f"{folder} has {free / 1e9:.1f} GB free, but the benchmark needs {(size + SPARE_BYTES) / 1e9:.1f} GB. "
            "Choose another folder with --dir, or a smaller matrix with --dim or --clients."
        )


def byzantine_clients(clients: int) -> NDArray[np.bool_]:
    """Return which clients are Byzantine: a fifth of them, at random places."""
    mask = np.zeros(clients, dtype=bool)
    mask[stream(SEED, "memmap", "places").permutation(clients)[: math.ceil(BYZANTINE_FRACTION * clients)]] = True
    return mask


def sigma0(honest: int, dim: int) -> float:
    """Return the spread of standard normal rows, √(d/n) + 1 for n rows and many columns."""
    return math.sqrt(dim / honest) + 1.0


def rows(byzantine: NDArray[np.bool_], dim: int) -> Iterator[NDArray[np.float32]]:
    """Yield the rows in order; a few are drawn side by side."""
    direction = stream(SEED, "memmap", "direction").standard_normal(dim, dtype=np.float32)
    direction *= np.float32(SHIFT * sigma0(int((~byzantine).sum()), dim) / np.linalg.norm(direction))

    def row(client: int) -> NDArray[np.float32]:
        noise = stream(SEED, "memmap", client).standard_normal(dim, dtype=np.float32)
        return direction + np.float32(JITTER) * noise if byzantine[client] else noise

    workers = num_workers()
    with ThreadPoolExecutor(workers) as executor:
        for start in range(0, len(byzantine), workers):
            yield from executor.map(row, range(start, min(start + workers, len(byzantine))))


def write(path: Path, byzantine: NDArray[np.bool_], dim: int) -> NDArray[np.float64]:
    """Write the matrix to ``path`` row by row, drop it from the page cache, and return the mean of the honest rows."""
    total = np.zeros(dim)
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(byzantine), dim)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for client, row in enumerate(rows(byzantine, dim)):
            row.tofile(file)
            if not byzantine[client]:
                total += row
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return np.asarray(total / (~byzantine).sum())


def filter_file(path: Path) -> dict[str, Any]:
    """Filter the file and return what it took; called in a fresh process."""
    rule = Rage(byzantine_fraction=BYZANTINE_FRACTION)
    rule(stream(SEED, "memmap", "first call").standard_normal((10, 1000), dtype=np.float32))
    updates = np.load(path, mmap_mode="r")
    machine.reset_peak_memory()
    with machine.PeakOf("RssAnon") as anonymous:
        start = time.perf_counter()
        result = rule(updates)
        seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "anonymous_before_bytes": anonymous.start,
        "anonymous_peak_bytes": anonymous.peak,
        "resident_peak_bytes": machine.memory_bytes("VmHWM"),
        "weights": result.weights.numpy(),
        "update": result.update.numpy(),
        "stop": str(result.stop),
        "num_steps": result.num_steps,
    }


def measure(folder: Path, clients: int, dim: int) -> dict[str, Any]:
    """Write, filter and delete the file, and return the figures."""
    byzantine = byzantine_clients(clients)
    size = 4 * clients * dim
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="steadfed-memmap-", dir=folder) as temporary:
        path = Path(temporary) / "updates.npy"
        honest_mean = write(path, byzantine, dim)
        seconds_to_write = time.perf_counter() - start
        found = machine.in_fresh_process(filter_file, path)
    gone = found.pop("weights") < REMOVED_BELOW / clients
    unit = sigma0(int((~byzantine).sum()), dim) * math.sqrt(byzantine.mean())
    return found | {
        "clients": clients,
        "dim": dim,
        "file_bytes": size,
        "seconds_to_write": seconds_to_write,
        "gigabytes_per_second": size / 1e9 / found["seconds"],
        "num_byzantine": int(byzantine.sum()),
        "byzantine_removed": int((gone & byzantine).sum()),
        "honest_removed": int((gone & ~byzantine).sum()),
        "error": float(np.linalg.norm(found.pop("update") - honest_mean)) / unit,
    }


def report(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    table = Table(title=f"Rage auto on {found['clients']} x {found['dim']:,} float32 on disk", show_header=False)
    own = found["anonymous_peak_bytes"] - found["anonymous_before_bytes"]
    for name, value in (
        ("file", f"{found['file_bytes'] / 1e9:.2f} GB, written in {found['seconds_to_write']:.0f} s"),
        ("time of the filter", f"{found['seconds']:.2f} s"),
        (
            "file size / time",
            f"{found['gigabytes_per_second']:.2f} GB/s (read once for the Gram matrix, kept rows once more)",
        ),
        ("peak RssAnon", f"{found['anonymous_peak_bytes'] / 1e6:.0f} MB"),
        ("  above the start", f"{own / 1e6:.0f} MB, {100 * own / found['file_bytes']:.2f} % of the file"),
        ("peak VmHWM", f"{found['resident_peak_bytes'] / 1e6:.0f} MB, mapped page cache included"),
        ("Byzantine removed", f"{found['byzantine_removed']} of {found['num_byzantine']}"),
        ("honest removed", f"{found['honest_removed']} of {found['clients'] - found['num_byzantine']}"),
        ("error", f"{found['error']:.3f} σ₀√ε"),
        ("stop", found["stop"]),
    ):
        table.add_row(name, value)
    return table


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memmap", description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="folder of the temporary file")
    parser.add_argument("--clients", type=int, default=300, help="rows (default 300)")
    parser.add_argument("--dim", type=int, default=10**7, help="columns (default 10,000,000)")
    options = parser.parse_args()
    if not machine.can_measure_memory():
        sys.exit("This benchmark reads /proc/self/status and resets /proc/self/clear_refs: it needs Linux.")
    if options.clients < 5 or options.dim < 1:
        parser.error(f"need at least 5 clients and 1 column, got {options.clients} and {options.dim}")
    check_space(options.dir, 4 * options.clients * options.dim)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Ended by a signal; the temporary file is deleted."))
    out, about = machine.console(), machine.describe()
    out.print(machine.headline(about), "\n")
    found = measure(options.dir, options.clients, options.dim)
    out.print(report(found))
    out.print(f"Stored in {machine.store('memmap', {'machine': about, 'data': __doc__, 'measured': found})}.")


if __name__ == "__main__":
    main()
