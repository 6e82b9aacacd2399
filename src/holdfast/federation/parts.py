"""The parts of a federation, each a process: started, awaited, killed for a drill, stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, final

from holdfast.errors import RunError
from holdfast.federation.flower_commands import superexec_command, superlink_command, supernode_command
from holdfast.federation.installed import environment
from holdfast.federation.places import NodeState, PartState, Place, ProcessState
from holdfast.federation.processes import Process, argv, end, family, launch, printed, until

TAIL = 15
"""How many lines of a log a message shows."""
PAUSE = 3.0
"""Seconds between two attempts of a node to be let in."""
NODE_ID = re.compile(r"SuperNode ID: (\d+)")
State = TypeVar("State", bound=ProcessState)


class Part(ABC, Generic[State]):
    """A process of a federation; all it knows is written down after every change."""

    def __init__(self, name: str, place: Place, marker: str, state: State, changed: Callable[[], None]) -> None:
        """Take over what was written down; `changed` writes it down again."""
        self.name, self.state = name, state
        self._place, self._marker, self._changed = place, f"{marker}/{name}", changed
        self._child: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> list[str]:
        """Return how it is started."""

    @abstractmethod
    def _home(self) -> Path:
        """Return its FLWR_HOME."""

    @abstractmethod
    def _ready(self, printed: str) -> bool:
        """Return whether it is at work, by what it printed since it was started."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write down what it reads when it starts."""

    @abstractmethod
    def _learn(self, printed: str) -> None:
        """Take note of what it printed when it was at work."""

    @property
    def log(self) -> Path:
        """What it printed, since the federation was made."""
        return self._place.log(self.name)

    @property
    def process(self) -> Process | None:
        """The process that was started last, if it was not stopped."""
        return self.state.process

    @property
    def is_running(self) -> bool:
        """Whether the process that was started runs."""
        self.reap()
        return self.process is not None and self.process.is_running

    def start(self) -> None:
        """Start it, if it does not run; `wait_until_ready` waits for it."""
        if self.is_running:
            return
        self._prepare()
        self.log.touch()
        log_start = self.log.stat().st_size
        child = launch(self._command(), self.log, environment(self._home(), self._marker), Path.cwd())
        self._child = child
        process = Process.of(child.pid)
        started = "" if process is None else process.started  # it may have ended already
        self._update(pid=child.pid, started=started, log_start=log_start)

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Wait until it is at work.

        Raises:
            RunError: it ended, or the time is over; the message has the end of its log.
        """
        if not until(lambda: self._ready(self.printed()) or not self.is_running, timeout):
            raise RunError(f"{self.name} was not at work after {timeout:g} s; {self.shown_log()}")
        if not self.is_running:
            raise RunError(f"{self.name} ended when it was started; {self.shown_log()}")
        self._learn(self.printed())

    def kill(self) -> None:
        """End the process alone, by force, as a crash does; what it started is left to notice."""
        if self.process is not None:
            self.process.send(signal.SIGKILL)
            until(lambda: not self.is_running, 10.0)
        self._update(pid=None, started="")

    def stop(self) -> None:
        """End it and all that it started: asked first, by force if need be. Nothing happens if nothing runs."""
        end([] if self.process is None else [self.process], self._marker, reap=self.reap)
        self.ended()

    def ended(self) -> None:
        """Take note that it was ended."""
        self.reap()
        if self.state.pid is not None:
            self._update(pid=None, started="")

    def printed(self) -> str:
        """Return what it printed since it was started, without colours."""
        return printed(self.log, self.state.log_start)

    def shown_log(self) -> str:
        """Return the end of its log, as messages show it."""
        lines = [line.rstrip() for line in self.printed().splitlines() if line.strip()][-TAIL:]
        shown = "\n  ".join(lines) if lines else "(nothing)"
        return f"the end of {self.log}:\n  {shown}"

    def _update(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)
        self._changed()

    def reap(self) -> None:
        """Take note of the end of a child: what it started waits for that."""
        if self._child is not None and self._child.poll() is not None:
            self._child = None


class ServerPart(Part[PartState]):
    """A part at the SuperLink's end, with the SuperLink's own settings; it learns nothing from what it prints."""

    called: ClassVar[str]

    def __init__(
        self, place: Place, marker: str, state: PartState, changed: Callable[[], None], *, secure: bool
    ) -> None:
        super().__init__(self.called, place, marker, state, changed)
        self._secure = secure

    def _home(self) -> Path:
        return self._place.home

    def _prepare(self) -> None:
        pass

    def _learn(self, printed: str) -> None:
        pass


@final
class SuperLink(ServerPart):
    """The process that nodes and users talk to."""

    called: ClassVar[str] = "superlink"

    def _command(self) -> list[str]:
        return superlink_command(self._place, self.state.port, secure=self._secure)

    def _ready(self, printed: str) -> bool:
        return "Uvicorn running on" in printed


@final
class SuperExec(ServerPart):
    """The process that starts a ServerApp for every run; both survive a crash of the SuperLink."""

    called: ClassVar[str] = "superexec"

    def _command(self) -> list[str]:
        return superexec_command(self._place, self.state.port, secure=self._secure)

    def _ready(self, printed: str) -> bool:
        return "Starting Flower SuperExec" in printed


@final
class SuperNode(Part[NodeState]):
    """A process that trains on one client's data."""

    def __init__(
        self,
        index: int,
        place: Place,
        marker: str,
        state: NodeState,
        changed: Callable[[], None],
        *,
        superlink: SuperLink,
        secure: bool,
    ) -> None:
        super().__init__(f"node-{index}", place, marker, state, changed)
        self.index = index
        self._superlink, self._secure = superlink, secure

    @property
    def client(self) -> int | str:
        """What records call it."""
        name = self.state.config["name"]
        return name if isinstance(name, str) else int(name)

    @property
    def node_id(self) -> int | None:
        """What the SuperLink calls it; None before it is known."""
        return self.state.node_id

    def restart(self, timeout: float = 240.0) -> None:
        """Start it again and wait until the SuperLink lets it in.

        A node with a key that was killed is refused until the SuperLink has noticed its end, which takes about a
        minute; so it is started again and again.

        Raises:
            RunError: the time is over; the message has the end of its log.
        """
        deadline = time.monotonic() + timeout
        while True:
            self.start()
            try:
                return self.wait_until_ready(max(1.0, deadline - time.monotonic()))
            except RunError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)

    def identify(self, node_id: int) -> None:
        """Take note of what the SuperLink calls it."""
        self._update(node_id=node_id)

    def reconfigure(self, **settings: bool | float | str) -> None:
        """Change what it is told about itself; it hears of it when it is started the next time."""
        self._update(config={**self.state.config, **settings})

    def _command(self) -> list[str]:
        port, link = self.state.port, self._superlink.state.port
        return supernode_command(self._place, self.name, port, link, secure=self._secure)

    def _home(self) -> Path:
        return self._place.node_home(self.name)

    def _ready(self, printed: str) -> bool:
        return NODE_ID.search(printed) is not None

    def _prepare(self) -> None:
        self._place.write_node_config(self.name, self.state.config)

    def _learn(self, printed: str) -> None:
        found = NODE_ID.search(printed)
        if found is not None and int(found[1]) != self.node_id:
            self.identify(int(found[1]))


@final
class ServerApp:
    """The process in which the strategy of a run works; the SuperExec starts it when a run is submitted."""

    def __init__(self, superexec: SuperExec, marker: str) -> None:
        self._superexec, self._marker = superexec, f"{marker}/superexec"
        self._earlier: set[Process] = set()

    def processes(self) -> list[Process]:
        """Return those that run now, one for each run; those of runs before the one submitted last are left out."""
        return sorted(self._all() - self._earlier, key=lambda each: each.pid)

    def expect_another(self) -> None:
        """Look away from those that run now: some live on for a while after their run is finished."""
        self._earlier = self._all()

    def _all(self) -> set[Process]:
        roots = [] if self._superexec.process is None else [self._superexec.process]
        return {each for each in family(roots, self._marker) if "flwr-serverapp" in argv(each)}

    @property
    def is_running(self) -> bool:
        """Whether one runs."""
        return bool(self.processes())

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Wait until one runs.

        Raises:
            RunError: the time is over.
        """
        if not until(lambda: self.is_running, timeout):
            raise RunError(f"no ServerApp was started within {timeout:g} s; {self._superexec.shown_log()}")

    def kill(self) -> None:
        """End every ServerApp by force, as a crash does.

        Raises:
            RunError: none runs.
        """
        found = self.processes()
        if not found:
            raise RunError("no ServerApp runs; submit a run first")
        for process in found:
            process.send(signal.SIGKILL)
        until(lambda: not any(process.is_running for process in found), 10.0)
