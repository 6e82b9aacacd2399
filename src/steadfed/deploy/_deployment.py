"""A deployment on this machine: brought up, run, looked at, taken down."""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Self, final

from steadfed._core.values import ValueObject
from steadfed.deploy._certificates import (
    make_certificates,
    make_node_key,
    make_signing_key,
    private_folder,
    write_new,
)
from steadfed.deploy._environment import command
from steadfed.deploy._flower_commands import Flwr, superexec_command, superlink_command
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._guardian import start_guardian
from steadfed.deploy._node_configs import check_configs, complete_configs, default_config
from steadfed.deploy._ports import free_ports, is_free, requested_ports
from steadfed.deploy._processes import end_process_tree
from steadfed.deploy._services import ServerApp, ServerService, Service, ServiceContext, SuperNode
from steadfed.deploy._state import ConfigValue, DeploymentState, NodeConfig, NodeState, ProcessState
from steadfed.deploy._submission import SubmittedRun, app_config, status_of, submit
from steadfed.errors import RunError

FOLDER = Path(".steadfed-federation")
"""Where a deployment is if nobody says otherwise."""
SUPERLINK_READY, SUPEREXEC_READY = "Uvicorn running on", "Starting Flower SuperExec"
"""What they print when they are at work."""
MOST_AT_ONCE = 4
"""How many keys are registered at the same time."""


@final
class NodeStatus(ValueObject):
    """A SuperNode as it is now."""

    client: int | str
    node_id: int | None
    pid: int | None
    """The number of its process; None if it does not run."""
    online: bool
    config: Mapping[str, ConfigValue]


@final
class DeploymentStatus(ValueObject):
    """A deployment as it is now."""

    secure: bool
    port: int
    superlink: int | None
    """The number of the SuperLink's process; None if it does not run."""
    nodes: tuple[NodeStatus, ...]
    runs: Mapping[int, str] = {}
    """The runs it knows, the newest first, and how far they are."""
    note: str = ""
    """Why the SuperLink did not answer, if it did not."""

    @property
    def healthy(self) -> bool:
        """Whether the SuperLink runs and every node is online."""
        return self.superlink is not None and all(node.online for node in self.nodes)


@final
class LocalDeployment:
    """A SuperLink and SuperNodes on loopback, in a folder that holds everything they are.

    As a context manager it takes itself down at the end; if the process that brought it up is killed, a guardian takes
    it down. `detached=True` leaves it running for other commands instead.

        with LocalDeployment.up(tmp_path / "federation", nodes=4, node_configs={3: {"attack": "nan"}}) as deployment:
            run = deployment.submit("examples/flower-federation", {"rounds": 3})
            deployment.nodes[2].kill()
            assert run.wait(timeout=300).completed
    """

    def __init__(self, folder: DeploymentFolder, state: DeploymentState) -> None:
        """Take over what was written down; use `up` or `attach`."""
        self.folder, self.secure, self.marker = folder, state.secure, state.marker
        self._saving = threading.Lock()
        self.flwr = Flwr(folder, state.marker)
        self._context = ServiceContext(folder, state.marker, state.secure, self._save)
        port, secure = state.superlink.port, state.secure
        link, execute = (partial(each, folder, port, secure=secure) for each in (superlink_command, superexec_command))
        self.superlink = ServerService("superlink", self._context, state.superlink, link, ready=SUPERLINK_READY)
        self.superexec = ServerService("superexec", self._context, state.superexec, execute, ready=SUPEREXEC_READY)
        self.server_app = ServerApp(self.superexec)
        self.nodes = [SuperNode(index, self._context, node, port) for index, node in enumerate(state.nodes)]
        self._guardian: subprocess.Popen[bytes] | None = None

    @classmethod
    def up(  # noqa: PLR0913
        cls,
        folder: str | os.PathLike[str] = FOLDER,
        *,
        nodes: int = 4,
        secure: bool = True,
        node_configs: Mapping[int, NodeConfig] | None = None,
        port: int | None = None,
        hosts: Sequence[str] = (),
        days: int = 365,
        timeout: float = 90.0,
        detached: bool = False,
    ) -> LocalDeployment:
        """Start a SuperLink and SuperNodes, and return when all nodes are online.

        A folder in which a deployment was taken down is used again: same keys, same node ids, same database. What a
        crash left running of it is ended first.

        Args:
            folder: where everything is kept.
            nodes: how many SuperNodes.
            secure: TLS, and only nodes whose keys are registered are let in. Otherwise anybody on this machine is.
            node_configs: by the number of a node, what it is told besides partition-id, num-partitions and name.
            port: the SuperLink's; the nodes get the next ones. Free ones are chosen if left out.
            hosts: names and addresses, besides loopback, that the server certificate is good for.
            days: how long the certificates are valid.
            timeout: seconds for each process to start.
            detached: whether the deployment outlives this process.

        Raises:
            ParameterError: an argument is out of range.
            RunError: a deployment runs in the folder already, a port is in use, or a process did not start; everything
                that was started is stopped, and the message has the end of the log.
        """
        command("flower-superlink")
        configs = complete_configs(nodes, node_configs or {})
        place = DeploymentFolder(Path(folder).absolute())
        place.make()
        with place.lock():
            before = place.state()
            state = next_state(place, secure=secure, port=port, configs=configs)
            if before is not None:
                end_process_tree([], before.marker)
            _make_secrets(place, state, hosts, days)
            deployment = cls(place, state)
            place.save(state)
            try:
                if not detached:
                    deployment._guardian = start_guardian(place.path, state.marker)
                deployment._start(timeout)
            except BaseException:
                deployment._end()
                raise
        return deployment

    @classmethod
    def attach(cls, folder: str | os.PathLike[str] = FOLDER) -> LocalDeployment:
        """Return the deployment that was brought up in a folder, running or not.

        Raises:
            RunError: there is none.
        """
        place = DeploymentFolder(Path(folder).absolute())
        state = place.state()
        if state is None:
            raise RunError(f"there is no federation in {str(folder)!r}; start one with `steadfed federation up`")
        return cls(place, state)

    def __enter__(self) -> Self:
        """Be taken down at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take it down."""
        self.down()

    @property
    def services(self) -> list[Service]:
        """The SuperLink, its SuperExec and the nodes."""
        return [self.superlink, self.superexec, *self.nodes]

    @property
    def is_running(self) -> bool:
        """Whether any service runs."""
        return any(service.is_running for service in self.services)

    def submit(self, app: str | os.PathLike[str], run_config: Mapping[str, ConfigValue] | None = None) -> SubmittedRun:
        """Hand the app in a folder to the SuperLink; the run goes on by itself.

        Args:
            app: the folder with the app's pyproject.toml.
            run_config: settings that differ from the app's defaults. `signing-key`, if the app has it, is the key that
                the nodes know the server by, unless something else is said.

        Raises:
            ParameterError: there is no app in the folder, or it has no such setting.
            RunError: the SuperLink does not run, or Flower refuses the app.
        """
        if not self.superlink.is_running:
            raise RunError(
                f"the SuperLink in {str(self.folder.path)!r} does not run; begin anew with `steadfed federation down` "
                f"and `steadfed federation up`: keys, certificates and names stay"
            )
        settings = dict(run_config or {})
        if "signing-key" in app_config(Path(app)):
            settings.setdefault("signing-key", str(self.folder.signing_key))
        self.server_app.expect_another()
        return submit(self.flwr, Path(app), settings)

    def status(self) -> DeploymentStatus:
        """Look at the processes, and ask the SuperLink who is online and which runs there are."""
        online: set[int] = set()
        runs: dict[int, str] = {}
        note = ""
        superlink = _pid(self.superlink)
        if superlink is not None:
            try:
                online = self.online()
                runs = {int(run["run-id"]): status_of(run).status for run in self.flwr("list", "@").get("runs", [])}
            except RunError as error:
                note = str(error)
        pids = [_pid(node) for node in self.nodes]
        nodes = tuple(
            NodeStatus(
                client=node.client,
                node_id=node.node_id,
                pid=pid,
                online=pid is not None and node.node_id in online,
                config=node.config,
            )
            for node, pid in zip(self.nodes, pids, strict=True)
        )
        port = self.superlink.state.port
        return DeploymentStatus(secure=self.secure, port=port, superlink=superlink, nodes=nodes, runs=runs, note=note)

    def online(self) -> set[int]:
        """Return the ids of the nodes that the SuperLink says are online.

        Raises:
            RunError: the SuperLink does not answer.
        """
        listed = self.flwr("supernode", "list", "@").get("nodes", [])
        return {int(node["node-id"]) for node in listed if node.get("status") == "online"}

    def add_node(self, config: NodeConfig | None = None, *, registered: bool = True) -> SuperNode:
        """Return one more node, which is not started yet.

        Args:
            config: what it is told besides partition-id, num-partitions and name.
            registered: whether the SuperLink is told its key; if not, a secure one will not let it in.

        Raises:
            ParameterError: its name is none, or another node's; or it is told what no node can be told.
            RunError: the SuperLink does not take its key.
        """
        index = len(self.nodes)
        told = {**default_config(index, index + 1), **(config or {})}
        check_configs([*(node.config for node in self.nodes), told])
        state = NodeState(process=ProcessState(port=free_ports(1)[0]), config=told, registered=registered)
        node = SuperNode(index, self._context, state, self.superlink.state.port)
        self.nodes.append(node)
        self._register([node])
        self._save()
        return node

    def down(self) -> None:
        """Stop everything, by force if need be; nothing happens if nothing runs. The folder stays.

        Also after a crash of the machine or of who brought it up: what runs is known by start time, not number alone.
        If somebody has taken it down since and brought up another in the folder, that one is left alone.

        Raises:
            RunError: another command is starting or stopping it, or a process cannot be ended.
        """
        with self.folder.lock() if self.folder.path.is_dir() else nullcontext():
            self._end()

    def _end(self) -> None:
        end_process_tree([process for service in self.services for process in service.processes()], self.marker)
        for service in self.services:
            service.forget_process()
        if self._guardian is not None:
            self._guardian.kill()
            self._guardian.wait()
            self._guardian = None

    def _start(self, timeout: float) -> None:
        self.superlink.start()
        self.superlink.wait_until_ready(timeout)
        self.superexec.start()
        self._register(self.nodes)
        for node in self.nodes:
            node.start()
        self.superexec.wait_until_ready(timeout)
        for node in self.nodes:
            node.restart(timeout)
        online = self.online()
        missing = [node.name for node in self.nodes if node.node_id not in online]
        if missing:
            raise RunError(f"the SuperLink does not see {', '.join(missing)}; look into {self.superlink.log}")

    def _register(self, nodes: Iterable[SuperNode]) -> None:
        """Make the keys that are missing, and tell the SuperLink those it does not know."""
        if not self.secure:
            return
        for node in nodes:
            if not self.folder.key(node.name).exists():
                make_node_key(self.folder.key(node.name))
        new = [node for node in nodes if node.registered and node.node_id is None]
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            for node, node_id in zip(new, pool.map(self._register_key, new), strict=True):
                node.identify(node_id)

    def _register_key(self, node: SuperNode) -> int:
        public = self.folder.key(node.name).with_name(f"{node.name}.pub")
        return int(self.flwr("supernode", "register", str(public), "@")["node-id"])

    def _save(self) -> None:
        """Write down what runs, unless the folder is gone or somebody else's by now; nodes come and go in threads."""
        with self._saving:
            if not self.folder.belongs_to(self.marker):
                return
            nodes = tuple(node.node_state() for node in self.nodes)
            superlink, superexec = self.superlink.state, self.superexec.state
            self.folder.save(
                DeploymentState(
                    secure=self.secure, marker=self.marker, superlink=superlink, superexec=superexec, nodes=nodes
                )
            )


def next_state(
    folder: DeploymentFolder, *, secure: bool, port: int | None, configs: Sequence[NodeConfig]
) -> DeploymentState:
    """Return what is to be started, with what is remembered of a deployment that was here before.

    The marker is new, so that whoever brought up the one before cannot end this one by mistake.

    Raises:
        ParameterError: the port is none, or leaves none for the nodes.
        RunError: a deployment runs in the folder, it was made in another mode, or a port is in use.
    """
    before = folder.state()
    known: dict[int, int | None] = {}
    ports = None
    if before is not None:
        _check_successor(folder, before, secure=secure)
        known = {index: node.node_id for index, node in enumerate(before.nodes) if secure and node.registered}
        ports = before.ports if len(before.nodes) == len(configs) and all(map(is_free, before.ports)) else None
    if port is not None:
        ports = requested_ports(len(configs), port)
    first, *others = ports or free_ports(len(configs) + 1)
    nodes = tuple(
        NodeState(process=ProcessState(port=each), config=config, node_id=known.get(index))
        for index, (each, config) in enumerate(zip(others, configs, strict=True))
    )
    server = ProcessState(port=first)
    return DeploymentState(secure=secure, marker=secrets.token_hex(8), superlink=server, superexec=server, nodes=nodes)


def _check_successor(folder: DeploymentFolder, before: DeploymentState, *, secure: bool) -> None:
    if before.processes():
        raise RunError(
            f"processes of a federation run in {str(folder.path)!r} already (a SuperLink at port "
            f"{before.superlink.port} and {len(before.nodes)} nodes were started); look with `steadfed federation "
            f"status`, stop it with `steadfed federation down`, or choose another folder with --folder"
        )
    if before.secure != secure:
        mode = "with TLS and node keys" if before.secure else "without TLS"
        raise RunError(
            f"the federation in {str(folder.path)!r} was made {mode}; choose another folder, or delete this one with "
            f"`steadfed federation down --delete`"
        )


def _make_secrets(folder: DeploymentFolder, state: DeploymentState, hosts: Sequence[str], days: int) -> None:
    """Make what the services trust each other by, or see to it that what is there will do."""
    if not folder.secret.exists():
        private_folder(folder.secret.parent)
        write_new(folder.secret, secrets.token_hex(32).encode())
    make_signing_key(folder.signing_key, folder.server_key)
    if state.secure and folder.certificates.exist:
        folder.certificates.check(hosts)
    elif state.secure:
        make_certificates(folder.certificates.folder, hosts, days)
    folder.write_connection(state.superlink.port, secure=state.secure)


def _pid(service: Service) -> int | None:
    """Return the number of the process of a service that runs."""
    return service.state.pid if service.is_running else None
