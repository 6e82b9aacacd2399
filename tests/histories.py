"""The folder of a signed deployment, complete: every file that a run may have is in it."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.deployments import played_round, remote_config

from steadfed._core.signatures import SigningKey
from steadfed._core.version import VERSION
from steadfed.runs._files import seal_config
from steadfed.runs._writer import RunWriter
from steadfed.server._folder import RunFolder
from steadfed.server._results import model_digest
from steadfed.server._signatures import SERVER_KEY
from steadfed.server._state import ServerState
from steadfed.simulation import RunConfig
from steadfed.simulation._config import Evaluation

KEY = SigningKey.generate()
"""The server's."""


def measured_config(rounds: int) -> RunConfig:
    """Return a configuration whose models are kept."""
    return remote_config(rounds=rounds, evaluation=Evaluation(measured_rounds=rounds))


def made_with(key: SigningKey | None) -> dict[str, str]:
    """Return the provenance of a deployment."""
    signed = {} if key is None else {SERVER_KEY: key.public.keyid}
    return {**signed, "steadfed": VERSION, "torch": "2.0", "flwr": "1.41.0", "data_sha256": "remote"}


def begun(path: Path, rounds: int, key: SigningKey | None = KEY) -> RunWriter:
    """Make the folder of a deployment."""
    config = measured_config(rounds)
    folder = RunFolder.create(path, seal_config(config, made_with(key)), server_key=key.public if key else None)
    return RunWriter(config, folder, signer=key)


def state_after(rounds: int) -> ServerState:
    """Return the state after so many rounds."""
    return ServerState(rounds, torch.arange(7.0) + rounds, torch.ones(2) * rounds)


def digest_after(rounds: int, scratch: Path) -> str:
    """Return what the model after so many rounds is called."""
    folder = RunFolder(scratch)
    folder.write_model({"weight": state_after(rounds).model})
    return model_digest(scratch / "model.safetensors")


def play(writer: RunWriter, number: int, scratch: Path) -> None:
    """Write one round down as a server app does."""
    record = played_round(writer.config, number)
    named = {
        "reply_digests": tuple(f"{place:064x}" for place in range(len(record.received))),
        "model_before": digest_after(number, scratch),
        "model_after": digest_after(number + 1, scratch),
        "finished": "2026-11-19T04:52:57+00:00",
    }
    writer.write(state_after(number), record.model_copy(update=named), state_after(number + 1))


def signed_run(path: Path, rounds: int = 3, *, of: int | None = None, key: SigningKey | None = KEY) -> RunFolder:
    """Return the folder of a deployment after some rounds of so many, all if left out."""
    writer, scratch = begun(path, of or rounds, key), path.with_name("scratch")
    scratch.mkdir(exist_ok=True)
    with writer.folder.locked():
        for number in range(rounds):
            play(writer, number, scratch)
        if rounds == writer.config.rounds:
            writer.finish(state_after(rounds), {"weight": state_after(rounds).model}, deployed=True)
    return writer.folder
