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
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let this process build messages, and wait for nodes and replies in no time."""
    identify()
    return clocked(monkeypatch)
