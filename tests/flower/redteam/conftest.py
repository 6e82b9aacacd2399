"""Messages can be built without a run."""

from __future__ import annotations

import pytest
from flwr.supercore.task_identity import TaskIdentity

from steadfed.flower import client


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture(autouse=True)
def _replies_hold_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bytes of two replies be compared."""
    monkeypatch.setattr(client, "with_secret", lambda arrays: arrays)
