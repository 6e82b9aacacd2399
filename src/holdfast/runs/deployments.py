"""Runs that a server app played with clients of its own, not the simulator: they can be read here, not continued."""

from __future__ import annotations

from holdfast import __version__
from holdfast.errors import RunError
from holdfast.records.folder import RunFolder
from holdfast.runs.files import config_to_toml, provenance, sha256
from holdfast.simulation import RunConfig

MARK = "flwr"
"""The key of [provenance] with the version of Flower: the configuration of a deployment has it, no other."""


def deployment_toml(config: RunConfig, *, flwr: str, data_sha256: str = "", **versions: str) -> str:
    """Return the config.toml of a deployment: the configuration, sealed like that of a simulated run.

    Args:
        config: what the server does; data, partition and model are those of a twin, or `Remote…`.
        flwr: the version of Flower.
        data_sha256: the checksum of the twin's data set, if somebody has looked at it.
        versions: of other packages, by name.
    """
    seal = {"config_sha256": sha256(config_to_toml(config)), "holdfast": __version__}
    return config_to_toml(config, {**seal, MARK: flwr, **versions, "data_sha256": data_sha256})


def is_deployment(folder: RunFolder) -> bool:
    """Tell whether a server app played the run."""
    return MARK in provenance(folder.config_text())


def check_simulated(folder: RunFolder) -> None:
    """Raise `RunError` if the run is a deployment, which the simulator must not continue."""
    if is_deployment(folder):
        msg = (
            f"{str(folder.path)!r} is a deployment: its clients are programs elsewhere, and the simulator cannot "
            f"stand in for them. Start its server app again with the same run folder, and it continues after the "
            f"{folder.num_rounds()} rounds that are written down"
        )
        raise RunError(msg)
