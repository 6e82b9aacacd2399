"""The folder of a federation: what is written is what is read, and nobody else can."""

from __future__ import annotations

import json
import shutil
import stat
import tomllib
from pathlib import Path

import pytest

from holdfast.errors import ParameterError, RunError
from holdfast.federation import Federation
from holdfast.federation.places import FederationState, NodeState, PartState, Place, Setting
from holdfast.federation.plans import all_node_configs, asked_ports, planned

LARGE = 16251765355512388824
"""A node id above 2^63."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "federation")
    place.make()
    return place


def a_state(*, secure: bool = True, pid: int | None = None) -> FederationState:
    node = NodeState(port=20001, config={"partition-id": 0, "name": "Zurich"}, node_id=LARGE)
    link = PartState(port=20000, pid=pid, started="long ago")
    return FederationState(secure=secure, marker="mark", superlink=link, superexec=link, nodes=(node,))


def test_the_folder_is_its_owners_alone_and_not_for_git(place: Place) -> None:
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o700
    assert (place.path / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_folder_with_other_things_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("build\n", encoding="utf-8")
    tmp_path.chmod(0o755)
    with pytest.raises(RunError, match="holds things that are no federation; choose a new or an empty folder"):
        Place(tmp_path).make()
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "build\n"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_folder_is_made_once_and_used_again(place: Place) -> None:
    place.save(a_state())
    place.make()
    assert place.state() == a_state()


def test_a_state_that_was_saved_is_read_again(place: Place) -> None:
    assert place.state() is None
    place.save(a_state())
    assert place.state() == a_state()


def test_the_roster_names_nodes_by_their_exact_ids(place: Place) -> None:
    place.save(a_state())
    assert json.loads(place.roster.read_text(encoding="utf-8")) == {str(LARGE): "Zurich"}


def test_a_state_that_is_none_is_refused(place: Place) -> None:
    place.state_file.write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(RunError, match="not the state of a federation"):
        place.state()


def test_only_one_command_changes_a_federation_at_a_time(place: Place) -> None:
    with place.held(), pytest.raises(RunError, match="another command"), place.held():
        pass


def test_flower_is_told_where_the_superlink_is(place: Place) -> None:
    place.write_connection(20000, secure=True)
    secure = tomllib.loads((place.home / "config.toml").read_text(encoding="utf-8"))["superlink"]
    assert secure == {
        "default": "federation",
        "federation": {"address": "127.0.0.1:20000", "root-certificates": str(place.path / "tls" / "ca.crt")},
    }
    place.write_connection(20000, secure=False)
    insecure = tomllib.loads((place.home / "config.toml").read_text(encoding="utf-8"))["superlink"]
    assert insecure["federation"] == {"address": "127.0.0.1:20000", "insecure": True}


def test_what_a_node_is_told_may_hold_any_characters(place: Place) -> None:
    told: dict[str, Setting] = {"name": "Zürich \"Süd\" 'x' = y", "delay": 1.5, "partition-id": 0, "late": True}
    assert tomllib.loads(place.write_node_config("node-0", told).read_text(encoding="utf-8")) == told


def test_attaching_to_no_federation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no federation in"):
        Federation.attach(tmp_path / "nowhere")


def test_taking_down_what_does_not_run_does_nothing(place: Place) -> None:
    place.save(a_state(pid=1))  # the number belongs to somebody else now
    federation = Federation.attach(place.path)
    assert not federation.is_running
    federation.down()
    federation.down()
    state = place.state()
    assert state is not None
    assert state.superlink.pid is None


def test_every_node_is_told_its_part_and_its_name() -> None:
    configs = all_node_configs(3, {1: {"attack": "nan", "name": "Budapest"}})
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
        all_node_configs(nodes, extras)  # type: ignore[arg-type]


def test_a_federation_from_before_keeps_keys_ids_and_ports(place: Place) -> None:
    place.save(a_state())
    again = planned(place, secure=True, ports=None, configs=all_node_configs(2, {}))
    assert [node.node_id for node in again.nodes] == [LARGE, None]
    assert again.marker not in {"", "mark"}, "whoever brought up the one before knows its marker"
    same = planned(place, secure=True, ports=None, configs=all_node_configs(1, {}))
    assert (same.superlink.port, same.nodes[0].port) == (20000, 20001)


def test_ids_are_not_kept_without_keys(place: Place) -> None:
    place.save(a_state(secure=False))
    again = planned(place, secure=False, ports=None, configs=all_node_configs(1, {}))
    assert again.nodes[0].node_id is None


def test_a_folder_is_not_used_in_another_mode(place: Place) -> None:
    place.save(a_state(secure=True))
    with pytest.raises(RunError, match="made with TLS and node keys"):
        planned(place, secure=False, ports=None, configs=all_node_configs(1, {}))


@pytest.mark.parametrize("port", [0, -1, 65535, 70000])
def test_ports_out_of_range_are_refused(port: int) -> None:
    with pytest.raises(ParameterError, match=rf"got {port}"):
        asked_ports(4, port)
    assert asked_ports(2, 8000) == [8000, 8001, 8002]


def test_a_node_that_is_added_has_a_name_of_its_own(place: Place) -> None:
    place.save(a_state(secure=False))
    federation = Federation.attach(place.path)
    for name, message in (("Zurich", "a name of its own, got Zurich, Zurich"), ("", "is a string or a whole number")):
        with pytest.raises(ParameterError, match=message):
            federation.add_node({"name": name})
    assert len(federation.nodes) == 1
    assert federation.add_node({"name": "Basel"}).client == "Basel"
    assert [node.config["name"] for node in Federation.attach(place.path).status().nodes] == ["Zurich", "Basel"]


def test_whoever_comes_late_leaves_the_next_federation_in_the_folder_alone(place: Place) -> None:
    place.save(a_state(pid=4_000_000))
    late = Federation.attach(place.path)
    theirs = a_state(pid=4_000_001).model_copy(update={"marker": "another"})
    place.save(theirs)
    late.down()
    assert place.state() == theirs


def test_a_federation_whose_folder_was_deleted_is_taken_down(place: Place) -> None:
    place.save(a_state(pid=4_000_000))
    federation = Federation.attach(place.path)
    shutil.rmtree(place.path)
    federation.down()
    assert not place.path.exists()
