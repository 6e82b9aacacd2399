"""What is to be started: what every node is told, ports, and what is remembered of a federation from before."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from holdfast.errors import ParameterError, RunError
from holdfast.federation.places import FederationState, NodeConfig, NodeState, PartState, Place, Setting
from holdfast.federation.ports import check_free, free_ports, is_free


def all_node_configs(nodes: int, extras: Mapping[int, NodeConfig]) -> list[dict[str, Setting]]:
    """Return what every node is told about itself.

    >>> all_node_configs(2, {1: {"attack": "nan"}})[1]
    {'partition-id': 1, 'num-partitions': 2, 'name': 1, 'attack': 'nan'}
    """
    if nodes < 1:
        raise ParameterError(f"a federation has at least 1 node, got {nodes}")
    strangers = sorted(set(extras) - set(range(nodes)))
    if strangers:
        raise ParameterError(f"there is no node {strangers[0]}; the {nodes} nodes are called 0 to {nodes - 1}")
    configs = [{**usual_config(index, nodes), **extras.get(index, {})} for index in range(nodes)]
    check_configs(configs)
    return configs


def check_configs(configs: Sequence[NodeConfig]) -> None:
    """Refuse what nodes cannot be told, and names that are none or are given twice.

    Raises:
        ParameterError: the message names the node, or the names.
    """
    for index, config in enumerate(configs):
        _check_config(index, config)
    names = [str(config["name"]) for config in configs]
    if len(set(names)) < len(names):
        raise ParameterError(f"every node needs a name of its own, got {', '.join(names)}")


def usual_config(index: int, nodes: int) -> dict[str, Setting]:
    """Return what every node is told: its part of the data, and its name, which is the number of that part."""
    return {"partition-id": index, "num-partitions": nodes, "name": index}


def _check_config(index: int, config: NodeConfig) -> None:
    for key, value in config.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ParameterError(f"node {index} is told booleans, numbers and strings, got {key} = {value!r}")
    if not isinstance(config["name"], (int, str)) or isinstance(config["name"], bool) or config["name"] == "":
        raise ParameterError(f"the name of node {index} is a string or a whole number, got {config['name']!r}")


def asked_ports(nodes: int, port: int | None) -> list[int] | None:
    """Return the ports that were asked for, if they are free; None if any will do."""
    if port is None:
        return None
    if not 1 <= port <= 65535 - nodes:
        raise ParameterError(
            f"the SuperLink gets the port and {nodes} nodes the next ones: 1 to {65535 - nodes}, got {port}"
        )
    return list(range(port, port + nodes + 1))


def planned(
    place: Place, *, secure: bool, ports: list[int] | None, configs: Sequence[dict[str, Setting]]
) -> FederationState:
    """Return what is to be started, with what is remembered of a federation that was here before.

    The marker is new, so that whoever brought up the one before cannot end this one by mistake.
    """
    before = place.state()
    known: dict[int, int | None] = {}
    if before is not None:
        if any(process.is_running for process in before.processes()):
            raise RunError(
                f"a federation runs in {str(place.path)!r} already: a SuperLink at port {before.superlink.port} and "
                f"{len(before.nodes)} nodes; look with `holdfast federation status`, stop it with `holdfast federation "
                f"down`, or choose another folder with --folder"
            )
        if before.secure != secure:
            mode = "with TLS and node keys" if before.secure else "without TLS"
            raise RunError(
                f"the federation in {str(place.path)!r} was made {mode}; choose another folder, or delete this one "
                f"with `holdfast federation down --delete`"
            )
        known = {index: node.node_id for index, node in enumerate(before.nodes) if secure and node.registered}
        old = [before.superlink.port, *(node.port for node in before.nodes)]
        if ports is None and len(old) == len(configs) + 1 and all(map(is_free, old)):
            ports = old
    chosen = ports or free_ports(len(configs) + 1)
    check_free(chosen)
    nodes = tuple(
        NodeState(port=port, config=config, node_id=known.get(index))
        for index, (port, config) in enumerate(zip(chosen[1:], configs, strict=True))
    )
    link = PartState(port=chosen[0])
    return FederationState(secure=secure, marker=secrets.token_hex(8), superlink=link, superexec=link, nodes=nodes)
