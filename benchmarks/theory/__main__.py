"""Run the study, or what is missing of it, then write the figures and the tables of docs/theory/study.md.

``python -m benchmarks.theory`` appends every run to the records when it is done, so it can be stopped and started
again; ``--show`` only draws what is there. No times are measured.
"""

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from benchmarks.theory.document import write
from benchmarks.theory.grid import TAIL, Cell, cells
from benchmarks.theory.records import RECORDS, machines, runs, this_machine


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


def fill(path: Path, jobs: int) -> None:
    """Run what is missing."""
    done = {(each["figure"], each["value"], each["attack"], each["seed"]) for each in runs(path)}
    missing = [cell for cell in cells() if cell.key not in done]
    with ProcessPoolExecutor(max_workers=jobs) as pool, path.open("a", encoding="utf-8") as records:
        if missing:
            records.write(json.dumps({"machine": this_machine()}) + "\n")
        waiting = [pool.submit(run, cell) for cell in missing]
        for number, each in enumerate(as_completed(waiting), start=1):
            found = each.result()
            records.write(json.dumps(found) + "\n")
            records.flush()
            name = f"{found['figure']} {found['value']:g} {found['attack']} seed {found['seed']}"
            print(f"{number} of {len(missing)}: {name}: {found['floor']:.4g}", flush=True)


def main() -> None:
    """Run what is missing and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="draw what is there, run nothing")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes that run")
    parser.add_argument("--records", type=Path, default=RECORDS, help="where the runs are kept")
    chosen = parser.parse_args()
    if not chosen.show:
        fill(chosen.records, chosen.jobs)
    write(runs(chosen.records), machines(chosen.records))


if __name__ == "__main__":
    main()
