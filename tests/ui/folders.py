"""Folders of runs, as the live page meets them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from steadfed._core.rng import stream
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord

CONFIG = """
rounds = {rounds}
lr = 0.1
[data]
name = "digits"
[rule]
name = "{rule}"
num_byzantine = 2
[attack]
name = "{attack}"
[partition]
name = "iid"
num_clients = 8
[byzantine]
name = "fixed"
clients = [6, 7]
[provenance]
data_sha256 = "0"
"""


def begun(path: Path, *, planned: int = 20, rule: str = "rage", attack: str = "sign-flip") -> RunFolder:
    """Return the folder of a run without rounds."""
    return RunFolder.create(path, config=CONFIG.format(rounds=planned, rule=rule, attack=attack))


def played(path: Path, rounds: int, *, clients: tuple[int | str, ...] = tuple(range(8)), **more: Any) -> RunFolder:
    """Return the folder of a run of which so many rounds are written down, at once; the last two clients lie."""
    folder = begun(path, **more)
    append(folder, range(rounds), clients)
    return folder


def append(folder: RunFolder, numbers: range, clients: tuple[int | str, ...] = tuple(range(8))) -> None:
    """Write rounds, without waiting for the disk after each."""
    with (folder.path / "rounds.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(record(number, clients).to_line() for number in numbers)
        file.flush()
        os.fsync(file.fileno())


def record(number: int, clients: tuple[int | str, ...] = tuple(range(8)), **fields: Any) -> RoundRecord:
    """Return a round that learns and removes the liars, mostly."""
    draw = stream(7, "rounds", number)
    honest, liars = clients[:-2], clients[-2:]
    kept = honest if number % 5 else (*honest, liars[0])
    scores = [float(value) for value in draw.gamma(2.0, 1.0, len(clients))]
    facts: dict[str, Any] = {
        "round": number,
        "step": number + 1,
        "lr": 0.1,
        "cohort": clients,
        "byzantine": liars,
        "received": clients,
        "weights": tuple(1 / len(kept) if client in kept else 0.0 for client in clients),
        "scores": (*scores[:-2], scores[-2] + 9, scores[-1] + 9),
        "kept": kept,
        "num_byzantine": 2,
        "spread_before": 50.0 + scores[0],
        "spread": 2.0 + scores[1],
        "threshold": 9.0,
        "error": 0.1 * scores[2],
        "test_accuracy": 0.95 - 0.85 / (1 + number / 6) - 0.02 * scores[3] / 4,
        "test_loss": 2.3 / (1 + number / 6) + 0.02 * scores[4],
        "bytes_up": 2_600 * len(clients),
        "bytes_down": 2_600 * len(clients),
        "seconds": {"local_steps": 0.02 + 0.001 * scores[0], "aggregation": 0.004, "evaluation": 0.003},
    }
    return RoundRecord(**{**facts, **fields})
