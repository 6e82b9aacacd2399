"""What tests of the server half of a deployment share."""

from __future__ import annotations

import pytest
from tests.flower.federations import clocked
from tests.flower.grids import Clock, identify

from steadfed.flower import _link as link


@pytest.fixture(autouse=True)
def _nobody_sleeps_between_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "time", Clock())


@pytest.fixture
def flowers_own_superlink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what a door changes in Flower."""
    from flwr.supercore.object_store.sql_object_store import SqlObjectStore
    from flwr.superlink import main as flower

    for owner, name in (
        (flower, "_get_middleware"),
        (flower, "create_app"),
        (SqlObjectStore, "preregister"),
        (SqlObjectStore, "put"),
        (SqlObjectStore, "get_object_tree"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let this process build messages, and wait for nodes and replies in no time."""
    identify()
    return clocked(monkeypatch)
