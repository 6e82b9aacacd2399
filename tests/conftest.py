"""What holds for every test: nothing of Flower reaches the outside; doctests print figures, which a CPU may change."""

import os

import pytest

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def _registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after the test whatever it registers."""
    from holdfast.simulation.tables import NAMED

    for registry in NAMED.values():
        monkeypatch.setattr(registry, "_classes", dict(registry))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.portable)
