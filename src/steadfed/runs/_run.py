"""A run in a folder: started, interrupted, resumed, and the same in the end."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from steadfed import __version__
from steadfed._core.digests import sha256
from steadfed.data import Dataset, GivenData
from steadfed.errors import CorruptRunError, ParameterError, RunError, UnknownNameError
from steadfed.runs._code import code_changed, code_digests
from steadfed.runs._deployments import check_simulated
from steadfed.runs._files import config_from_toml, provenance, seal_config
from steadfed.runs._writer import RunWriter
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._folder import RunFolder
from steadfed.server._history.files import part_of_configuration
from steadfed.server._record import RoundRecord
from steadfed.server._state import ServerState
from steadfed.simulation import Federation, RunConfig


@final
@dataclass(frozen=True, eq=False)
class Run:
    """A configuration that is carried out in a folder; `start` a new one or `resume` an old one, then `play` it.

    >>> import tempfile
    >>> run = Run.start(RunConfig(rounds=3), tempfile.mkdtemp())
    >>> [record.round for record in run.play()]
    [0, 1, 2]
    >>> run.folder.summary()["rounds"]
    3
    """

    config: RunConfig
    """The engine is the one that was chosen."""
    folder: RunFolder
    federation: Federation
    notes: list[str] = field(default_factory=list)
    """What is worth telling about how the run was found."""

    @classmethod
    def start(
        cls, config: RunConfig, path: str | os.PathLike[str], *, dataset: Dataset | None = None, jobs: int = 1
    ) -> Run:
        """Make the folder of a new run, after everything that can be checked was checked.

        Args:
            config: what to run.
            path: a folder that does not exist, or is empty.
            dataset: the data, if they are not to be loaded from `config.data`.
            jobs: how many worker processes take the clients' steps; the result does not depend on it.
        """
        if dataset is not None:
            config = config.model_copy(update={"data": GivenData(title=dataset.name, checksum=dataset.checksum)})
        federation = Federation(config, dataset=dataset, jobs=jobs)
        config = config.model_copy(update={"engine": federation.setting.engine.name})
        text = seal_config(config, made_with(federation.setting.dataset, config))
        return cls(config, RunFolder.create(path, text), federation)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], *, dataset: Dataset | None = None, jobs: int = 1) -> Run:
        """Open the folder of a run that was interrupted, or is complete.

        Raises:
            CorruptRunError: the folder does not hold a run that can be read.
            RunError: the data, or the source of a rule or an attack of the user's own, are not those the run was
                started with, or it is a deployment, which its server app continues.
        """
        folder = RunFolder.open(path)
        config = config_of(folder)  # reading is the check
        check_simulated(folder)
        _check_code(provenance(folder.config_text()), config, folder)
        return cls.open(path, dataset=dataset, jobs=jobs)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, dataset: Dataset | None = None, jobs: int = 1) -> Run:
        """Open the folder of any run to look at it; a deployment among them, if its configuration names data.

        Raises:
            CorruptRunError: the folder does not hold a run that can be read.
            RunError: the data are not those the run was started with.
            MissingDataError: the data are nowhere, or with the clients of a deployment.
        """
        folder = RunFolder.open(path)
        config, text = config_of(folder), folder.config_text()
        dataset = dataset if dataset is not None else config.data.load()
        notes = _compare_provenance(provenance(text), made_with(dataset, config), folder)
        return cls(config, folder, Federation(config, dataset=dataset, jobs=jobs), notes)

    def play(self) -> Generator[RoundRecord, None, None]:
        """Play the rounds that are left, and yield the record of each when it is on disk.

        Whoever closes this early ends the workers and unlocks the folder.

        Raises:
            RunError: the folder cannot be written, another process works in it, a worker died, or it is a deployment.
        """
        check_simulated(self.folder)
        with self.folder.locked(), self.federation as federation:
            writer = RunWriter(self.config, self.folder, to_checkpoint=federation.checkpoint)
            state = self._state(writer)
            while state.round < self.config.rounds:
                following, record = federation.play(state)
                written = writer.write(state, record, following)
                state = following
                yield written
            writer.finish(state, self._tensors(state))

    def _state(self, writer: RunWriter) -> ServerState:
        """Return the state to go on from, and forget what was written after it."""
        checkpoint = writer.rewind()
        self.notes.extend(self.folder.notes)
        if checkpoint is None:
            return self.federation.start()
        _check_model(checkpoint, self.federation.setting.layout.dim, self.folder)
        return self.federation.restore(checkpoint)

    def _tensors(self, state: ServerState) -> dict[str, Tensor]:
        """Return the model by the names that its architecture gives its parameters and buffers."""
        setting = self.federation.setting
        module = self.config.model.build(setting.dataset, self.config.seed).to(state.model.dtype)
        setting.layout.load(module, state.model, state.buffers)
        return {name: each for name, each in module.state_dict().items() if isinstance(each, Tensor)}


def config_of(folder: RunFolder) -> RunConfig:
    """Return the configuration of a run.

    Raises:
        CorruptRunError: it is not the one that the run was started with, as its checksum tells.
    """
    text, where = folder.config_text(), f"the config.toml of {str(folder.path)!r}"
    try:
        config, seal = config_from_toml(text), provenance(text)
    except (ParameterError, UnknownNameError) as error:
        raise CorruptRunError(f"{where} is not what a run writes: {error}") from None
    if "data_sha256" not in seal:
        raise CorruptRunError(
            f"{where} is cut off: it does not end with the table [provenance] that a run writes; restore it from a copy"
        )
    if seal.get("config_sha256", found := sha256(part_of_configuration(text).encode())) != found:
        raise CorruptRunError(
            f"{where} was changed after the run had started; restore it, or start another run with what it says now: "
            f"`steadfed run {folder.path / 'config.toml'}`"
        )
    return config


def _check_model(checkpoint: Checkpoint, dim: int, folder: RunFolder) -> None:
    """Refuse a checkpoint of another model: code of the user's own may have changed since."""
    found = tuple(checkpoint.tensors["model"].shape) if "model" in checkpoint.tensors else "none"
    if found != (dim,):
        raise RunError(
            f"the model of the configuration has {dim:,} parameters, the checkpoint after {checkpoint.round} rounds in "
            f"{str(folder.path)!r} holds {found}; a run continues only with the model it was started with"
        )


def made_with(dataset: Dataset, config: RunConfig) -> dict[str, str]:
    """Return what a result depends on besides the configuration; code that it names for rule and attack is loaded."""
    return {
        "steadfed": __version__,
        "torch": torch.__version__,
        "data_sha256": dataset.checksum,
        **code_digests(config),
    }


def _check_code(then: dict[str, str], config: RunConfig, folder: RunFolder) -> None:
    """Raise `RunError` if the source of a rule or an attack of the user's own changed, as its data must not either."""
    if changed := code_changed(then, code_digests(config)):
        raise RunError(
            f"the source of {', '.join(changed)} is not what the run in {str(folder.path)!r} was started with, and its "
            f"rounds would be of two kinds; restore the source, or start another run with what it says now: "
            f"`steadfed run {folder.path / 'config.toml'}`"
        )


def _compare_provenance(then: dict[str, str], now: dict[str, str], folder: RunFolder) -> list[str]:
    """Return notes on versions that changed; raise `RunError` if the data did."""
    old, new = then["data_sha256"], now["data_sha256"]
    if old != new:
        raise RunError(
            f"the data of {str(folder.path)!r} had the SHA-256 {old[:12]}…, those found now have {new[:12]}…; "
            f"a run continues only on the data it was started with"
        )
    changed = [name for name in ("steadfed", "torch") if name in then and then[name] != now[name]]
    notes = [f"started with {name} {then[name]}, continued with {now[name]}: bits may differ" for name in changed]
    return [*notes, *(f"the source of {path} is not what the run was played with" for path in code_changed(then, now))]
