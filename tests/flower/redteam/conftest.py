"""Messages can be built without a run; one thread of torch."""

from __future__ import annotations

import pytest
from flwr.supercore.task_identity import TaskIdentity
from tests.threads import single_thread

__all__ = ["single_thread"]


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
