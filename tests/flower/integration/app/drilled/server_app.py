"""A server that believes nobody, keeps the model of every round, and can be told to wait between two rounds."""

from __future__ import annotations

import json
import resource
import secrets
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message
from flwr.serverapp import Grid, ServerApp

from steadfed.flower import RageStrategy
from steadfed.flower._replies import matcher

from .digits import model, twin
from .numbers import LOCAL_STEPS, LR, initial

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play the rounds."""
    settings: Any = context.run_config
    folder, rounds = Path(settings["folder"]), settings["rounds"]

    def look(server_round: int, arrays: ArrayRecord) -> None:
        kept: dict[str, Any] = {name: array.numpy() for name, array in arrays.items()}
        np.savez(folder / f"after-{server_round}.npz", **kept)
        if server_round and server_round == settings["hold-after"]:
            while not (folder / "released").exists():
                time.sleep(0.2)

    if settings["foreseeable"]:
        draw_no_secrets()
    common = {"liar": settings["liar"], "wait-in": settings["wait-in"]}
    strategy = RageStrategy(num_malicious_nodes=1, num_train_nodes=4, **_terms(settings))
    result = strategy.start(
        grid,
        ArrayRecord({name: Array(values) for name, values in initial().items()})
        if settings["task"] == "numbers"
        else ArrayRecord(model(twin(rounds)).state_dict()),
        num_rounds=rounds,
        timeout=settings["timeout"],
        train_config=ConfigRecord({**common, "drills": settings["drills"]}),
        evaluate_config=ConfigRecord({**common, "drills": settings["evaluate-drills"]}),
        evaluate_fn=look,
    )
    report = {
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "evaluated": {str(number): dict(each) for number, each in result.evaluate_metrics_clientapp.items()},
    }
    (folder / "server.json").write_text(json.dumps(report), encoding="utf-8")


def draw_no_secrets() -> None:
    """Let every first try to send messages hold zeros for a secret, so that a node can foresee them."""
    write_again, drawn = RageStrategy.write_again, secrets.token_hex
    drawing: list[bool] = []

    def with_secrets(strategy: RageStrategy) -> list[Message]:
        drawing.append(True)
        try:
            return write_again(strategy)
        finally:
            drawing.clear()

    vars(matcher)["secrets"] = SimpleNamespace(token_hex=lambda size: drawn(size) if drawing else "00" * size)
    setattr(RageStrategy, "write_again", with_secrets)  # noqa: B010  a method, for mypy


def _terms(settings: Any) -> dict[str, Any]:
    """Return what the strategy is told besides whom to distrust."""
    common = {
        "run_folder": settings["run-folder"],
        "nodes": settings["nodes"],
        "signing_key": None if settings["foreseeable"] else settings["signing-key"],
        "fraction_evaluate": 1.0 if settings["evaluate"] else 0.0,
        "wait_for_nodes": settings["wait-for-nodes"],
    }
    if settings["task"] == "numbers":
        return {**common, "lr": LR, "local_steps": LOCAL_STEPS, "batch_size": "full"}
    described = twin(settings["rounds"])
    return {
        **common,
        "lr": described.lr,
        "local_steps": described.local_steps,
        "batch_size": described.batch_size,
        "seed": described.seed,
        "twin": described,
    }
