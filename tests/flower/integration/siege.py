"""A federation in which node 3 is no SuperNode: it has that node's key, and attacks the SuperLink itself."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.flower.integration.app.drilled.numbers import LIAR

from steadfed.deploy import LocalDeployment
from steadfed.deploy._processes import wait_until
from steadfed.flower.redteam import HostileNode

ROUNDS = 2
LONGEST = 600.0
"""Seconds after which a round is given up."""
STAYING = 60.0
"""Seconds that replies are waited for where the node stays and withholds what it has announced."""
SIEGES: dict[str, dict[str, Any]] = {
    "many-objects": {"drill": "many-objects"},
    "large-object": {"drill": "large-object"},
    "orders-to-neighbours": {"drill": "orders-to-neighbours"},
    "foreseen": {"drill": "preregistered-id", "foreseeable": True, "timeout": STAYING},
    "interrupted": {"drill": "interrupted-reply"},
    "withheld": {"drill": "withheld-reply", "timeout": STAYING},
    "trickled": {"drill": "trickled-reply", "timeout": STAYING},
    "late": {"drill": "late-reply", "timeout": STAYING},
}
"""What is played at the door, and the settings of the run."""
PROXIED: dict[str, dict[str, Any]] = {
    "proxied-orders-to-neighbours": {"drill": "orders-to-neighbours"},
    "proxied-many-objects": {"drill": "many-objects"},
    "proxied-large-object": {"drill": "large-object"},
    "proxied-foreseen": {"drill": "preregistered-id", "foreseeable": True},
    "proxied-unforeseen": {"drill": "preregistered-id"},
}
"""What is played at Flower's own SuperLink, with nginx in the place of the door."""
REFUSED = "holds no order of the federation's server"
"""What a node says of a forged order."""


def besieged(
    federation: LocalDeployment, play: Any, drill: str, *, superlink: str | None = None, stays: bool
) -> dict[str, Any]:
    """Play a run to its end, in which every message to node 3 is answered by a drill.

    The node goes after each drill until the round is over, unless it stays: the SuperLink gives up at once what a node
    has left undone that went.
    """
    folder, neighbours = federation.folder, federation.nodes[:LIAR]
    address = superlink or f"127.0.0.1:{federation.superlink.state.port}"
    over = threading.Event()
    before = {node.name: node.output().count(REFUSED) for node in neighbours}

    def attack() -> list[int]:
        statuses: list[int] = []
        while len(statuses) < ROUNDS and not over.is_set():
            with HostileNode(
                address,
                key=folder.key(f"node-{LIAR}"),
                root_certificates=folder.certificates.authority.read_bytes(),
                neighbours=[int(node.node_id or 0) for node in neighbours],
            ) as node:
                # one that answers too late is asked once less
                statuses += node.play(drill, rounds=ROUNDS if stays else 1, patience=ROUNDS * STAYING)
            _wait_for_round(play, len(statuses), over)
        return statuses

    with ThreadPoolExecutor(1) as pool:
        attacked = pool.submit(attack)
        try:
            facts = play.whole()
        finally:
            over.set()
        refused = {node.name: node.output().count(REFUSED) - before[node.name] for node in neighbours}
        said = {"refused": refused, "superlink": _said(federation.superlink.log)}
        return {**facts, **said, "statuses": attacked.result()}


def play_all(
    federation: LocalDeployment, stage: Any, plays: dict[str, dict[str, Any]], play: Any, **where: str
) -> None:
    """Play runs under siege, one after the other."""
    federation.nodes[LIAR].stop()
    for name, settings in plays.items():
        terms = {key: value for key, value in settings.items() if key != "drill"}
        run = play(federation, stage.folder, name, rounds=ROUNDS, **terms)
        stays = "timeout" in settings
        stage.tell(name, partial(besieged, federation, run, settings["drill"], stays=stays, **where))


def _wait_for_round(play: Any, number: int, over: threading.Event) -> None:
    """Wait until so many rounds are written down, or the run is over."""
    wait_until(lambda: over.is_set() or play.records() >= number, LONGEST)


def _said(log: Path) -> str:
    """Return what the door has said."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(line for line in lines if "[Door]" in line)[-4000:]
