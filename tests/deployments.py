"""The folder of a deployment as its server app leaves it: clients with names, dropped replies, skipped rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from steadfed import __version__
from steadfed._core.rng import stream
from steadfed.aggregators import Rage
from steadfed.data import RemoteData
from steadfed.models import RemoteModel
from steadfed.partitions import RemotePartition
from steadfed.runs._files import seal_config
from steadfed.server._folder import RunFolder
from steadfed.server._record import Client, DroppedReply, RoundRecord
from steadfed.simulation import RunConfig

NAMES = tuple(f"hospital-{letter}" for letter in "abcdefgh")
"""The clients of the federation."""
LIAR = NAMES[0]
"""Sends a hundred times what it should, in every round."""
BROKEN = NAMES[1]
"""Its replies have the wrong shape."""
AWAY = NAMES[2]
"""Does not answer in time."""
NASTY = "[red]x\x1b[2J\u202e"
"""A name that would colour, clear and turn a terminal around; it replies without having been asked."""
SKIPPED = 2
"""The round in which nobody answers."""
DIM = 7


def remote_config(**changes: Any) -> RunConfig:
    """Return the configuration of a deployment without a twin."""
    return RunConfig(
        **{
            "rounds": 5,
            "cohort_size": len(NAMES),
            "local_steps": 2,
            "batch_size": 4,
            "data": RemoteData(),
            "partition": RemotePartition(num_clients=len(NAMES)),
            "model": RemoteModel(dim=DIM, fingerprint="0" * 64),
            "rule": Rage(num_byzantine=2),
            **changes,
        }
    )


def configured(config: RunConfig, data_sha256: str = "remote") -> str:
    """Return the config.toml that a server app writes; with a twin the checksum is that of its data."""
    versions = {"steadfed": __version__, "torch": torch.__version__, "flwr": "1.41.0"}
    return seal_config(config, {**versions, "data_sha256": data_sha256})


def deployment(path: Path, *, config: RunConfig | None = None, rounds: int = 5) -> RunFolder:
    """Write the folder of a deployment after some rounds; it is complete after all of the configuration's."""
    from steadfed.server._history import Rounds, summary_of

    config = config or remote_config()
    folder = RunFolder.create(path, configured(config))
    for number in range(rounds):
        folder.append(skipped_round(config, number) if number == SKIPPED else played_round(config, number))
    if rounds == config.rounds:
        folder.write_summary(summary_of(Rounds.of(folder.records(), deployed=True)))
    return folder


def skipped_round(config: RunConfig, number: int) -> RoundRecord:
    """Return a round in which nobody answered."""
    drops = tuple(DroppedReply(client=name, fault="silent", detail="no reply within 60 s") for name in NAMES)
    return RoundRecord(
        round=number,
        step=config.steps_until(number + 1),
        lr=config.lr,
        cohort=NAMES,
        absent=NAMES,
        drops=drops,
        skipped=True,
        reason="nobody answered, so there is nothing to aggregate",
    )


def played_round(config: RunConfig, number: int) -> RoundRecord:
    """Return a round in which the rule met a liar, a reply of the wrong shape, an absence and an unasked reply."""
    received: tuple[Client, ...] = tuple(name for name in NAMES if name != AWAY)
    rows = torch.from_numpy(stream(number, "deployment").standard_normal((len(received), DIM)))
    rows[received.index(LIAR)] += 100.0
    rows[received.index(BROKEN)] = float("nan")
    found = config.rule(rows)
    evidence = found.evidence()
    drops = (
        DroppedReply(client=BROKEN, fault="shape", detail="'weight' must be (3, 2), got (2, 3)"),
        DroppedReply(client=AWAY, fault="silent", detail="no reply within 60 s"),
        DroppedReply(client=NASTY, fault="not asked", detail="\x1b]0;owned\x07 [bold]to a message of round 0[/bold]"),
    )
    same = ("weights", "stop", "reason", "assumption_violated", "num_byzantine", "sigma0", "spread", "certificate")
    return RoundRecord(
        round=number,
        step=config.steps_until(number + 1),
        lr=config.lr,
        cohort=NAMES,
        absent=(AWAY,),
        received=received,
        scores=evidence["scores"],
        unusable=(BROKEN,),
        kept=tuple(name for name, kept in zip(received, evidence["kept"], strict=True) if kept),
        drops=drops,
        update_norm=float(found.update.norm()),
        metrics={"train-loss": 1.0 / (number + 1)},
        seconds={"waiting": 2.0, "aggregation": 0.1},
        **{name: evidence[name] for name in same},
    )
