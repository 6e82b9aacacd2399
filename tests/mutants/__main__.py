"""`make mutants`: plays a fixed sample of mutants against the tests of their modules and counts who survives.

A mutant is made in a copy of the sources below the temporary folder, never in the working tree. What became of it is
appended to build/mutants.jsonl; whoever starts again goes on from there, and plays again what has changed since: a
mutant whose module or tests are no longer the same. To play everything anew, delete the file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.mutants.operators import Mutant, mutants, sample
from tests.mutants.playing import NOTHING, PASSED, USAGE, copies, pytest_arguments, run_tests
from tests.mutants.table import PER_MODULE, ROOT, TARGETS, Target, equivalents

RESULTS = ROOT / "build" / "mutants.jsonl"
ENOUGH = 0.95
"""The share of the mutants that differ from the original which the tests must kill."""


@dataclass(frozen=True)
class Task:
    """A mutant, whose it is, and what it is played with."""

    target: Target
    mutant: Mutant
    digest: str
    """Of the module and its tests."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What a result must agree with to count."""
        return self.target.module, self.mutant.name, self.digest


def tasks_of(target: Target, number: int) -> list[Task]:
    """Return the sampled mutants of a module."""
    source = (ROOT / target.path).read_text(encoding="utf-8")
    digest = hashlib.sha256(source.encode())
    for path in (ROOT / name for name in target.tests):
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return [Task(target, each, digest.hexdigest()[:16]) for each in sample(mutants(source), number)]


def play(task: Task, copy: Path, timeout: float) -> dict[str, Any]:
    """Return what becomes of a mutant."""
    path = copy / task.target.path
    original = path.read_text(encoding="utf-8")
    started = time.monotonic()
    try:
        path.write_text(task.mutant.source, encoding="utf-8")
        code, output = run_tests(copy, pytest_arguments([str(task.target.path)], task.target.tests), timeout)
    finally:
        path.write_text(original, encoding="utf-8")
    if code in {USAGE, NOTHING}:
        msg = f"pytest could not run the tests of {task.target.module}:\n{output}"
        raise RuntimeError(msg)
    module, name, digest = task.key
    outcome = "survived" if code == PASSED else "killed"
    how = "no end in time" if code is None else "\n".join(output.splitlines()[-2:])
    seconds = round(time.monotonic() - started, 1)
    return {"module": module, "mutant": name, "digest": digest, "outcome": outcome, "how": how, "seconds": seconds}


def time_original(modules: Iterable[str], tests: Sequence[str], copy: Path) -> float:
    """Return how long tests take without any mutant; raise if they do not pass."""
    started = time.monotonic()
    asked = pytest_arguments(modules, tests)
    code, output = run_tests(copy, asked, None)
    if code != PASSED:
        msg = f"without any mutant, {' '.join(asked)} must pass, got {code}:\n{output}"
        raise RuntimeError(msg)
    return time.monotonic() - started


def play_all(todo: list[Task], jobs: int) -> None:
    """Play mutants, `jobs` at a time, and write down what becomes of each."""
    RESULTS.parent.mkdir(exist_ok=True)
    with copies(jobs) as free, _threads(jobs) as pool, RESULTS.open("a", encoding="utf-8") as file:
        for tests, group in groupby(todo, key=lambda task: task.target.tests):
            tasks = list(group)
            copy = free.get()
            usual = time_original(dict.fromkeys(str(task.target.path) for task in tasks), tests, copy)
            free.put(copy)
            for task, row in zip(tasks, pool.map(partial(_play_in_turn, free, 30.0 + 3.0 * usual), tasks), strict=True):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
                place = f"{task.target.module}:{task.mutant.line}"
                print(f"{row['seconds']:6.1f} s  {row['outcome']:8}  {place}  {task.mutant.name}", flush=True)


@contextmanager
def _threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Offer threads that end after what they are at, whatever ends this."""
    pool = ThreadPoolExecutor(number)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _play_in_turn(free: SimpleQueue[Path], timeout: float, task: Task) -> dict[str, Any]:
    copy = free.get()
    try:
        return play(task, copy, timeout)
    finally:
        free.put(copy)


def outcomes(tasks: list[Task]) -> dict[Task, str]:
    """Return what became of the mutants that are known to be equivalent or were played before."""
    rows = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else ())
    known = {(row["module"], row["mutant"], row["digest"]): str(row["outcome"]) for row in rows}
    same = equivalents()
    found = {task: known[task.key] for task in tasks if task.key in known}
    return found | {task: "equivalent" for task in tasks if task.mutant.name in same.get(task.target.module, {})}


def report(found: dict[Task, str]) -> bool:
    """Print a table and the survivors; return whether enough mutants die."""
    counts: dict[str, Counter[str]] = {}
    for task, outcome in found.items():
        counts.setdefault(task.target.module, Counter())[outcome] += 1
    total = sum(counts.values(), Counter())
    print(f"\n{'module':36} {'mutants':>8} {'killed':>8} {'survived':>8} {'equivalent':>10}")
    for module, row in [*counts.items(), ("all", total)]:
        print(f"{module:36} {row.total():8} {row['killed']:8} {row['survived']:8} {row['equivalent']:10}")
    for task in (task for task, outcome in found.items() if outcome == "survived"):
        print(f"\n{task.target.module}:{task.mutant.line} survived\n    {task.mutant.name}")
    share = total["killed"] / max(1, total["killed"] + total["survived"])
    print(f"\n{100 * share:.1f} % of the mutants that are not equivalent die; at least {100 * ENOUGH:.0f} % must")
    return share >= ENOUGH


def main() -> int:
    """Play what is not known yet; return 0 if enough mutants die."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="play a fixed sample of mutants")
    parser.add_argument("--per-module", type=int, default=PER_MODULE, help=f"mutants of a module, else {PER_MODULE}")
    parser.add_argument("--only", default="", help="only modules whose path holds this")
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants are played at a time")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # or the copies would stay
    targets = [target for target in TARGETS if asked.only in target.module]
    tasks = [task for target in targets for task in tasks_of(target, asked.per_module)]
    found = outcomes(tasks)
    todo = [task for task in tasks if task not in found]
    print(f"{len(tasks)} mutants of {len(targets)} modules, {len(todo)} of them to be played")
    if todo:
        play_all(todo, asked.jobs)
    return 0 if report(outcomes(tasks)) else 1


if __name__ == "__main__":
    sys.exit(main())
