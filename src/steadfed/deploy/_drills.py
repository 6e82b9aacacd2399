"""A node of a deployment that attacks the SuperLink itself, in the place of its SuperNode: a drill."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import httpx

from steadfed.deploy._processes import POLL
from steadfed.errors import ParameterError, RunError

if TYPE_CHECKING:
    from steadfed.deploy._deployment import LocalDeployment
    from steadfed.flower.redteam import HostileNode

LONGEST_REFUSED = 120.0
"""Seconds for which the SuperLink may take a node for online that was stopped."""


def hostile_node(deployment: LocalDeployment, index: int) -> HostileNode:
    """Return a hostile node with the key of a node, whose neighbours are all others.

    Raises:
        ParameterError: there is no such node, or the deployment has no keys.
    """
    from steadfed.flower.redteam import HostileNode

    if not deployment.secure:
        raise ParameterError("a hostile node has the key of a node, and this federation has none: it is insecure")
    if not 0 <= index < len(deployment.nodes):
        raise ParameterError(f"there are the nodes 0 .. {len(deployment.nodes) - 1}, got {index}")
    folder = deployment.folder
    others = [node for node in deployment.nodes if node is not deployment.nodes[index]]
    return HostileNode(
        f"127.0.0.1:{deployment.superlink.state.port}",
        key=folder.key(deployment.nodes[index].name),
        root_certificates=folder.certificates.authority.read_bytes(),
        neighbours=[node.node_id for node in others if node.node_id is not None],
    )


@contextmanager
def in_place_of(deployment: LocalDeployment, index: int, patience: float = LONGEST_REFUSED) -> Iterator[HostileNode]:
    """Stop a SuperNode, let a hostile node in under its key, and start the SuperNode again at the end.

    Raises:
        ParameterError: there is no such node, or the deployment has no keys.
        RunError: the SuperLink does not let it in.
    """
    hostile_node(deployment, index)  # refuses before anything is stopped
    node = deployment.nodes[index]
    node.stop()
    try:
        with ExitStack() as stack:
            hostile = _let_in(deployment, index, time.monotonic() + patience)
            stack.push(hostile)
            yield hostile
    finally:
        node.restart()


def _let_in(deployment: LocalDeployment, index: int, deadline: float) -> HostileNode:
    """Return a hostile node that was let in; it is tried until the SuperLink has noticed who went."""
    while True:
        hostile = hostile_node(deployment, index)
        try:
            return hostile.__enter__()
        except httpx.HTTPError as error:
            if time.monotonic() > deadline:
                raise RunError(f"the SuperLink does not let the hostile node in: {error}") from None
            time.sleep(10 * POLL)
