"""A federation in which node 3 is no SuperNode: it has that node's key, and attacks the SuperLink itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.flower.integration.app.drilled.numbers import LIAR

from steadfed.deploy import LocalDeployment
from steadfed.flower.redteam import HostileNode

ROUNDS = 2
ENDLESS = {"drill": "preregistered-id", "timeout": 110.0}
"""A reply that never comes to its end is waited for as long as replies are, or three minutes."""
SIEGES: dict[str, dict[str, Any]] = {
    "many-objects": {"drill": "many-objects"},
    "large-object": {"drill": "large-object", "timeout": 110.0},
    "orders-to-neighbours": {"drill": "orders-to-neighbours"},
    "foreseen": {**ENDLESS, "foreseeable": True},
}
"""What is played at the door, and the settings of the run."""
PROXIED: dict[str, dict[str, Any]] = {
    "proxied-many-objects": {"drill": "many-objects"},
    "proxied-large-object": {"drill": "large-object", "timeout": 110.0},
    "proxied-foreseen": {**ENDLESS, "foreseeable": True},
    "proxied-unforeseen": ENDLESS,
}
"""What is played at Flower's own SuperLink, with nginx in the place of the door."""


def besiege(federation: LocalDeployment, name: str, *, superlink: str | None = None) -> list[int]:
    """Answer every message to node 3 by a drill; return the statuses of the SuperLink's answers."""
    folder = federation.folder
    address = superlink or f"127.0.0.1:{federation.superlink.state.port}"
    authority = folder.certificates.authority.read_bytes()
    with HostileNode(address, key=folder.key(f"node-{LIAR}"), root_certificates=authority) as node:
        return node.play(name, rounds=ROUNDS)


def besieged(federation: LocalDeployment, play: Any, drill: str, *, superlink: str | None = None) -> dict[str, Any]:
    """Play a run to its end under siege."""
    with ThreadPoolExecutor(1) as pool:
        attack = pool.submit(besiege, federation, drill, superlink=superlink)
        facts = play.whole()
        return {**facts, "statuses": attack.result(), "superlink": _said(federation.superlink.log)}


def play_all(
    federation: LocalDeployment, stage: Any, plays: dict[str, dict[str, Any]], play: Any, **where: str
) -> None:
    """Play runs under siege, one after the other."""
    federation.nodes[LIAR].stop()
    for name, settings in plays.items():
        terms = {key: value for key, value in settings.items() if key != "drill"}
        run = play(federation, stage.folder, name, rounds=ROUNDS, **terms)
        stage.tell(name, partial(besieged, federation, run, settings["drill"], **where))


def _said(log: Path) -> str:
    """Return what the door has said."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(line for line in lines if "[Door]" in line)[-4000:]
