"""Run the study, or what is missing of it, then write the figures and the tables of docs/theory/study.md.

``python -m benchmarks.theory`` appends every run to the records when it is done, so it can be stopped and started
again; ``--show`` only draws what is there. No times are measured.
"""

import argparse
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import RESULTS, console, describe, headline
from benchmarks.theory.document import write
from benchmarks.theory.grid import TAIL, Cell, cells

RECORDS = RESULTS / "theory.jsonl"


def run(cell: Cell) -> dict[str, Any]:
    """Run a cell and return its record; floors have eight digits."""
    torch.set_num_threads(1)
    distances = cell.case.distances()
    figure, value, attack, seed = cell.key
    found: dict[str, Any] = {"figure": figure, "value": value, "attack": attack, "seed": seed}
    found["floor"] = float(f"{distances[-TAIL:].mean():.8g}")
    if cell.curve:
        found["curve"] = [float(f"{distance:.6g}") for distance in distances]
    return found


def recorded(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records that are there; a line that was cut off counts as missing."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def runs(path: Path) -> list[dict[str, Any]]:
    """Return the records of runs."""
    return [each for each in recorded(path) if "figure" in each]


def fill(path: Path, jobs: int) -> None:
    """Run what is missing."""
    done = {(each["figure"], each["value"], each["attack"], each["seed"]) for each in runs(path)}
    missing = [cell for cell in cells() if cell.key not in done]
    out = console()
    with ProcessPoolExecutor(max_workers=jobs) as pool, path.open("a", encoding="utf-8") as records:
        if missing:
            records.write(json.dumps({"machine": headline(describe())}) + "\n")
        waiting = [pool.submit(run, cell) for cell in missing]
        for number, each in enumerate(as_completed(waiting), start=1):
            found = each.result()
            records.write(json.dumps(found) + "\n")
            records.flush()
            name = f"{found['figure']} {found['value']:g} {found['attack']} seed {found['seed']}"
            out.print(f"{number} of {len(missing)}: {name}: {found['floor']:.4g}")


def main() -> None:
    """Run what is missing and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="draw what is there, run nothing")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes that run")
    parser.add_argument("--records", type=Path, default=RECORDS, help="where the runs are kept")
    chosen = parser.parse_args()
    if not chosen.show:
        fill(chosen.records, chosen.jobs)
    machines = [each["machine"] for each in recorded(chosen.records) if "machine" in each]
    write(runs(chosen.records), machines)


if __name__ == "__main__":
    main()
