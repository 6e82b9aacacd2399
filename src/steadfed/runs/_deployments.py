"""Runs that a server app played with clients of its own, not the simulator: they can be read here, not continued."""

from __future__ import annotations

from steadfed.errors import RunError
from steadfed.runs._files import provenance
from steadfed.server._folder import RunFolder
from steadfed.server._history.files import DEPLOYED

OWN_STEPS = "step_size"
"""The key of [provenance] of a deployment whose clients choose their step sizes themselves."""
COORDINATES_SEED = "coordinates_seed"
"""The key of [provenance] of a deployment whose coordinates are drawn from a seed that the operator gave."""


def is_deployment(folder: RunFolder) -> bool:
    """Tell whether a server app played the run."""
    return DEPLOYED in provenance(folder.config_text())


def has_own_steps(folder: RunFolder) -> bool:
    """Tell whether the clients chose their step sizes themselves, so that η of the configuration says nothing."""
    return OWN_STEPS in provenance(folder.config_text())


def coordinates_seed(folder: RunFolder) -> str | None:
    """Return what the coordinates of all rounds are drawn from; None if each round's own seed was a secret until it."""
    return provenance(folder.config_text()).get(COORDINATES_SEED)


def check_simulated(folder: RunFolder) -> None:
    """Raise `RunError` if the run is a deployment, which the simulator must not continue."""
    if is_deployment(folder):
        raise RunError(
            f"{str(folder.path)!r} is a deployment: its clients are programs elsewhere, and the simulator cannot "
            f"stand in for them. Start its server app again with the same run folder, and it continues after the "
            f"{folder.num_rounds()} rounds that are written down"
        )
