"""What Flower's commands are told, as lists of words; and its `flwr`, run and read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from steadfed.deploy._environment import command, environment
from steadfed.deploy._folder import CONNECTION, DeploymentFolder
from steadfed.deploy._ports import HOST
from steadfed.errors import RunError

LONGEST_COMMAND = 120.0
"""Seconds after which a command of Flower is given up."""


def superlink_command(folder: DeploymentFolder, port: int, *, secure: bool) -> list[str]:
    """Return how a SuperLink is started: one port, a database, and nothing installed when an app is run.

    It is Flower's own behind a door that refuses what no honest node sends (`steadfed.flower.superlink`). It is told
    not to start its own SuperExec, which would end with it, and the run in progress with both.
    """
    files = folder.certificates
    trust = [
        *("--ssl-ca-certfile", str(files.authority)),
        *("--ssl-certfile", str(files.server)),
        *("--ssl-keyfile", str(files.server_key)),
        "--enable-supernode-auth",
    ]
    return [
        *(sys.executable, "-P", "-m", "steadfed.flower.superlink"),  # whatever lies where one happens to be
        *("--host", HOST),
        *("--port", str(port)),
        *("--database", str(folder.database)),
        *("--isolation", "process"),
        *("--superexec-auth-secret-file", str(folder.secret)),
        "--disable-runtime-dependency-installation",
        *(trust if secure else ["--insecure"]),
    ]


def superexec_command(folder: DeploymentFolder, superlink_port: int, *, secure: bool) -> list[str]:
    """Return how the process is started that starts a ServerApp for every run."""
    return [
        command("flower-superexec"),
        *("--runtime-api-address", f"{HOST}:{superlink_port}"),
        *("--superexec-auth-secret-file", str(folder.secret)),
        *(["--root-certificates", str(folder.certificates.authority)] if secure else ["--insecure"]),
    ]


def supernode_command(
    folder: DeploymentFolder, name: str, port: int, superlink_port: int, *, secure: bool
) -> list[str]:
    """Return how a SuperNode is started."""
    trust = [
        *("--root-certificates", str(folder.certificates.authority)),
        *("--auth-supernode-private-key", str(folder.key(name))),
    ]
    return [
        command("flower-supernode"),
        *("--superlink", f"{HOST}:{superlink_port}"),
        *("--host", HOST),
        *("--port", str(port)),
        *("--node-config", str(folder.node_config(name))),
        *(trust if secure else ["--insecure"]),
    ]


@final
@dataclass(frozen=True)
class Flwr:
    """Flower's command `flwr`, talking to the SuperLink of a deployment."""

    folder: DeploymentFolder
    marker: str

    def words(self, *words: str) -> list[str]:
        """Return a command in full; `@` stands for the SuperLink."""
        return [command("flwr"), *(CONNECTION if word == "@" else word for word in words)]

    def environment(self) -> dict[str, str]:
        """Return the environment that the command runs in."""
        return environment(self.folder.home, f"{self.marker}/command")

    def __call__(self, *words: str) -> Mapping[str, Any]:
        """Run a command and return what it answers.

        Its exit code says nothing: it is 0 for some failures. The answer says whether it succeeded.

        Raises:
            RunError: it failed; the message is Flower's.
        """
        try:
            done = subprocess.run(  # noqa: S603  the command is Flower's
                [*self.words(*words), "--format", "json"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=self.environment(),
                timeout=LONGEST_COMMAND,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"`flwr {words[0]}` did not answer within {LONGEST_COMMAND:.0f} s") from None
        return answer(words, done.stdout, done.stderr)


def answer(words: Sequence[str], output: str, errors: str) -> Mapping[str, Any]:
    """Return the answer in the output of a command; whole numbers of any size stay exact.

    >>> answer(["list"], 'Loading … {"success": true, "node-id": 16251765355512388824}', "")["node-id"]
    16251765355512388824
    """
    try:
        found = json.loads(output[output.index("{") : output.rindex("}") + 1])
    except ValueError:
        found = {}
    if isinstance(found, dict) and found.get("success"):
        return found
    said = found.get("error-message") if isinstance(found, dict) else None
    reason = " ".join(str(said or errors.strip() or output.strip() or "it said nothing").split())
    raise RunError(f"`flwr {' '.join(words[:2])}` failed: {reason[-600:]}")
