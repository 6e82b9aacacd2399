"""The folder of a deployment: everything it is and remembers, and nothing outside of it.

    state.json    what runs: numbers and creation times of processes, ports, mode
    nodes.json    {"<node id>": name}, what a strategy's `nodes` reads
    tls/, keys/   the authority, the server certificate; a key pair for every node (secure federations only); the key
                  pair that orders are signed with; the secret between the SuperLink and its SuperExec
    nodes/        what every node is told about itself, and its apps
    flwr-home/    settings of Flower's commands (FLWR_HOME) and the apps of the SuperLink
    database/     the SuperLink's memory
    logs/         what every process printed

Nobody but the owner can enter it, and git ignores it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

import tomli_w
from pydantic import ValidationError

from steadfed._core.durable import replace_file, sole_holder
from steadfed.deploy._certificates import Certificates
from steadfed.deploy._ports import HOST
from steadfed.deploy._state import DeploymentState, NodeConfig
from steadfed.errors import RunError

CONNECTION = "federation"
"""What Flower's commands call the SuperLink of the folder."""


@final
class DeploymentFolder:
    """Where the things of a deployment are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state_file = path / "state.json"
        """What runs."""
        self.roster = path / "nodes.json"
        """Who the nodes are."""
        self.certificates = Certificates(path / "tls")
        """The authority and the server certificate."""
        self.home = path / "flwr-home"
        """FLWR_HOME of the SuperLink and of commands."""
        self.database = path / "database" / "superlink.db"
        """The SuperLink's memory."""
        self.signing_key = path / "keys" / "server-signing.pem"
        """What the server signs its orders with; whoever has it can give orders to every node."""
        self.server_key = path / "tls" / "server-signing.pub.pem"
        """Its public half: what every node must have."""
        self.secret = path / "keys" / "superexec.secret"
        """What the SuperLink and its SuperExec know each other by."""

    def key(self, name: str) -> Path:
        """Return the private key of a node."""
        return self.path / "keys" / name

    def log(self, name: str) -> Path:
        """Return the log of a process."""
        return self.path / "logs" / f"{name}.log"

    def node_home(self, name: str) -> Path:
        """Return FLWR_HOME of a node."""
        return self.path / "nodes" / name

    def node_config(self, name: str) -> Path:
        """Return the file that says what a node is told about itself."""
        return self.path / "nodes" / f"{name}.toml"

    def make(self) -> None:
        """Make the folder, if need be.

        Raises:
            RunError: it cannot be made, or holds other things: it is closed to others, hidden from git, and deleted
                as a whole by `steadfed federation down --delete`.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self.path.iterdir()) and not self.home.is_dir():
                raise RunError(
                    f"{str(self.path)!r} holds things that are no federation; choose a new or an empty folder"
                )
            self.path.chmod(0o700)
            for name in ("flwr-home", "logs", "nodes", "database"):
                (self.path / name).mkdir(exist_ok=True)
            (self.path / ".gitignore").write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise RunError(
                f"cannot make the folder {str(self.path)!r}: {error.strerror}; choose a place that can be written"
            ) from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other commands from changing the deployment meanwhile.

        Raises:
            RunError: another command does.
        """
        try:
            with sole_holder(self.path / "lock"):
                yield
        except BlockingIOError:
            raise RunError(
                f"another command is starting or stopping the federation in {str(self.path)!r}; wait until it is done"
            ) from None

    def state(self) -> DeploymentState | None:
        """Return what was written down; None if nothing was deployed here.

        Raises:
            RunError: the file cannot be read.
        """
        try:
            return DeploymentState.model_validate_json(self.state_file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
            raise RunError(
                f"{str(self.state_file)!r} is not the state of a federation of this version of steadfed: {what}"
            ) from None

    def belongs_to(self, marker: str) -> bool:
        """Return whether what was written down is of the deployment with this marker."""
        try:
            written = self.state()
        except RunError:
            return False
        return written is not None and written.marker == marker

    def save(self, state: DeploymentState) -> None:
        """Write down what runs, and who the nodes are."""
        roster = {str(node.node_id): node.config["name"] for node in state.nodes if node.node_id is not None}
        replace_file(self.roster, _json(roster))
        replace_file(self.state_file, _json(state.model_dump()))

    def write_connection(self, port: int, *, secure: bool) -> None:
        """Tell Flower's commands where the SuperLink is."""
        trust = {"root-certificates": str(self.certificates.authority)} if secure else {"insecure": True}
        connection = {"address": f"{HOST}:{port}", **trust}
        table = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
        (self.home / "config.toml").write_text(tomli_w.dumps(table), encoding="utf-8")

    def write_node_config(self, name: str, config: NodeConfig) -> Path:
        """Write down what a node is told about itself, and return the file."""
        file = self.node_config(name)
        self.node_home(name).mkdir(exist_ok=True)
        file.write_text(tomli_w.dumps({"server-key": str(self.server_key), **config}), encoding="utf-8")
        return file


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"
