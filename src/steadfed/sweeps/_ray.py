"""Tasks on a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import Any, ClassVar, final

from steadfed.errors import RunError
from steadfed.sweeps._pool import Failure, Outcomes, Pool, ResultT, TaskT, Work

INSTALL_RAY = "pip install 'steadfed[ray]'"
_PATIENCE = 10.0
"""Seconds to wait for a cluster to answer."""


@final
@dataclass(frozen=True, kw_only=True)
class RayCluster(Pool):
    """The machines of a Ray cluster, one CPU for a task; what a worker writes stays where it is."""

    shares_disk: ClassVar[bool] = False

    address: str
    """Such as auto, 10.0.0.1:6379 or ray://10.0.0.1:10001."""

    def outcomes(self, work: Work[TaskT, ResultT], tasks: Iterable[TaskT]) -> Outcomes[TaskT, ResultT]:
        """Keep two tasks for every CPU of the cluster; what `work` raises is a failure."""
        ray = _connect(self.address)
        remote = ray.remote(num_cpus=1, max_retries=0)(work)
        waiting: dict[Any, TaskT] = {}
        rest = iter(tasks)
        try:
            while True:
                room = max(1, 2 * int(ray.cluster_resources().get("CPU", 1)) - len(waiting))
                for task in islice(rest, room):
                    waiting[remote.remote(task)] = task
                if not waiting:
                    return
                for reference in ray.wait(list(waiting), num_returns=1)[0]:
                    yield waiting.pop(reference), _fetch(ray, reference)
        finally:
            ray.shutdown()


def _connect(address: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if find_spec("ray") is None:
        raise RunError(f"Ray is not installed, and --ray needs it: {INSTALL_RAY}")
    try:
        _check_reachable(address)
        import ray

        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        why = str(error).strip().partition("\n")[0]
        raise RunError(
            f"cannot reach a Ray cluster at {address!r}: {why}; `ray start --head` begins one and says its address"
        ) from None
    return ray


def _check_reachable(address: str) -> None:
    """Raise `OSError` soon if nobody listens at HOST:PORT; Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE):
            pass


def _fetch(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except (ray.exceptions.RayError, OSError) as error:
        return Failure(reason=f"the task was lost on the cluster: {str(error).strip().splitlines()[0]}")
