"""The services of a deployment, each a process: started, awaited, killed for a drill, stopped."""

from __future__ import annotations

import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import psutil

from steadfed.deploy._environment import environment
from steadfed.deploy._flower_commands import supernode_command
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._processes import end_process_tree, kill_processes, launch, process_tree, read_log, wait_until
from steadfed.deploy._state import NodeConfig, NodeState, ProcessState
from steadfed.errors import RunError

TAIL = 15
"""How many lines of a log a message shows."""
PAUSE = 3.0
"""Seconds between two attempts of a node to be let in."""
NODE_ID = re.compile(r"SuperNode ID: (\d+)")
REFUSED = "Failed to activate SuperNode"
"""What a node says that the SuperLink does not let in, perhaps because it takes it for online still."""


@final
@dataclass(frozen=True)
class ServiceContext:
    """What the services of one deployment share."""

    folder: DeploymentFolder
    marker: str
    secure: bool
    save: Callable[[], None]
    """Write down what all services know."""


class Service(ABC):
    """A process of a deployment; all it knows is written down after every change."""

    def __init__(self, name: str, context: ServiceContext, state: ProcessState) -> None:
        """Take over what was written down."""
        self.name, self.context, self.state = name, context, state
        self._child: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> list[str]:
        """Return how it is started."""

    @abstractmethod
    def _prepare_home(self) -> Path:
        """Write down what it reads when it starts, and return its FLWR_HOME."""

    @abstractmethod
    def _is_ready(self, output: str) -> bool:
        """Take note of what it printed since it was started, and return whether it is at work."""

    @property
    def log(self) -> Path:
        """What it printed, since the deployment was made."""
        return self.context.folder.log(self.name)

    @property
    def marker(self) -> str:
        """What it and all that it starts carry in their environment."""
        return f"{self.context.marker}/{self.name}"

    def processes(self) -> list[psutil.Process]:
        """Return the process that was started last, if it runs; else none."""
        process = self.state.find()
        return [] if process is None else [process]

    @property
    def is_running(self) -> bool:
        """Whether the process that was started runs."""
        return bool(self.processes())

    def start(self) -> None:
        """Start it, if it does not run; `wait_until_ready` waits for it."""
        if self.is_running:
            return
        self._reap()
        variables = environment(self._prepare_home(), self.marker)
        self.log.touch()
        log_start, created = self.log.stat().st_size, 0.0
        self._child = launch(self._command(), self.log, variables, Path.cwd())
        with suppress(psutil.NoSuchProcess):  # it may have ended already
            created = psutil.Process(self._child.pid).create_time()
        self._update(pid=self._child.pid, created=created, log_start=log_start)

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Wait until it is at work.

        Raises:
            RunError: it ended, or the time is over; the message has the end of its log.
        """
        if not wait_until(lambda: self._is_ready(self.output()) or not self.is_running, timeout):
            raise RunError(f"{self.name} was not at work after {timeout:g} s; {self.log_tail()}")
        if not self.is_running:
            raise RunError(f"{self.name} ended when it was started; {self.log_tail()}")

    def kill(self) -> None:
        """End the process alone, by force, as a crash does; what it started is left to notice."""
        kill_processes(self.processes(), patience=10.0)
        self.forget_process()

    def stop(self) -> None:
        """End it and all that it started: asked first, by force if need be. Nothing happens if nothing runs."""
        end_process_tree(self.processes(), self.marker)
        self.forget_process()

    def forget_process(self) -> None:
        """Take note that it was ended."""
        self._reap()
        if self.state.pid is not None:
            self._update(pid=None, created=0.0)

    def output(self) -> str:
        """Return what it printed since it was started, without colours."""
        return read_log(self.log, self.state.log_start)

    def log_tail(self) -> str:
        """Return the end of its log, as messages show it."""
        lines = [line.rstrip() for line in self.output().splitlines() if line.strip()][-TAIL:]
        shown = "\n  ".join(lines) if lines else "(nothing)"
        return f"the end of {self.log}:\n  {shown}"

    def _reap(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._child = None

    def _update(self, **changes: Any) -> None:
        self.state = self.state.model_copy(update=changes)
        self.context.save()


@final
class ServerService(Service):
    """A service at the server's end, with the settings of Flower's commands: the SuperLink, or its SuperExec.

    Nodes and users talk to the SuperLink; the SuperExec starts a ServerApp for every run. It and the ServerApps survive
    a crash of the SuperLink.
    """

    def __init__(
        self,
        name: str,
        context: ServiceContext,
        state: ProcessState,
        command: Callable[[], list[str]],
        *,
        ready: str,
    ) -> None:
        """Take over what was written down; `ready` is what it prints when it is at work."""
        super().__init__(name, context, state)
        self._words, self._ready = command, ready

    def _command(self) -> list[str]:
        return self._words()

    def _prepare_home(self) -> Path:
        return self.context.folder.home

    def _is_ready(self, output: str) -> bool:
        return self._ready in output


@final
class SuperNode(Service):
    """A process that trains on one client's data."""

    def __init__(self, index: int, context: ServiceContext, state: NodeState, superlink_port: int) -> None:
        super().__init__(f"node-{index}", context, state.process)
        self.config: NodeConfig = state.config
        """What it is told about itself."""
        self.registered, self.node_id = state.registered, state.node_id
        """Whether the SuperLink was told its key; what the SuperLink calls it, None before it is known."""
        self._superlink_port = superlink_port

    @property
    def client(self) -> int | str:
        """What records call it."""
        name = self.config["name"]
        return name if isinstance(name, str) else int(name)

    def node_state(self) -> NodeState:
        """Return all there is to write down."""
        return NodeState(process=self.state, config=self.config, registered=self.registered, node_id=self.node_id)

    def restart(self, timeout: float = 240.0) -> None:
        """Start it, if it does not run, and wait until the SuperLink lets it in.

        A node with a key that was killed, or whose SuperLink was, is refused until the SuperLink has noticed its end,
        which takes about a minute; so it is started again and again.

        Raises:
            RunError: the time is over, or it ended for another reason; the message has the end of its log.
        """
        deadline = time.monotonic() + timeout
        while True:
            self.start()
            try:
                return self.wait_until_ready(max(1.0, deadline - time.monotonic()))
            except RunError:
                if REFUSED not in self.output() or time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)

    def reach_through(self, port: int) -> None:
        """Reach the SuperLink through another port from the next start on, such as that of a proxy."""
        self._superlink_port = port

    def identify(self, node_id: int) -> None:
        """Take note of what the SuperLink calls it."""
        self.node_id = node_id
        self.context.save()

    def _command(self) -> list[str]:
        context = self.context
        return supernode_command(
            context.folder, self.name, self.state.port, self._superlink_port, secure=context.secure
        )

    def _prepare_home(self) -> Path:
        self.context.folder.write_node_config(self.name, self.config)
        return self.context.folder.node_home(self.name)

    def _is_ready(self, output: str) -> bool:
        found = NODE_ID.search(output)
        if found is not None and int(found[1]) != self.node_id:
            self.identify(int(found[1]))
        return found is not None


@final
class ServerApp:
    """The process in which the strategy of a run works; the SuperExec starts it when a run is submitted."""

    def __init__(self, superexec: Service) -> None:
        self._superexec = superexec
        self._earlier: set[psutil.Process] = set()

    def processes(self) -> set[psutil.Process]:
        """Return those that run now, one for each run; those of runs before the one submitted last are left out."""
        return self._all() - self._earlier

    def expect_another(self) -> None:
        """Look away from those that run now: some live on for a while after their run is finished."""
        self._earlier = self._all()

    def _all(self) -> set[psutil.Process]:
        return {
            each for each in process_tree(self._superexec.processes(), self._superexec.marker) if _is_server_app(each)
        }

    @property
    def is_running(self) -> bool:
        """Whether one runs."""
        return bool(self.processes())

    def kill(self) -> None:
        """End every ServerApp by force, as a crash does.

        Raises:
            RunError: none runs.
        """
        found = self.processes()
        if not found:
            raise RunError("no ServerApp runs; submit a run first")
        kill_processes(found, patience=10.0)


def _is_server_app(process: psutil.Process) -> bool:
    try:
        return any("flwr-serverapp" in word for word in process.cmdline())
    except psutil.Error:  # it has just ended
        return False
