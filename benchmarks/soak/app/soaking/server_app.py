"""A server that plays rounds until it is stopped, in a folder in which it goes on after whatever ended it."""

from __future__ import annotations

from typing import Any

from benchmarks.soak.numbers import LR, distance, initial
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from steadfed.flower import RageStrategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play the rounds."""
    settings: Any = context.run_config
    nodes = settings["num-nodes"]

    def look(_: int, arrays: ArrayRecord) -> MetricRecord:
        return MetricRecord({"distance": distance({name: each.numpy() for name, each in arrays.items()}, nodes - 1)})

    signed = {"signing_key": settings["signing-key"]} if settings["signing-key"] else {}
    RageStrategy(
        num_malicious_nodes=1,
        lr=LR,
        local_steps=1,
        batch_size="full",
        seed=settings["seed"],
        run_folder=settings["run-folder"],
        nodes=settings["nodes"],
        num_train_nodes=nodes,
        min_train_nodes=3,
        min_available_nodes=3,
        fraction_evaluate=0.0,
        wait_for_nodes=5.0,
        **signed,
    ).start(
        grid,
        ArrayRecord({name: Array(values) for name, values in initial().items()}),
        num_rounds=settings["rounds"],
        timeout=settings["timeout"],
        evaluate_fn=look,
    )
