"""The run folder of a deployment: the same as the simulator's, so everything that reads a run reads this one too."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from logging import WARNING
from pathlib import Path

import flwr
import torch
from flwr.supercore import log
from torch import nn

from steadfed import __version__
from steadfed._core.signatures import SigningKey
from steadfed.data._remote import RemoteData
from steadfed.errors import CorruptRunError, RunError
from steadfed.flower._npy import model_digest
from steadfed.flower._records import record_of
from steadfed.models._layout import Layout
from steadfed.runs import config_of
from steadfed.runs._code import code_changed, code_digests
from steadfed.runs._deployments import COORDINATES_SEED, OWN_STEPS, coordinates_seed, has_own_steps
from steadfed.runs._files import provenance, seal_config
from steadfed.runs._writer import RunWriter
from steadfed.server._folder import RunFolder
from steadfed.server._history.files import DEPLOYED
from steadfed.server._record import RoundRecord
from steadfed.server._signatures import SERVER_KEY, check_signed
from steadfed.server._snapshots import Snapshot
from steadfed.server._state import ServerState
from steadfed.simulation import RunConfig, config_table
from steadfed.states._layout import ModelLayout

_FREE = ("partition", "cohort_size", "evaluation")
"""What may be different when a run goes on: how many nodes there are is not the server's choice."""


def open_run_folder(
    config: RunConfig,
    layout: ModelLayout,
    path: str | os.PathLike[str],
    *,
    own_steps: bool = False,
    seed_of_coordinates: int | None = None,
    signer: SigningKey | None = None,
) -> RunWriter:
    """Make the folder of a run, or open it if there is one.

    Args:
        config: what is written down.
        layout: what the model looks like.
        path: the folder.
        own_steps: whether the clients choose their step sizes themselves.
        seed_of_coordinates: what coordinates are drawn from; None if every round has a secret of its own.
        signer: signs every line; the same key from the first round to the last.

    Raises:
        RunError: it holds a run of another configuration, of another model, or signed with another key.
    """
    if not run_exists(path):
        made_with = _provenance(config, own_steps=own_steps, seed=seed_of_coordinates)
        if signer is not None:
            made_with[SERVER_KEY] = signer.public.keyid
        key = None if signer is None else signer.public
        folder = RunFolder.create(path, seal_config(config, made_with), server_key=key)
        return RunWriter(config, folder, to_snapshot=_snapshots(config, layout), signer=signer)
    folder = RunFolder.open(path)
    found = config_of(folder)
    changed = _changed(found, config)
    then = provenance(folder.config_text())
    changed += [f"the source of {path} is not what it was" for path in code_changed(then, code_digests(found))]
    if str(seed := coordinates_seed(folder)) != str(seed_of_coordinates):
        changed.append(f"{COORDINATES_SEED} was {seed}, is {seed_of_coordinates}")
    _refuse(changed, folder)
    if has_own_steps(folder) != own_steps:
        raise RunError(
            f"{str(folder.path)!r} holds a run in which lr was {'not ' if has_own_steps(folder) else ''}sent"
        )
    _check_key(folder, signer)
    return RunWriter(found, folder, to_snapshot=_snapshots(found, layout), signer=signer)


def _check_key(folder: RunFolder, signer: SigningKey | None) -> None:
    """Refuse to go on with another key than the run was started with, or with none where there was one."""
    then = provenance(folder.config_text()).get(SERVER_KEY)
    now = None if signer is None else signer.public.keyid
    if then != now:
        words = [f"with the key {each[:12]}…" if each else "without a key" for each in (then, now)]
        raise RunError(
            f"{str(folder.path)!r} holds a run that was started {words[0]}, and is to go on {words[1]}; continue it "
            f"with the same signing_key, or choose another folder"
        )


def run_exists(path: str | os.PathLike[str] | None) -> bool:
    """Return whether there is a run to go on with, whose number of clients is known."""
    return path is not None and (Path(path) / "config.toml").exists()


def resume_run(writer: RunWriter, initial: ServerState, layout: ModelLayout) -> tuple[ServerState, list[RoundRecord]]:
    """Return where to go on and the rounds before it; what was written after it is forgotten.

    Raises:
        RunError: the checkpoint is of another model than the initial one, or not the one that the last line names.
        CorruptRunError: a line before it is not signed with the server's key.
    """
    if writer.signer is not None:
        check_signed(writer.folder, writer.signer.public)  # before anything is cut off
    checkpoint = writer.rewind()
    for note in writer.folder.notes:
        log(WARNING, "run folder: %s", note)
    if checkpoint is None:
        return initial, []
    if writer.signer is not None and (signed := check_signed(writer.folder, writer.signer.public)) < checkpoint.round:
        raise CorruptRunError(
            f"line {signed + 1} of {str(writer.folder.path)!r} is not signed, and there is a state after it, which is "
            f"written only when it is: somebody else wrote it. Restore the folder from a copy"
        )
    state = ServerState.from_checkpoint(checkpoint)
    if _shapes_and_dtypes(state) != _shapes_and_dtypes(initial):
        raise RunError(
            f"the checkpoint after {checkpoint.round} rounds in {str(writer.folder.path)!r} is not of the model that "
            f"the server app starts with; a run continues only with the model it was started with"
        )
    records = list(writer.folder.records())
    named, found = records[-1].model_after, model_digest(record_of(layout.arrays_of(state)))
    if named not in {None, found}:
        raise CorruptRunError(
            f"the checkpoint after {checkpoint.round} rounds in {str(writer.folder.path)!r} holds the model "
            f"{found[:12]}…, and the last of these rounds ended with {str(named)[:12]}…; restore the folder from a copy"
        )
    if records[-1].state_after not in {None, checkpoint.digest}:
        raise CorruptRunError(
            f"the checkpoint after {checkpoint.round} rounds in {str(writer.folder.path)!r} is not the one that the "
            f"line of the last of these rounds names: somebody changed it; restore the folder from a copy"
        )
    return state, records


def _shapes_and_dtypes(state: ServerState) -> tuple[object, ...]:
    """Return by what two states are of the same model."""
    rows = [(each.shape, each.dtype) for each in (state.model, state.buffers)]
    return (*rows, {name: (each.shape, each.dtype) for name, each in state.counters.items()})


def _snapshots(config: RunConfig, layout: ModelLayout) -> Callable[[ServerState], Snapshot]:
    """Return what keeps a model as the simulator would: in the layout of the configuration's own model."""

    @cache
    def module() -> nn.Module:
        return config.model.build(config.data.load(), config.seed)

    def to_snapshot(state: ServerState) -> Snapshot:
        dtype = state.model.dtype
        own = module().to(dtype)
        own.load_state_dict(record_of(layout.arrays_of(state)).to_torch_state_dict())
        places = Layout.of(own)
        model, buffers = places.parameters_of(own, dtype), places.buffers_of(own, dtype)
        return Snapshot(round=state.round, model=model, buffers=buffers)

    return to_snapshot


def _provenance(config: RunConfig, *, own_steps: bool, seed: int | None) -> dict[str, str]:
    """Return what a result depends on besides the configuration; points that only clients have cannot be named."""
    remote = isinstance(config.data, RemoteData)
    return {
        **({OWN_STEPS: "chosen by the clients"} if own_steps else {}),
        **({} if seed is None else {COORDINATES_SEED: str(seed)}),
        "steadfed": __version__,
        "torch": torch.__version__,
        DEPLOYED: flwr.__version__,
        "data_sha256": "remote" if remote else config.data.load().checksum,
        **code_digests(config),
    }


def _changed(found: RunConfig, config: RunConfig) -> list[str]:
    """Return where a configuration is another than that of the folder, as both are written down."""
    then, now = config_table(found), config_table(config)
    return [
        f"{name} was {getattr(found, name)!r}, is {getattr(config, name)!r}"
        for name in RunConfig.model_fields
        if name not in _FREE and then.get(name) != now.get(name)
    ]


def _refuse(changed: list[str], folder: RunFolder) -> None:
    """Refuse to go on with a run of another configuration."""
    if changed:
        raise RunError(
            f"{str(folder.path)!r} holds a run of another configuration: {'; '.join(changed)}; continue it with the "
            f"same one, or choose another folder"
        )
