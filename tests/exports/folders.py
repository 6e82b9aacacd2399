"""Folders of runs, as exports meet them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord

CONFIG = """
lr = 0.1
rounds = 5
name = "<b>odd</b>"
[rule]
name = "rage"
num_byzantine = 1
layers = [1, 2]
"""


def written(path: Path, rounds: int = 3, *, config: str = CONFIG, **fields: Any) -> RunFolder:
    """Return the folder of a run with so many rounds; client 9 is Byzantine and removed from round 1 on."""
    folder = RunFolder.create(path, config=config)
    for number in range(rounds):
        folder.append(record(number, **fields))
    return folder


def record(number: int, **fields: Any) -> RoundRecord:
    """Return one of its rounds."""
    kept = (1, 2) if number else (1, 2, 9)
    facts: dict[str, Any] = {
        "round": number,
        "step": 5 * (number + 1),
        "lr": 0.1,
        "cohort": (1, 2, 9),
        "byzantine": (9,),
        "received": (1, 2, 9),
        "weights": tuple(1 / len(kept) if client in kept else 0.0 for client in (1, 2, 9)),
        "kept": kept,
        "test_accuracy": 0.5 + 0.1 * number,
        "test_loss": None if number == 1 else 1.0 / (number + 1),
        "seconds": {"local_steps": 1.5, "aggregation": 0.5},
        "metrics": {"<i>loss</i>/../x": 2.0},
        "bytes_up": 120,
    }
    return RoundRecord(**{**facts, **fields})
