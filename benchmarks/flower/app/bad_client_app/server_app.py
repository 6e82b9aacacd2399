"""The server: what it does is in the benchmark itself, which is found on the PYTHONPATH."""

from __future__ import annotations

from pathlib import Path

from benchmarks.flower.rounds import Rounds
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play one round for each bad reply."""
    replies = str(context.run_config["replies"]).split(",")
    records, byzantine = Path(str(context.run_config["records"])), int(str(context.run_config["byzantine"]))
    Rounds(grid, records, byzantine).play(replies)
