"""What tests of the server half of a deployment share."""

from __future__ import annotations

import pytest
from tests.flower.federations import clocked
from tests.flower.grids import Clock, identify


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Let this process build messages, and wait for nodes and replies in no time."""
    identify()
    return clocked(monkeypatch)
