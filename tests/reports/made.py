"""Runs made by hand: folders with a real configuration and records that say what a test wants them to say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from steadfed.aggregators import Rage
from steadfed.attacks import FixedMembers, SignFlip
from steadfed.partitions import IidPartition
from steadfed.runs._files import seal_config
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord
from steadfed.simulation import RunConfig


def config(**changes: Any) -> RunConfig:
    """Return the configuration of four clients of which client 3 lies."""
    usual: dict[str, Any] = {
        "rounds": 4,
        "cohort_size": 4,
        "partition": IidPartition(num_clients=4),
        "rule": Rage(num_byzantine=1),
        "byzantine": FixedMembers(clients=(3,)),
        "attack": SignFlip(),
    }
    return RunConfig(**(usual | changes))


def folder(path: Path, records: Iterable[RoundRecord] = (), **changes: Any) -> RunFolder:
    """Write a run with these records; the data have no checksum that could be found."""
    text = seal_config(config(**changes), {"steadfed": "0.1.0", "torch": "2.0", "data_sha256": "0" * 64})
    made = RunFolder.create(path, text)
    lines = "".join(record.to_line() for record in records)
    (path / "rounds.jsonl").write_text(lines)
    return made


def four(number: int, **changes: Any) -> RoundRecord:
    """Return a round of clients 0 … 3: client 3 lies and is removed, client 0 is honest and removed in odd rounds."""
    kept = (1, 2) if number % 2 else (0, 1, 2)
    weights = tuple(1.0 / len(kept) if client in kept else 0.0 for client in range(4))
    usual: dict[str, Any] = {
        "round": number,
        "step": number + 1,
        "lr": 0.1,
        "cohort": (0, 1, 2, 3),
        "received": (0, 1, 2, 3),
        "byzantine": (3,),
        "kept": kept,
        "weights": weights,
        "scores": (2.0, 1.0, 0.5, 9.0),
        "reason": "the spread is below the threshold",
        "num_byzantine": 1,
        "spread_before": 8.0,
        "spread": 0.5,
        "threshold": 1.0,
        "error": 0.25,
        "certificate": {"error_bound": 0.75},
        "test_accuracy": 0.2 + 0.2 * number,
        "test_loss": 2.0 / (number + 1),
        "bytes_down": 400,
        "bytes_up": 100,
        "seconds": {"local_steps": 0.5, "aggregation": 0.25},
    }
    return RoundRecord(**(usual | changes))
