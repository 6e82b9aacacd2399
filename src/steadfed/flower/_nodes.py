"""Who is asked: exactly K of the nodes, drawn from a seeded stream by name, not by the order they connected in."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, final

from flwr.serverapp import Grid
from flwr.supercore import log

from steadfed._core.parsing import parse_json, parse_whole
from steadfed._core.rng import stream
from steadfed._core.values import shown
from steadfed._core.wording import harmless
from steadfed.errors import ParameterError
from steadfed.flower._link import nodes_online
from steadfed.server._history.clients import in_order
from steadfed.server._record import Client
from steadfed.simulation._cohorts import Cohorts

NodeNames = Mapping[int, Client] | str | os.PathLike[str] | None
"""Names of nodes, or the JSON file with them, or none."""
_LARGEST_ID = 2**64 - 1
"""Of a node, in Flower."""
POLL = 1.0
"""Seconds between two looks at who is online."""
REMINDER = 30.0
"""Seconds between two lines in the log that say who is waited for."""
_LISTED, _LISTED_LETTERS = 10, 40
"""Names in such a line, and letters of each."""


@final
@dataclass(frozen=True)
class Member:
    """A node under the name it has in the records."""

    name: Client
    node_id: int


@final
@dataclass(frozen=True)
class NodeDirectory:
    """Which nodes belong to the federation, and what they are called.

    A node id is Flower's: it stays the same over restarts if the node's key is registered, and is new every time if
    not. With names, only nodes that have one are asked; without, every node is, and its id is its name.

    >>> directory = NodeDirectory.of({17: "clinic", 4: "ward"})
    >>> [member.name for member in directory.members([4, 17, 99])]
    ['clinic', 'ward']
    """

    names: Mapping[int, Client] | None

    @classmethod
    def of(cls, given: NodeNames) -> NodeDirectory:
        """Return the directory that names, or a JSON file {"node id": name}, describe.

        Raises:
            ParameterError: the file cannot be read, an id is no whole number, a name is given twice or is no name.
        """
        if given is None:
            return cls(None)
        if not isinstance(given, (Mapping, str, os.PathLike)):
            raise ParameterError(f"nodes must be a table of node ids and names, or a JSON file with one, got {given!r}")
        table = given if isinstance(given, Mapping) else _read(Path(given))
        names = {_node_id(node): _name(name) for node, name in table.items()}
        if len({str(name) for name in names.values()}) != len(names) or not names:
            raise ParameterError(
                f"nodes must give every node a name of its own, and name at least one; got {dict(table)!r}"
            )
        return cls(names)

    def name(self, node_id: int) -> Client:
        """Return what a node is called."""
        return str(node_id) if self.names is None else self.names.get(node_id, str(node_id))

    def members(self, online: Iterable[int]) -> list[Member]:
        """Return those of the nodes online that belong to the federation, in the order of their names."""
        nodes = {node for node in online if self.names is None or node in self.names}
        return sorted((Member(self.name(node), node) for node in nodes), key=lambda member: in_order(member.name))

    def missing(self, members: Iterable[Member]) -> str:
        """Return in words who is not among some members, as far as names are known."""
        there = {member.node_id for member in members}
        names = sorted((name for node, name in (self.names or {}).items() if node not in there), key=in_order)
        listed = ", ".join(harmless(name, limit=_LISTED_LETTERS) for name in names[:_LISTED])
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        return f", not {listed}{more}" if names else ""


@final
class NodeWaiter:
    """Waits for nodes, but not for ever.

    A node that has gone is waited for once: when a wait was in vain, later rounds wait for no more than had come then,
    or are needed. So a node that comes for a round and goes again does not cost a whole wait every time.
    """

    def __init__(self, directory: NodeDirectory, *, patience: float) -> None:
        self._directory, self._patience = directory, patience
        self._came: int | None = None

    def wait_for_nodes(self, grid: Grid, *, least: int, wanted: int) -> list[Member]:
        """Return the members online, after waiting until there are as many as wanted, but not for ever.

        Raises:
            LinkError: the SuperLink does not say who is online.
        """
        target = max(least, wanted if self._came is None else min(wanted, self._came))
        deadline = time.monotonic() + self._patience
        told = -REMINDER
        while len(members := self._directory.members(nodes_online(grid))) < target:
            left = deadline - time.monotonic()
            if left <= 0:
                self._came = len(members)
                log(
                    WARNING,
                    "waited in vain: %s of %s nodes are online; the round begins without others",
                    len(members),
                    target,
                )
                break
            if time.monotonic() - told >= REMINDER:
                told = time.monotonic()
                missing = self._directory.missing(members)
                log(INFO, "waiting for nodes: %s of %s are online%s; %.0f s left", len(members), target, missing, left)
            time.sleep(POLL)
        return members


def cohort_of(members: list[Member], cohorts: Cohorts, *, round: int, size: int, seed: int) -> list[Member]:
    """Return who is asked to train: the members at the places that the simulator would draw, all if they are few."""
    if size >= len(members):
        return members
    places = cohorts.cohort(round, len(members), size, seed)
    return [members[int(place)] for place in places if place < len(members)]


def evaluators_of(members: list[Member], *, round: int, size: int, seed: int) -> list[Member]:
    """Return who is asked to evaluate: drawn independently of who trains."""
    if size >= len(members):
        return members
    return [members[int(place)] for place in stream(seed, "examiners", round).choice(len(members), size, replace=False)]


def _read(path: Path) -> dict[str, Any]:
    try:
        table = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ParameterError(f"cannot read the names of nodes in {str(path)!r}: {error}") from None
    if not isinstance(table, dict):
        raise ParameterError(
            f'{str(path)!r} must hold a table such as {{"1234": "clinic"}} of node ids and names, got {table!r}'
        )
    return table


def _node_id(node: Any) -> int:
    try:
        return parse_whole(str(node), 0, _LARGEST_ID)
    except ValueError:  # a ParameterError, or that of a number that Python does not write
        raise ParameterError(f"nodes: a node id must be a whole number of 64 bits, got {shown(node)}") from None


def _name(name: Any) -> Client:
    if isinstance(name, bool) or not isinstance(name, (int, str)) or name == "":
        raise ParameterError(f"nodes: a node's name must be a whole number or a word, got {name!r}")
    return name
