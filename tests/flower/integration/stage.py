"""Plays federations of real processes, in a process of its own: tests read what came of it.

Each play is written down as NAME.json in the folder: facts, or the traceback of what went wrong. If the owner (the test
session) is gone, this process ends, and the guardians of the federations end those.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.soak.namespace import loopback_up
from tests.flower.integration import drills, siege
from tests.flower.integration.app.drilled.numbers import LIAR
from tests.flower.integration.proxy import behind_nginx

from steadfed.deploy import LocalDeployment, SubmittedRun
from steadfed.deploy._processes import POLL, find_process, wait_until

APP = Path(__file__).parent / "app"
PATIENCE = 1800.0
"""Seconds after which something that should happen is given up; a loaded machine is slow."""
STALLED_TIMEOUT = 60.0
"""Seconds that the server waits for a client that does not answer."""
AT_ONCE = 2
"""How many runs a federation plays at the same time; nodes are idle less often then."""
TOO_SLOW = "No heartbeat received"
"""What Flower says of a ServerApp that needed more than 30 seconds for its first sign of life."""
MOST_AGAIN = 3
Facts = dict[str, Any]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something happens; TimeoutError if it does not."""
    if not wait_until(condition, PATIENCE):
        raise TimeoutError(f"{what}: not within {PATIENCE:g} s")


class Play:
    """One run of the test app: its folder, and what is in it while it goes on."""

    def __init__(self, federation: LocalDeployment, folder: Path, name: str, **settings: Any) -> None:
        self.federation, self.name = federation, name
        self.folder = folder / name
        self.folder.mkdir()
        self.settings: dict[str, Any] = {
            "play": name,
            "folder": str(self.folder),
            "run-folder": str(self.folder / "run"),
            "nodes": str(federation.folder.roster),
            **{key.replace("_", "-"): value for key, value in settings.items()},
        }

    def submit(self) -> SubmittedRun:
        """Start it, or start it again."""
        return self.federation.submit(APP, self.settings)

    def whole(self) -> Facts:
        """Play it to the end."""
        return self.follow(self.submit())

    def follow(self, run: SubmittedRun) -> Facts:
        """Wait for the end of a run, which is submitted again if the machine was too slow for its ServerApp."""
        again = 0
        while True:
            status = run.wait(PATIENCE)
            if TOO_SLOW not in status.details or again == MOST_AGAIN:
                printed = run.output()[-4000:]
                return {"status": status.status, "details": status.details, "printed": printed, "again": again}
            again += 1
            run = self.submit()

    def begun(self) -> SubmittedRun:
        """Start it and wait until a node has begun with its first round."""
        for _ in range(MOST_AGAIN + 1):
            run = self.submit()
            while not wait_until((self.folder / "train-0-0").exists, 60.0):
                if run.status().finished:
                    break
            else:
                return run
        raise TimeoutError(f"{self.name}: the machine is too slow for a ServerApp")

    def records(self) -> int:
        """Return how many rounds are written down."""
        file = self.folder / "run" / "rounds.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def wait_for_mark(self, round: int, node: int) -> None:
        """Wait until a node has begun with a round."""
        mark = self.folder / f"train-{round}-{node}"
        wait_for(mark.exists, f"{self.name}: node {node} begins round {round}")

    def wait_for_records(self, number: int) -> None:
        """Wait until so many rounds are written down."""
        wait_for(lambda: self.records() >= number, f"{self.name}: {number} rounds are written down")


class Stage:
    """The folder in which plays are written down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def tell(self, name: str, play: Callable[[], Facts]) -> None:
        """Write down what came of a play."""
        try:
            outcome: Facts = {"facts": play(), "error": None}
        except Exception:  # noqa: BLE001  whatever it was, the tests show it
            outcome = {"facts": {}, "error": traceback.format_exc()}
        scratch = self.folder / f"{name}.tmp"
        scratch.write_text(json.dumps(outcome), encoding="utf-8")
        scratch.replace(self.folder / f"{name}.json")

    def abandon(self, names: tuple[str, ...]) -> None:
        """Write down that plays did not begin."""
        for name in names:
            if not (self.folder / f"{name}.json").exists():
                self.tell(name, _not_begun)

    def quiet(self) -> None:
        """Play what breaks no process: lies of all kinds, several runs at the same time."""
        own = {1: {"in-scaling": "scaling"}, 2: {"in-nan": "all-nan"}, LIAR: dict.fromkeys(OWN, "sign-flip")}
        with LocalDeployment.up(self.folder / "quiet", nodes=4, node_configs=own, timeout=PATIENCE) as federation:
            plays: dict[str, dict[str, Any]] = {  # the longest first
                "drills-0": {"rounds": len(drills.USUAL), "drills": ",".join(drills.USUAL)},
                "evaluated": {"rounds": 2, "evaluate": True, "evaluate_drills": "crash,nan-metric"},
                "calm": {"rounds": 3},
                **{name: {"rounds": 2} for name in ("sign-flip", "scaling", "nan")},
                "digits": {"task": "digits", "rounds": 2},
            }
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for name, settings in plays.items():
                    pool.submit(self.tell, name, Play(federation, self.folder, name, **settings).whole)
                self.tell("strangers", lambda: strangers(federation))

    def faulty(self) -> None:
        """Play what breaks processes, one after another."""
        with LocalDeployment.up(self.folder / "faulty", nodes=4, timeout=PATIENCE) as federation:
            self._one_after_another(federation, FAULTS)

    def joined(self) -> None:
        """Let others join in mid-run: a second server app, nodes with new keys. All nodes have to be idle for that."""
        with LocalDeployment.up(self.folder / "joined", nodes=4, timeout=PATIENCE) as federation:
            self._one_after_another(federation, JOINING)

    def _one_after_another(
        self, federation: LocalDeployment, plays: Mapping[str, Callable[[LocalDeployment, Path], Facts]]
    ) -> None:
        for name, play in plays.items():
            self.tell(name, lambda play=play: play(federation, self.folder))  # type: ignore[misc]

    def sieged(self) -> None:
        """Play what a node does to the SuperLink itself, one attack after another."""
        with LocalDeployment.up(self.folder / "sieged", nodes=4, timeout=PATIENCE) as federation:
            siege.play_all(federation, self, siege.SIEGES, Play)

    def proxied(self) -> None:
        """Play what nginx has to keep out, as the guide says, where there is no door."""
        with behind_nginx(self.folder / "proxied", 4, PATIENCE) as (federation, address):
            siege.play_all(federation, self, siege.PROXIED, Play, superlink=address)

    def full(self) -> None:
        """Play every malformed reply that the usual plays leave out; those of many objects come in at the door."""
        os.environ["STEADFED_DOOR_OBJECTS"] = "10000"
        with (
            LocalDeployment.up(self.folder / "full", nodes=4, timeout=PATIENCE) as federation,
            ThreadPoolExecutor() as pool,
        ):
            for part, lies in enumerate(drills.REST):
                settings = {"rounds": len(lies), "drills": ",".join(lies)}
                play = Play(federation, self.folder, f"rest-{part}", **settings)
                pool.submit(self.tell, play.name, play.whole)


OWN = ("in-sign-flip", "in-digits")


def strangers(federation: LocalDeployment) -> Facts:
    """Let somebody in whose key nobody knows, and somebody with the key of a node that is online."""
    before = federation.online()
    stranger = federation.add_node(registered=False)
    double = federation.add_node(registered=False)
    key = federation.folder.key(double.name)
    shutil.copyfile(federation.folder.key("node-0"), key)
    facts: Facts = {"before": len(before)}
    for node in (stranger, double):
        node.start()
    for name, node in (("stranger", stranger), ("double", double)):
        wait_for(lambda node=node: not node.is_running, f"{name} is refused")  # type: ignore[misc]
        facts[name] = node.output()
    facts["same"] = federation.online() == before
    return facts


def disturbed(federation: LocalDeployment, folder: Path) -> Facts:
    """Kill the SuperLink in mid-round and start it again; kill the ServerApp in mid-round and submit the run again.

    All nodes are at work while the SuperLink is away: a reply that is being sent when it dies would be lost.
    """
    play = Play(federation, folder, "disturbed", rounds=3, wait_in=1)
    first = play.begun()
    for node in range(4):
        play.wait_for_mark(1, node)
    federation.superlink.kill()
    records = play.records()
    federation.superlink.start()
    federation.superlink.wait_until_ready(PATIENCE)
    (play.folder / "go").touch()
    play.wait_for_mark(2, 0)
    federation.server_app.kill()
    at_kill = play.records()
    left = first.status().status
    return {"records": [records, at_kill], "left": left, **play.whole()}


def losses(federation: LocalDeployment, folder: Path) -> Facts:
    """Kill a SuperNode that is at work; let it come back two rounds later."""
    play = Play(federation, folder, "losses", rounds=4, drills=",stall,,", hold_after=3, wait_for_nodes=5.0)
    node = federation.nodes[LIAR]
    node_id = node.node_id
    run = play.begun()
    play.wait_for_mark(1, LIAR)
    node.kill()
    node.stop()  # what it left behind ends too: its message is nobody's any more
    play.wait_for_records(2)
    wait_for((play.folder / "after-3.npz").exists, "the round after the loss")
    node.restart(PATIENCE)
    same = node.node_id == node_id
    (play.folder / "released").touch()
    return {**play.follow(run), "same": same}


def stalled(federation: LocalDeployment, folder: Path) -> Facts:
    """Let a client sleep for an hour; at the end its node is still at it."""
    play = Play(federation, folder, "stalled", rounds=1, drills="stall", timeout=STALLED_TIMEOUT)
    return play.whole()


def doubled(federation: LocalDeployment, folder: Path) -> Facts:
    """Submit a run a second time, into the same folder, while the first goes on."""
    play = Play(federation, folder, "doubled", rounds=3, wait_in=1)
    first = play.begun()
    play.wait_for_mark(1, 0)
    for _ in range(MOST_AGAIN + 1):
        second = play.submit()
        status = second.wait(PATIENCE)
        if TOO_SLOW not in status.details:
            break
    (play.folder / "go").touch()
    return {**play.follow(first), "second": status.status, "said": status.details + second.output()[-4000:]}


def sybils(federation: LocalDeployment, folder: Path) -> Facts:
    """Let three liars join in mid-run under new keys, which are registered; the server's list of nodes stays."""
    roster = shutil.copy(federation.folder.roster, folder / "nodes.json")
    play = Play(federation, folder, "sybils", rounds=3, wait_in=1, nodes=str(roster))
    run = play.begun()
    play.wait_for_mark(1, 0)
    joined = [federation.add_node({"in-sybils": "sign-flip"}) for _ in range(3)]
    for node in joined:
        node.start()
    for node in joined:
        node.restart(PATIENCE)
    online = len(federation.online())
    (play.folder / "go").touch()
    facts = play.follow(run)
    for node in joined:
        node.stop()
    marks = [path.name for path in play.folder.glob("train-*") if int(path.name.rpartition("-")[2]) > LIAR]
    return {**facts, "online": online, "asked": marks}


def _not_begun() -> Facts:
    raise RuntimeError("the federation was not brought up; see stage.log")


FAULTS: Mapping[str, Callable[[LocalDeployment, Path], Facts]] = {
    "disturbed": disturbed,
    "losses": losses,
    "stalled": stalled,  # the last, for its node sleeps on
}
JOINING: Mapping[str, Callable[[LocalDeployment, Path], Facts]] = {
    "doubled": doubled,
    "sybils": sybils,  # the last, for it leaves nodes behind
}
PLAYS: Mapping[str, tuple[str, ...]] = {
    "quiet": (*("drills-0", "digits", "evaluated", "calm", "sign-flip", "scaling", "nan", "strangers"),),
    "faulty": tuple(FAULTS),
    "joined": tuple(JOINING),
    "sieged": tuple(siege.SIEGES),
    "proxied": tuple(siege.PROXIED),
    "full": tuple(f"rest-{part}" for part in range(len(drills.REST))),
}
"""What is played in which federation."""
FEDERATIONS: Mapping[str, Callable[[Stage], None]] = {
    "quiet": Stage.quiet,
    "faulty": Stage.faulty,
    "joined": Stage.joined,
    "sieged": Stage.sieged,
    "proxied": Stage.proxied,
    "full": Stage.full,
}
STAGES: Mapping[str, tuple[str, ...]] = {
    "usual": ("quiet", "faulty", "joined"),
    "siege": ("sieged",),
    "proxy": ("proxied",),
    "slow": ("full",),
}
"""Which federations are played at the same time."""


def end_with(owner: int, created: float) -> None:
    """End this process when its owner is gone."""
    while find_process(owner, created) is not None:
        time.sleep(10 * POLL)
    os._exit(1)


def main(folder: Path, owner: tuple[int, float], stage: str, *, alone: bool) -> None:
    """Play everything."""
    threading.Thread(target=end_with, args=owner, daemon=True).start()
    if alone:
        loopback_up()
    network = {"alone": alone, "interfaces": [name for _, name in socket.if_nameindex()]}
    (folder / "network.json").write_text(json.dumps(network), encoding="utf-8")
    plays = Stage(folder)

    def played(federation: str) -> None:
        begin = time.monotonic()
        try:
            FEDERATIONS[federation](plays)
        except Exception:  # noqa: BLE001  the log has it
            traceback.print_exc()
        plays.abandon(PLAYS[federation])
        print(f"{federation}: {time.monotonic() - begin:.0f} s", flush=True)  # noqa: T201

    with ThreadPoolExecutor() as pool:
        list(pool.map(played, STAGES[stage]))


if __name__ == "__main__":
    where, pid, created, which, namespace = sys.argv[1:]
    main(Path(where), (int(pid), float(created)), which, alone=namespace == "alone")
