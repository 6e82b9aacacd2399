"""The reverse proxy of the guide, run as the guide prints it: only ports and places of files are put in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from steadfed.deploy import LocalDeployment, _deployment, _services
from steadfed.deploy._certificates import make_certificates
from steadfed.deploy._environment import command
from steadfed.deploy._flower_commands import superlink_command, supernode_command
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._ports import free_ports
from steadfed.deploy._processes import wait_until

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "deploy-with-flower.md"
HOST = "superlink.example.org"
"""The name in the guide."""


def configuration(folder: Path, tls: Path, *, port: int, superlink: int) -> str:
    """Return what the guide says, with this machine's ports and files, and what nginx needs around it."""
    (block,) = re.findall(r"^```nginx\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for name, value in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "127.0.0.1:8000": f"127.0.0.1:{superlink}",
        "/etc/steadfed": str(tls),
    }.items():
        assert name in block, f"the guide's nginx does not say {name!r}"
        block = block.replace(name, value)
    places = "".join(
        f"{each}_temp_path {folder}/{each};\n" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""
    log = f"error_log {folder}/error.log;\npid {folder}/nginx.pid;\n"
    return f"{user}{log}events {{}}\nhttp {{\naccess_log {folder}/access.log;\n{places}{block}}}\n"


@contextmanager
def behind_nginx(folder: Path, nodes: int, timeout: float) -> Iterator[tuple[LocalDeployment, str]]:
    """Bring up a federation whose nodes reach Flower's own SuperLink, without our door, through nginx alone."""
    folder.mkdir()
    tls = folder / "tls"
    make_certificates(tls, [HOST])  # nginx needs them before the nodes come
    (port,) = free_ports(1)
    superlink, *_ = free_ports(nodes + 1)  # the nodes get the next ones

    def bare(place: DeploymentFolder, number: int, *, secure: bool) -> list[str]:
        words = superlink_command(place, number, secure=secure)
        return [command("flower-superlink"), *words[words.index("steadfed.flower.superlink") + 1 :]]

    def proxied(place: DeploymentFolder, name: str, own: int, _number: int, *, secure: bool) -> list[str]:
        return supernode_command(place, name, own, port, secure=secure)

    def copied(place: Path, *_: object) -> None:
        shutil.copytree(tls, place, dirs_exist_ok=True)

    with (
        patch.object(_deployment, "superlink_command", bare),
        patch.object(_deployment, "make_certificates", copied),
        patch.object(_services, "supernode_command", proxied),
    ):
        file = folder / "nginx.conf"
        file.write_text(configuration(folder, tls, port=port, superlink=superlink), encoding="utf-8")
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        words = ["setpriv", "--pdeathsig", "TERM", nginx, "-p", str(folder), "-c", str(file), "-g", "daemon off;"]
        with subprocess.Popen(words) as process:  # noqa: S603  nginx as the guide has it, which ends with this process
            try:
                assert wait_until((folder / "nginx.pid").exists, timeout)
                with LocalDeployment.up(
                    folder / "federation", nodes=nodes, port=superlink, hosts=[HOST], timeout=timeout
                ) as federation:
                    yield federation, f"127.0.0.1:{port}"
            finally:
                process.terminate()
