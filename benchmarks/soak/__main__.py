"""Half an hour of a federation on loopback that is disturbed all the time: ``make soak``.

Nodes, the SuperLink and the server app are killed and started again, connections are slow, trickle and are cut, and
the last node plays another drill of `steadfed.flower.redteam` in every round, against the SuperLink too; all of it
follows from the seed. Where the system allows it, all happens in a network namespace with nothing but loopback. At the
end no round that was written may be lost, no model poisoned, no memory grown, no process, file or folder left behind.
Figures go to benchmarks/results/soak-*.json; the exit code is 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, final

import httpx
import psutil

from benchmarks import machine
from benchmarks.soak.namespace import alone, loopback_up
from benchmarks.soak.proxy import Line, LineState
from benchmarks.soak.schedule import FaultKind, PlannedFault, counted, schedule, siege_of
from benchmarks.soak.watch import Chain, Vitals, broken, rounds_of
from steadfed.deploy import LocalDeployment, SubmittedRun, SuperNode
from steadfed.deploy._drills import hostile_node
from steadfed.deploy._processes import process_tree, wait_until
from steadfed.errors import SteadfedError

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"
PATIENCE = 600.0
"""Seconds for a process to be at work; a node that was killed is refused for a minute, and machines are slow."""
SAMPLE = 5.0
LINES = {
    FaultKind.LINK_SLOW: LineState.SLOW,
    FaultKind.LINK_TRICKLES: LineState.TRICKLES,
    FaultKind.LINK_CUT: LineState.CUT,
}


@final
class Soak:
    """A federation, what happens to it, and what was seen."""

    def __init__(self, federation: LocalDeployment, lines: list[Line], run_folder: Path, seed: int) -> None:
        self.federation, self.lines = federation, lines
        self.chain, self.vitals = Chain(run_folder), Vitals()
        self.done: Counter[str] = Counter()
        """Faults that happened, by kind."""
        self.sieges: Counter[str] = Counter()
        """Drills against the SuperLink, by name."""
        self._seed = seed
        self.submissions = 0
        self.errors: list[str] = []
        self._settings: dict[str, Any] = {
            "seed": seed,
            "num-nodes": len(federation.nodes),
            "run-folder": str(run_folder),
            "nodes": str(federation.folder.roster),
        }
        self._over = threading.Event()
        self._server = threading.RLock()
        """Held by whoever starts or stops something at the server's end."""

    def play(self, faults: tuple[PlannedFault, ...], seconds: float) -> None:
        """Run, disturb, watch; at the end everything is in order, and the run is stopped."""
        begin = time.monotonic()
        # One thread for each thing that may go on at the same time: the watch, the run, and every fault.
        with ThreadPoolExecutor(2 + len(faults)) as pool:
            pool.submit(self._guarded, "the watch", self._watch)
            pool.submit(self._guarded, "the run", self._keep_running)
            for fault in faults:
                time.sleep(max(0.0, begin + fault.at - time.monotonic()))
                print(
                    f"{fault.at:7.1f} s  {fault.kind}  {'' if fault.node is None else f'node {fault.node}'}", flush=True
                )
                pool.submit(self._guarded, str(fault), partial(self._disturb, fault))
            time.sleep(max(0.0, begin + seconds - time.monotonic()))
            self._over.set()

    def _guarded(self, what: str, deed: Callable[[], None]) -> None:
        try:
            deed()
        except Exception as error:  # noqa: BLE001  whatever it was, the report has it
            self.errors.append(f"{what}: {type(error).__name__}: {error}"[:2000])

    def _keep_running(self) -> None:
        """Submit the run whenever none goes on, into the same folder."""
        run: SubmittedRun | None = None
        while not self._over.wait(2.0):
            with self._server, suppress(SteadfedError):  # the SuperLink may be away
                if run is None or run.status().finished:
                    run = self.federation.submit(APP, self._settings)
                    self.submissions += 1
        with self._server:
            if run is not None:
                run.stop()
        wait_until(lambda: not self.federation.server_app.is_running, 60.0)

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE):
            self._look()
        self._look()

    def _look(self) -> None:
        self.chain.look()
        services = {"SuperLink": self.federation.superlink, "SuperExec": self.federation.superexec}
        for name, service in services.items():
            for process in service.processes():
                self.vitals.look(name, process)
        for process in self.federation.server_app.processes():
            self.vitals.look("server app", process)
        self.vitals.look("this test", psutil.Process())

    def _disturb(self, fault: PlannedFault) -> None:
        """Let something go wrong, and put it right again."""
        node = None if fault.node is None else self.federation.nodes[fault.node]
        if fault.kind in LINES and fault.node is not None:
            self.lines[fault.node].set(LINES[fault.kind])
            self._over.wait(fault.lasts)
            self.lines[fault.node].set(LineState.GOOD)
        elif node is not None:
            node.kill()
            node.stop()  # what it left behind ends too
            self._over.wait(fault.lasts)
            self._bring_back(node)
        elif fault.kind is FaultKind.SUPERLINK_KILLED:
            self._restart_superlink(fault.lasts)
        elif fault.kind is FaultKind.SIEGE:
            self._besiege(fault)
        elif self.federation.server_app.is_running:
            self.federation.server_app.kill()
        else:
            return  # it was being submitted again already
        self.done[fault.kind.value] += 1

    def _restart_superlink(self, lasts: float) -> None:
        with self._server:
            self.federation.superlink.kill()
            self._over.wait(lasts)
            self.federation.superlink.start()
            self.federation.superlink.wait_until_ready(PATIENCE)
        for node in self.federation.nodes:
            self._bring_back(node)

    def _besiege(self, fault: PlannedFault) -> None:
        """Let the hostile node attack the SuperLink itself, in the place of its SuperNode."""
        index, drill, end = len(self.federation.nodes) - 1, siege_of(self._seed, fault), time.monotonic() + fault.lasts
        node = self.federation.nodes[index]
        node.stop()
        while not self._over.is_set() and time.monotonic() < end:
            # The SuperLink may be away, take it for online still, or refuse it: that is the test.
            with suppress(httpx.HTTPError), hostile_node(self.federation, index) as hostile:
                self.sieges[drill] += len(hostile.play(drill, rounds=1, patience=end - time.monotonic()))
            self._over.wait(1.0)
        self._bring_back(node)

    def _bring_back(self, node: SuperNode) -> None:
        """Start a node that has ended; one that the SuperLink did not let in at once is tried again."""
        deadline = time.monotonic() + PATIENCE
        while not self._over.is_set() and time.monotonic() < deadline:
            with suppress(SteadfedError):
                return node.restart(60.0)
        return None


def soak(folder: Path, *, minutes: float, nodes: int, seed: int, namespace: bool) -> dict[str, Any]:
    """Bring a federation up, disturb it, take it down, and return what was found."""
    faults = schedule(seed, seconds=60 * minutes, nodes=nodes)
    run_folder, scratch = folder / "run", folder / "tmp"
    scratch.mkdir()
    os.environ |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "TMPDIR": str(scratch)}
    files = psutil.Process().num_fds()
    with ExitStack() as stack:
        federation = stack.enter_context(LocalDeployment.up(folder / "federation", nodes=nodes, timeout=PATIENCE))
        lines = [stack.enter_context(Line(federation.superlink.state.port)) for _ in federation.nodes[:-1]]
        for node, line in zip(federation.nodes, lines, strict=False):
            node.stop()
            node.reach_through(line.port)
            node.restart(PATIENCE)
        played = Soak(federation, lines, run_folder, seed)
        played.play(faults, 60 * minutes)
        carried = [line.bytes for line in lines]
        marker, hostile = federation.marker, str(federation.nodes[-1].client)
    leaks = {
        "processes": [process.pid for process in process_tree([], marker)],
        "temporary files": sorted(path.name for path in scratch.iterdir())[:20],
        "open files": max(0, psutil.Process().num_fds() - files - 4),
    }
    found = {
        "minutes": minutes,
        "seed": seed,
        "nodes": nodes,
        "namespace": namespace,
        "planned": counted(faults),
        "faults": dict(sorted(played.done.items())),
        "sieges": dict(sorted(played.sieges.items())),
        "submissions": played.submissions,
        "bytes_through_lines": sum(carried),
        "losses": played.chain.losses,
        "safe_rounds": played.chain.safe,
        "rounds": rounds_of(run_folder, hostile),
        "vitals": played.vitals.report(),
        "growths": played.vitals.growths(),
        "leaks": leaks,
        "errors": played.errors,
    }
    return found | {"broken": broken(found)}


def main() -> None:
    """Play, store the figures, and say what does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, default=8, help="at least 4; the last one is hostile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep the folder of the federation and of the run")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        loopback_up()
    elif words := alone():
        os.execv(words[0], [*words, sys.executable, "-m", "benchmarks.soak", *sys.argv[1:], "--alone"])
    about = machine.describe()
    folder = Path(tempfile.mkdtemp(prefix="steadfed-soak-"))
    try:
        chosen = {"minutes": arguments.minutes, "nodes": arguments.nodes, "seed": arguments.seed}
        found = soak(folder, **chosen, namespace=arguments.alone)
    finally:
        if arguments.keep:
            print(f"the folder is {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    path = machine.store("soak", {"machine": about, **found})
    rounds = found["rounds"]
    print(
        f"{rounds['rounds']} rounds ({rounds['skipped']} skipped), {sum(found['faults'].values())} faults, "
        f"{rounds['replies_received']} of {rounds['replies_asked']} replies, {len(found['losses'])} losses; {path}"
    )
    for words in found["broken"]:
        print(f"  {words}")
    sys.exit(1 if found["broken"] else 0)


if __name__ == "__main__":
    main()
