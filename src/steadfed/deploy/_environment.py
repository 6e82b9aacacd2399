"""Flower's commands: where they are, what they are told, and how to get them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from steadfed.errors import RunError

INSTALL = "pip install 'steadfed[flower]'"
OPT_OUT: Mapping[str, str] = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Without these Flower's commands try to reach the outside."""
QUICKLY: Mapping[str, str] = {"OMP_NUM_THREADS": "1", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25"}
"""Many processes on one machine: one thread each, and tasks are noticed within a quarter of a second."""
MARKER = "STEADFED_FEDERATION"
"""The variable that tells the processes of one deployment from all others; their children inherit it."""


def missing_flower(what: str) -> RunError:
    """Return the error that says how to install what a federation needs."""
    return RunError(f"{what} is not installed, and a federation needs it: {INSTALL}")


def command(name: str) -> str:
    """Return where one of Flower's commands is: beside this Python, or else on the PATH.

    Raises:
        RunError: it is not installed; the message says how to install it.
    """
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise missing_flower(name)
    return found


def environment(home: Path, marker: str) -> dict[str, str]:
    """Return the environment of every process of a deployment.

    Flower starts its own helpers by name, so the folder of its commands comes first on the PATH.

    Args:
        home: the process keeps its settings and apps here (FLWR_HOME).
        marker: what this deployment's processes are known by.
    """
    path = f"{Path(command('flwr')).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**QUICKLY, **os.environ, **OPT_OUT, "PATH": path, "FLWR_HOME": str(home), MARKER: marker}
