"""The folder of a federation: what is written is what is read, and nobody else can."""

from __future__ import annotations

import json
import shutil
import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from steadfed._core.signatures import SigningKey, VerificationKey
from steadfed.deploy import LocalDeployment, _ports as ports
from steadfed.deploy._deployment import _make_secrets, next_state
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._node_configs import complete_configs
from steadfed.deploy._ports import requested_ports
from steadfed.deploy._state import ConfigValue, DeploymentState, NodeState, ProcessState
from steadfed.errors import ParameterError, RunError

LARGE = 16251765355512388824
"""A node id above 2^63."""


@pytest.fixture
def folder(tmp_path: Path) -> DeploymentFolder:
    folder = DeploymentFolder(tmp_path / "federation")
    folder.make()
    return folder


def a_state(*, secure: bool = True, pid: int | None = None) -> DeploymentState:
    node = NodeState(process=ProcessState(port=20001), config={"partition-id": 0, "name": "Zurich"}, node_id=LARGE)
    link = ProcessState(port=20000, pid=pid)
    return DeploymentState(secure=secure, marker="mark", superlink=link, superexec=link, nodes=(node,))


def test_the_folder_is_its_owners_alone_and_not_for_git(folder: DeploymentFolder) -> None:
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert (folder.path / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_folder_with_other_things_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build\n", encoding="utf-8")
    tmp_path.chmod(0o755)
    with pytest.raises(RunError, match="holds things that are no federation; choose a new or an empty folder"):
        DeploymentFolder(tmp_path).make()
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "build\n"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_folder_is_made_once_and_used_again(folder: DeploymentFolder) -> None:
    folder.save(a_state())
    folder.make()
    assert folder.state() == a_state()


@pytest.mark.parametrize("secure", [True, False])
def test_every_federation_has_a_key_that_orders_are_signed_with_and_keeps_it(
    folder: DeploymentFolder, *, secure: bool
) -> None:
    _make_secrets(folder, a_state(secure=secure), [], 30)
    before = folder.signing_key.read_bytes()
    _make_secrets(folder, a_state(secure=secure), [], 30)
    assert folder.signing_key.read_bytes() == before
    assert VerificationKey.read(folder.server_key).keyid == SigningKey.read(folder.signing_key).public.keyid


def test_a_state_that_was_saved_is_read_again(folder: DeploymentFolder) -> None:
    assert folder.state() is None
    folder.save(a_state())
    assert folder.state() == a_state()


def test_the_roster_names_nodes_by_their_exact_ids(folder: DeploymentFolder) -> None:
    folder.save(a_state())
    assert json.loads(folder.roster.read_text(encoding="utf-8")) == {str(LARGE): "Zurich"}


def test_a_state_that_is_none_is_refused(folder: DeploymentFolder) -> None:
    folder.state_file.write_text('{"version": 1}', encoding="utf-8")
    with pytest.raises(RunError, match="not the state of a federation"):
        folder.state()


def test_only_one_command_changes_a_federation_at_a_time(folder: DeploymentFolder) -> None:
    with folder.lock(), pytest.raises(RunError, match="another command"), folder.lock():
        pass


def test_flower_is_told_where_the_superlink_is(folder: DeploymentFolder) -> None:
    folder.write_connection(20000, secure=True)
    secure = tomllib.loads((folder.home / "config.toml").read_text(encoding="utf-8"))["superlink"]
    assert secure == {
        "default": "federation",
        "federation": {"address": "127.0.0.1:20000", "root-certificates": str(folder.path / "tls" / "ca.crt")},
    }
    folder.write_connection(20000, secure=False)
    insecure = tomllib.loads((folder.home / "config.toml").read_text(encoding="utf-8"))["superlink"]
    assert insecure["federation"] == {"address": "127.0.0.1:20000", "insecure": True}


def test_what_a_node_is_told_may_hold_any_characters(folder: DeploymentFolder) -> None:
    told: dict[str, ConfigValue] = {"name": "Zürich \"Süd\" 'x' = y", "delay": 1.5, "partition-id": 0, "late": True}
    written = tomllib.loads(folder.write_node_config("node-0", told).read_text(encoding="utf-8"))
    assert written == {"server-key": str(folder.server_key), **told}


def test_attaching_to_no_federation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no federation in"):
        LocalDeployment.attach(tmp_path / "nowhere")


def test_taking_down_what_does_not_run_does_nothing(folder: DeploymentFolder) -> None:
    folder.save(a_state(pid=1))  # the number belongs to somebody else now
    federation = LocalDeployment.attach(folder.path)
    assert not federation.is_running
    federation.down()
    federation.down()
    state = folder.state()
    assert state is not None
    assert state.superlink.pid is None


def test_every_node_is_told_its_part_and_its_name() -> None:
    configs = complete_configs(3, {1: {"attack": "nan", "name": "Budapest"}})
    assert configs[0] == {"partition-id": 0, "num-partitions": 3, "name": 0}
    assert configs[1] == {"partition-id": 1, "num-partitions": 3, "name": "Budapest", "attack": "nan"}


@pytest.mark.parametrize(
    ("nodes", "extras", "message"),
    [
        (0, {}, "at least 1 node, got 0"),
        (2, {2: {}}, "no node 2; the 2 nodes are called 0 to 1"),
        (2, {0: {"name": 1}}, "a name of its own, got 1, 1"),
        (2, {0: {"name": "1"}}, "a name of its own"),
        (1, {0: {"name": ""}}, "is a string or a whole number"),
        (1, {0: {"name": True}}, "is a string or a whole number"),
        (1, {0: {"rates": [1, 2]}}, r"booleans, numbers and strings, got rates = \[1, 2\]"),
    ],
)
def test_nodes_that_cannot_be_are_refused(nodes: int, extras: dict[int, dict[str, object]], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        complete_configs(nodes, extras)  # type: ignore[arg-type]


def test_a_federation_from_before_keeps_keys_ids_and_ports(folder: DeploymentFolder) -> None:
    folder.save(a_state())
    again = next_state(folder, secure=True, port=None, configs=complete_configs(2, {}))
    assert [node.node_id for node in again.nodes] == [LARGE, None]
    assert again.marker not in {"", "mark"}, "whoever brought up the one before knows its marker"
    same = next_state(folder, secure=True, port=None, configs=complete_configs(1, {}))
    assert (same.superlink.port, same.nodes[0].process.port) == (20000, 20001)


def test_ids_are_not_kept_without_keys(folder: DeploymentFolder) -> None:
    folder.save(a_state(secure=False))
    again = next_state(folder, secure=False, port=None, configs=complete_configs(1, {}))
    assert again.nodes[0].node_id is None


def test_a_folder_is_not_used_in_another_mode(folder: DeploymentFolder) -> None:
    folder.save(a_state(secure=True))
    with pytest.raises(RunError, match="made with TLS and node keys"):
        next_state(folder, secure=False, port=None, configs=complete_configs(1, {}))


@pytest.mark.parametrize("port", [0, -1, 65535, 70000])
def test_ports_out_of_range_are_refused(port: int) -> None:
    with pytest.raises(ParameterError, match=rf"got {port}"):
        requested_ports(4, port)


def test_nodes_get_the_ports_after_the_superlinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port: True)
    assert requested_ports(2, 8000) == [8000, 8001, 8002]


def test_a_node_that_is_added_has_a_name_of_its_own(folder: DeploymentFolder) -> None:
    folder.save(a_state(secure=False))
    federation = LocalDeployment.attach(folder.path)
    for name, message in (("Zurich", "a name of its own, got Zurich, Zurich"), ("", "is a string or a whole number")):
        with pytest.raises(ParameterError, match=message):
            federation.add_node({"name": name})
    assert len(federation.nodes) == 1
    assert federation.add_node({"name": "Basel"}).client == "Basel"
    assert [node.config["name"] for node in LocalDeployment.attach(folder.path).status().nodes] == ["Zurich", "Basel"]


def test_whoever_comes_late_leaves_the_next_federation_in_the_folder_alone(folder: DeploymentFolder) -> None:
    folder.save(a_state(pid=4_000_000))
    late = LocalDeployment.attach(folder.path)
    theirs = a_state(pid=4_000_001).model_copy(update={"marker": "another"})
    folder.save(theirs)
    late.down()
    assert folder.state() == theirs


def test_nodes_that_come_back_at_the_same_time_are_all_written_down(folder: DeploymentFolder) -> None:
    node = a_state().nodes[0]
    state = a_state().model_copy(update={"nodes": (node,) * 8})
    folder.save(state)
    deployment = LocalDeployment(folder, state)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            list(pool.map(lambda pair: pair[1].identify(pair[0]), enumerate(deployment.nodes)))
    written = folder.state()
    assert written is not None
    assert [each.node_id for each in written.nodes] == list(range(8))


def test_a_federation_whose_folder_was_deleted_is_taken_down(folder: DeploymentFolder) -> None:
    folder.save(a_state(pid=4_000_000))
    federation = LocalDeployment.attach(folder.path)
    shutil.rmtree(folder.path)
    federation.down()
    assert not folder.path.exists()
