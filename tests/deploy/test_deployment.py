"""Real processes on loopback: brought up, broken, taken down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steadfed.deploy import LocalDeployment
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._processes import process_tree, wait_until
from steadfed.errors import RunError

pytestmark = pytest.mark.federation

BRING_UP = """
import sys, time
from steadfed.deploy import LocalDeployment
with LocalDeployment.up(sys.argv[1], nodes=1, secure=False):
    print("up", flush=True)
    time.sleep(600)
"""


def test_a_secure_federation_lets_registered_nodes_in_and_nobody_else(tmp_path: Path) -> None:
    with LocalDeployment.up(tmp_path / "federation", nodes=1, node_configs={0: {"attack": "nan"}}) as federation:
        status = federation.status()
        assert status.healthy
        assert [(node.client, node.config["attack"]) for node in status.nodes] == [(0, "nan")]
        stranger = federation.add_node(registered=False)
        stranger.start()
        with pytest.raises(RunError, match="node-1 ended when it was started"):
            stranger.wait_until_ready(60.0)
        assert stranger.node_id is None
        with pytest.raises(RunError, match=r"run in .* already"):
            LocalDeployment.up(tmp_path / "federation")
        node_id = federation.nodes[0].node_id
        federation.nodes[0].stop()
        federation.nodes[0].restart()
        assert federation.nodes[0].node_id == node_id
    assert not federation.is_running
    assert process_tree([], federation.marker) == set()
    assert not LocalDeployment.attach(tmp_path / "federation").status().healthy


@pytest.mark.slow
def test_a_federation_whose_superlink_was_killed_comes_up_again_with_the_same_nodes(tmp_path: Path) -> None:
    """The SuperLink takes the nodes for online until it has missed them for about a minute."""
    with LocalDeployment.up(tmp_path / "federation", nodes=1) as federation:
        node_id = federation.nodes[0].node_id
        federation.superlink.kill()
        with pytest.raises(RunError, match=r"does not run; begin anew with"):
            federation.submit(tmp_path)
    with LocalDeployment.up(tmp_path / "federation", nodes=1) as again:
        assert again.status().healthy
        assert again.nodes[0].node_id == node_id


def test_a_federation_ends_with_the_process_that_brought_it_up(tmp_path: Path) -> None:
    folder = tmp_path / "federation"
    with subprocess.Popen([sys.executable, "-c", BRING_UP, str(folder)], stdout=subprocess.PIPE) as owner:  # noqa: S603
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        owner.kill()
    state = DeploymentFolder(folder).state()
    assert state is not None
    assert wait_until(lambda: not process_tree(state.processes(), state.marker), 60.0)


def test_what_cannot_start_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "sitecustomize.py"
    broken.write_text("import sys\nif 'supernode' in sys.argv[0]: sys.exit('broken on purpose')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(RunError, match=r"node-0 ended when it was started(.|\n)*broken on purpose"):
        LocalDeployment.up(tmp_path / "federation", nodes=1, secure=False)
    federation = LocalDeployment.attach(tmp_path / "federation")
    assert not federation.is_running
    assert process_tree([], federation.marker) == set()


def test_ctrl_c_while_starting_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "federation"
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # tests in the background do not
    command = [sys.executable, "-c", f"{hears}; from steadfed._cli import main; main()"]
    words = [*command, "federation", "up", "--nodes", "1", "--insecure", "--folder", str(folder)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True) as starting:  # noqa: S603
        assert wait_until((folder / "logs" / "superlink.log").exists, 60.0)
        os.killpg(starting.pid, signal.SIGINT)
        _, errors = starting.communicate(timeout=60)
    assert starting.returncode == 130
    assert b"Traceback" not in errors
    state = DeploymentFolder(folder).state()
    assert state is not None
    assert process_tree(state.processes(), state.marker) == set()
