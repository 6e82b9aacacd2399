"""A hostile node in the place of a SuperNode: who it is, when it is let in, and that the SuperNode comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from steadfed.deploy import LocalDeployment, _drills
from steadfed.deploy._certificates import make_certificates, make_node_key
from steadfed.deploy._drills import hostile_node, in_place_of
from steadfed.deploy._folder import DeploymentFolder
from steadfed.deploy._services import SuperNode
from steadfed.deploy._state import DeploymentState, NodeState, ProcessState
from steadfed.errors import ParameterError, RunError
from steadfed.flower.redteam import HostileNode

IDS = (11, 12, None)


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalDeployment:
    """Return a deployment of three nodes, of which no process runs."""
    place, link = DeploymentFolder(tmp_path / "federation"), ProcessState(port=20000)
    place.make()
    nodes = tuple(
        NodeState(process=ProcessState(port=20001 + index), config={"name": index}, node_id=node_id)
        for index, node_id in enumerate(IDS)
    )
    state = DeploymentState(secure=True, marker="mark", superlink=link, superexec=link, nodes=nodes)
    place.save(state)
    make_certificates(place.certificates.folder, [])
    for index in range(len(IDS)):
        make_node_key(place.key(f"node-{index}"))
    deployment = LocalDeployment(place, state)
    monkeypatch.setattr(SuperNode, "stop", lambda node: DEEDS.append(f"stop {node.name}"))
    monkeypatch.setattr(SuperNode, "restart", lambda node: DEEDS.append(f"restart {node.name}"))
    DEEDS.clear()
    return deployment


DEEDS: list[str] = []


def test_it_has_the_key_of_its_node_and_knows_the_others(deployment: LocalDeployment) -> None:
    assert hostile_node(deployment, 0).neighbours == (12,)
    assert hostile_node(deployment, 2).neighbours == (11, 12)
    assert deployment.folder.key("node-1").exists()


@pytest.mark.parametrize("index", [-1, 3])
def test_a_node_that_is_none_is_refused_before_anything_is_stopped(deployment: LocalDeployment, index: int) -> None:
    with pytest.raises(ParameterError, match=r"there are the nodes 0 \.\. 2"), in_place_of(deployment, index):
        pytest.fail("it was let in")
    assert DEEDS == []


def test_without_keys_there_is_none(deployment: LocalDeployment) -> None:
    deployment.secure = False
    with pytest.raises(ParameterError, match="it is insecure"):
        hostile_node(deployment, 0)


def test_it_is_let_in_when_the_superlink_has_noticed_that_the_node_went_and_the_node_comes_back(
    deployment: LocalDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([httpx.ConnectError("away"), None])

    def enter(node: HostileNode) -> HostileNode:
        DEEDS.append("enter")
        answer = next(answers)
        if answer is not None:
            raise answer
        return node

    monkeypatch.setattr(HostileNode, "__enter__", enter)
    monkeypatch.setattr(HostileNode, "__exit__", lambda *_: DEEDS.append("go"))
    monkeypatch.setattr(_drills, "POLL", 0.0)

    def play() -> None:
        with in_place_of(deployment, 1):
            DEEDS.append("play")
            raise KeyError

    with pytest.raises(KeyError):
        play()
    assert DEEDS == ["stop node-1", "enter", "enter", "play", "go", "restart node-1"]


def test_a_superlink_that_does_not_let_it_in_is_given_up(
    deployment: LocalDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_node: Any) -> Any:
        raise httpx.ConnectError("away")

    monkeypatch.setattr(HostileNode, "__enter__", refused)
    with pytest.raises(RunError, match="does not let the hostile node in: away"), in_place_of(deployment, 1, -1.0):
        pytest.fail("it was let in")
    assert DEEDS == ["stop node-1", "restart node-1"]
