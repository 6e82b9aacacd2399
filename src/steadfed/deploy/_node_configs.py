"""What every node is told about itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steadfed.deploy._state import ConfigValue, NodeConfig
from steadfed.errors import ParameterError


def complete_configs(nodes: int, extras: Mapping[int, NodeConfig]) -> list[dict[str, ConfigValue]]:
    """Return what every node is told about itself.

    >>> complete_configs(2, {1: {"attack": "nan"}})[1]
    {'partition-id': 1, 'num-partitions': 2, 'name': 1, 'attack': 'nan'}
    """
    if nodes < 1:
        raise ParameterError(f"a federation has at least 1 node, got {nodes}")
    strangers = sorted(set(extras) - set(range(nodes)))
    if strangers:
        raise ParameterError(f"there is no node {strangers[0]}; the {nodes} nodes are called 0 to {nodes - 1}")
    configs = [{**default_config(index, nodes), **extras.get(index, {})} for index in range(nodes)]
    check_configs(configs)
    return configs


def default_config(index: int, nodes: int) -> dict[str, ConfigValue]:
    """Return what every node is told: its part of the data, and its name, which is the number of that part."""
    return {"partition-id": index, "num-partitions": nodes, "name": index}


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


def _check_config(index: int, config: NodeConfig) -> None:
    for key, value in config.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ParameterError(f"node {index} is told booleans, numbers and strings, got {key} = {value!r}")
    if not isinstance(config["name"], (int, str)) or isinstance(config["name"], bool) or config["name"] == "":
        raise ParameterError(f"the name of node {index} is a string or a whole number, got {config['name']!r}")
