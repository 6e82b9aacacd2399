"""A federation on this machine: brought up, run, looked at, taken down."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Self, final

from holdfast.errors import RunError
from holdfast.federation.certificates import Certificates, make_certificates, make_node_key, private_folder, write_new
from holdfast.federation.flower_commands import Flwr
from holdfast.federation.guardian import Guardian, watched_over
from holdfast.federation.installed import command
from holdfast.federation.parts import Part, ServerApp, SuperExec, SuperLink, SuperNode
from holdfast.federation.places import FederationState, NodeConfig, NodeState, PartState, Place, Setting
from holdfast.federation.plans import all_node_configs, asked_ports, check_configs, planned, usual_config
from holdfast.federation.ports import free_ports
from holdfast.federation.processes import end
from holdfast.federation.submitted import SubmittedRun, status_of, submit
from holdfast.values import ValueObject

FOLDER = Path(".holdfast-federation")
"""Where a federation is if nobody says otherwise."""
MOST_AT_ONCE = 4
"""How many keys are registered at the same time."""


@final
class NodeStatus(ValueObject):
    """A SuperNode as it is now."""

    client: int | str
    node_id: int | None
    pid: int | None
    running: bool
    online: bool
    config: Mapping[str, Setting]


@final
class FederationStatus(ValueObject):
    """A federation as it is now."""

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
class Federation:
    """A SuperLink and SuperNodes on loopback, in a folder that holds everything they are.

    As a context manager it takes itself down at the end; if the process that brought it up is killed, a guardian takes
    it down. `detached=True` leaves it running for other commands instead.

        with Federation.up(tmp_path / "federation", nodes=4, node_configs={3: {"attack": "nan"}}) as federation:
            run = federation.submit("examples/flower-federation", {"rounds": 3})
            federation.nodes[2].kill()
            assert run.wait(timeout=300).completed
    """

    def __init__(self, place: Place, state: FederationState) -> None:
        """Take over what was written down; use `up` or `attach`."""
        self.place, self.secure, self.marker = place, state.secure, state.marker
        self.superlink = SuperLink(place, state.marker, state.superlink, self._save, secure=state.secure)
        self.superexec = SuperExec(place, state.marker, state.superexec, self._save, secure=state.secure)
        self.nodes = [self._node(index, node) for index, node in enumerate(state.nodes)]
        self.server_app = ServerApp(self.superexec, state.marker)
        self.flwr = Flwr(place, state.marker)
        self._guardian: Guardian | None = None

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
    ) -> Federation:
        """Start a SuperLink and SuperNodes, and return when all nodes are online.

        A folder in which a federation was taken down is used again: same keys, same node ids, same database. What a
        crash left running of it is ended first.

        Args:
            folder: where everything is kept.
            nodes: how many SuperNodes.
            secure: TLS, and only nodes whose keys are registered are let in. Otherwise anybody on this machine is.
            node_configs: by the number of a node, what it is told besides partition-id, num-partitions and name.
            port: the SuperLink's; the nodes get the next ones. Free ones are chosen if left out.
            hosts: names and addresses, besides loopback, that the server certificate is good for.
            days: how long the certificates are valid.
            timeout: seconds for each part to start.
            detached: whether the federation outlives this process.

        Raises:
            ParameterError: an argument is out of range.
            RunError: a federation runs in the folder already, a port is in use, or a part did not start; everything
                that was started is stopped, and the message has the end of the log.
        """
        command("flower-superlink")
        configs = all_node_configs(nodes, node_configs or {})
        place = Place(Path(folder).absolute())
        place.make()
        with place.held():
            before = place.state()
            state = planned(place, secure=secure, ports=asked_ports(nodes, port), configs=configs)
            if before is not None:
                end([], before.marker)
            if not place.secret.exists():
                private_folder(place.secret.parent)
                write_new(place.secret, secrets.token_hex(32).encode())
            if secure:
                _certify(place, hosts, days)
            place.write_connection(state.superlink.port, secure=secure)
            federation = cls(place, state)
            place.save(state)
            try:
                if not detached:
                    federation._guardian = watched_over(place.path, state.marker)
                federation._start(timeout)
            except BaseException:
                federation._end()
                raise
        return federation

    @classmethod
    def attach(cls, folder: str | os.PathLike[str] = FOLDER) -> Federation:
        """Return the federation that was brought up in a folder, running or not.

        Raises:
            RunError: there is none.
        """
        place = Place(Path(folder).absolute())
        state = place.state()
        if state is None:
            raise RunError(f"there is no federation in {str(folder)!r}; start one with `holdfast federation up`")
        return cls(place, state)

    def __enter__(self) -> Self:
        """Be taken down at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it down."""
        self.down()

    @property
    def parts(self) -> list[Part[PartState] | Part[NodeState]]:
        """The SuperLink, its SuperExec and the nodes."""
        return [self.superlink, self.superexec, *self.nodes]

    @property
    def is_running(self) -> bool:
        """Whether any part runs."""
        return any(part.is_running for part in self.parts)

    def submit(self, app: str | os.PathLike[str], run_config: Mapping[str, Setting] | None = None) -> SubmittedRun:
        """Hand the app in a folder to the SuperLink; the run goes on by itself.

        Args:
            app: the folder with the app's pyproject.toml.
            run_config: settings that differ from the app's defaults.

        Raises:
            ParameterError: there is no app in the folder, or it has no such setting.
            RunError: the SuperLink does not run, or Flower refuses the app.
        """
        if not self.superlink.is_running:
            raise RunError(
                f"the SuperLink in {str(self.place.path)!r} does not run; start it with `holdfast federation up`"
            )
        self.server_app.expect_another()
        return submit(self.flwr, Path(app), run_config or {})

    def status(self) -> FederationStatus:
        """Look at the processes, and ask the SuperLink who is online and which runs there are."""
        online: set[int] = set()
        runs: dict[int, str] = {}
        note = ""
        if self.superlink.is_running:
            try:
                online = self.online()
                runs = {int(run["run-id"]): status_of(run).status for run in self.flwr("list", "@").get("runs", [])}
            except RunError as error:
                note = str(error)
        nodes = tuple(
            NodeStatus(
                client=node.client,
                node_id=node.node_id,
                pid=node.state.pid if node.is_running else None,
                running=node.is_running,
                online=node.is_running and node.node_id in online,
                config=node.state.config,
            )
            for node in self.nodes
        )
        pid = self.superlink.state.pid if self.superlink.is_running else None
        return FederationStatus(
            secure=self.secure, port=self.superlink.state.port, superlink=pid, nodes=nodes, runs=runs, note=note
        )

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
        told = {**usual_config(index, index + 1), **(config or {})}
        check_configs([*(node.state.config for node in self.nodes), told])
        state = NodeState(port=free_ports(1)[0], config=told, registered=registered)
        node = self._node(index, state)
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
        with self.place.held() if self.place.path.is_dir() else nullcontext():
            self._end()

    def _end(self) -> None:
        roots = [part.process for part in self.parts if part.process is not None]
        end(roots, self.marker, reap=self._reap)
        for part in self.parts:
            part.ended()
        if self._guardian is not None:
            self._guardian.dismiss()
            self._guardian = None

    def _reap(self) -> None:
        for part in self.parts:
            part.reap()

    def _start(self, timeout: float) -> None:
        self.superlink.start()
        self.superlink.wait_until_ready(timeout)
        self.superexec.start()
        self._register(self.nodes)
        for node in self.nodes:
            node.start()
        for part in self.parts[1:]:
            part.wait_until_ready(timeout)
        online = self.online()
        missing = [node.name for node in self.nodes if node.node_id not in online]
        if missing:
            raise RunError(f"the SuperLink does not see {', '.join(missing)}; look into {self.superlink.log}")

    def _register(self, nodes: Iterable[SuperNode]) -> None:
        """Make the keys that are missing, and tell the SuperLink those it does not know."""
        if not self.secure:
            return
        for node in nodes:
            if not self.place.key(node.name).exists():
                make_node_key(self.place.key(node.name))
        new = [node for node in nodes if node.state.registered and node.node_id is None]
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            for node, node_id in zip(new, pool.map(self._registered, new), strict=True):
                node.identify(node_id)

    def _registered(self, node: SuperNode) -> int:
        public = self.place.key(node.name).with_name(f"{node.name}.pub")
        return int(self.flwr("supernode", "register", str(public), "@")["node-id"])

    def _node(self, index: int, state: NodeState) -> SuperNode:
        return SuperNode(
            index, self.place, self.marker, state, self._save, superlink=self.superlink, secure=self.secure
        )

    def _save(self) -> None:
        """Write down what runs, unless the folder is gone or somebody else's by now."""
        if not self.place.belongs_to(self.marker):
            return
        nodes = tuple(node.state for node in self.nodes)
        self.place.save(
            FederationState(
                secure=self.secure,
                marker=self.marker,
                superlink=self.superlink.state,
                superexec=self.superexec.state,
                nodes=nodes,
            )
        )


def _certify(place: Place, hosts: Sequence[str], days: int) -> None:
    """Make the certificates, or see to it that those from before will do."""
    files = Certificates(place.certificates)
    if files.exist:
        files.check(hosts)
    else:
        make_certificates(place.certificates, hosts, days)
