"""The same on a real federation: a SuperLink and four SuperNodes on loopback, TLS and node authentication on.

One Flower run plays one round for each bad reply. The last of the four nodes is Byzantine, as the server says, the
others train; every round starts from the same model. What the SuperLink hands out is read twice, so that all
strategies see the same replies: by Flower's own grid, then FedAvg, Krum and FedMedian aggregate them with its reply at
each position; and by steadfed's receiving, as `RageStrategy` does. The records are appended round by round: a benchmark
that was stopped goes on where it was.

``python -m benchmarks.flower.deployed``; ``--fresh`` begins anew.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.flower.bad_client import HONEST, SILENT, UNFOLDING, rows
from benchmarks.flower.rounds import MALICIOUS, NODES, STRATEGIES
from benchmarks.flower.strategies import RAGE
from benchmarks.flower.tables import (
    Table,
    append,
    cells_table,
    counts_table,
    definitions,
    entries,
    markdown,
    plain,
    row_of,
)
from benchmarks.flower.verdicts import Judgement, Verdict
from steadfed.deploy import LocalDeployment

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"
RECORDS = machine.RESULTS / "flower-deployed.jsonl"
LONGEST = 3600.0


def recorded() -> dict[str, dict[str, Any]]:
    """Return the findings so far by reply."""
    return {entry["reply"]: entry for entry in entries(RECORDS)}


def complete() -> list[str]:
    """Return the replies that every strategy has seen."""
    return [name for name, entry in recorded().items() if set(entry["verdicts"]) == set(STRATEGIES)]


def fill(replies: Sequence[str]) -> None:
    """Bring a federation up, play the rounds, and take it down whatever happens."""
    os.environ["PYTHONPATH"] = str(ROOT)  # the server's part is this benchmark
    where = tempfile.TemporaryDirectory(prefix="steadfed-benchmark-")
    with where as folder, LocalDeployment.up(folder, nodes=NODES) as up:
        settings = {"records": str(RECORDS), "replies": ",".join(replies), "byzantine": str(up.nodes[-1].node_id)}
        run = up.submit(APP, settings)
        done = [*complete()]

        def say_what_is_new() -> None:
            for name in complete()[len(done) :]:
                done.append(name)
                print(f"{len(done)}: {name}", flush=True)

        status = run.wait(LONGEST, look=say_what_is_new)
        if not status.completed:
            given_up(f"{status.status} {status.details}", run.output())


def given_up(why: str, printed: str) -> None:
    """Write down that Flower's reading of a reply was the end of the run; whatever else ended it is an error here."""
    halves = [entry for name, entry in recorded().items() if name not in complete()]
    if not halves:
        print(printed)
        raise SystemExit(f"the run ended: {why}")
    entry = halves[-1]
    ends = plain(Judgement(Verdict.ENDS, detail=f"the ServerApp dies in the grid: {why}"))
    entry["verdicts"] |= {name: [ends] * NODES for name in STRATEGIES if name != RAGE}
    append(RECORDS, entry)


def document(found: dict[str, dict[str, Any]]) -> str:
    """Return the tables with what one needs to read them."""
    table: Table = {reply: row_of(found[reply]["verdicts"]) for reply in rows() if reply in complete()}
    bad = {reply: row for reply, row in table.items() if reply != HONEST}
    drops = [[reply, "; ".join(found[reply]["drops"]).replace("|", "\\|")] for reply in bad if found[reply]["drops"]]
    return "\n\n".join(
        [
            "# What one bad node of four does, on a real federation",
            (__doc__ or "").split("\n\n")[1].strip(),
            (
                f"Written by `make bench-flower`; {machine.versions(('flwr', 'numpy', 'torch'))}. "
                f"{NODES} nodes, {MALICIOUS} bad, which Krum and RageStrategy are told. "
                '"in the grid": Flower\'s own receiving raises, before any strategy sees a reply.'
            ),
            definitions(),
            f"## How many of {len(bad)} bad replies end how, at the worst position",
            counts_table(bad, STRATEGIES),
            "## Reply by reply",
            cells_table(table, rows(), STRATEGIES),
            "## What steadfed wrote down about the replies it did not use",
            markdown(["reply", "reason"], drops),
        ]
    )


def main() -> None:
    """Play what is missing, and write the document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flower.deployed", description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="forget the records")
    parser.add_argument("--only", nargs="*", default=(), help="some replies")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Ended by a signal; the federation is taken down."))
    if options.fresh:
        RECORDS.unlink(missing_ok=True)
    wanted = sorted((name for name in options.only or rows() if name != SILENT), key=UNFOLDING.__contains__)
    while missing := [name for name in wanted if name not in complete()]:
        fill(missing)
    path = RECORDS.with_suffix(".md")
    path.write_text(document(recorded()) + "\n", encoding="utf-8")
    print(f"Written to {path}.")


if __name__ == "__main__":
    main()
