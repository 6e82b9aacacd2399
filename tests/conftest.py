"""What holds for every test: nothing of Flower reaches the outside, torch has one thread, nobody waits for the disk.

No example of hypothesis is timed: a busy machine is no failure. Doctests print figures, which a CPU may change.
"""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from tests.shared import session_folder, shared_folder

hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def pytest_collection_finish() -> None:
    """Keep the collector of garbage away from modules and tests, which stay: else it would look at all of them again.

    Flower's strategies call it in every round.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Give torch one thread, as worker processes have: small tensors are fastest so, by far on a busy machine.

    Tests that compare this process with worker processes ask for `two_threads`.
    """
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Give torch two threads, as it has outside of worker processes on a machine with two cores."""
    import torch

    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting() -> Iterator[None]:
    """Let the disk take its time: what a process has written, the next one reads, with or without fsync.

    That it is called, and in which order, is for tests/test_durable.py.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def convex_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of a complete run to which the theorems apply, one for all tests: do not change it."""
    from tests.certification.small import convex, played

    with shared_folder(session_folder(tmp_path_factory), "convex", lambda path: played(path, convex())) as path:
        yield path


@pytest.fixture
def own_convex_run(convex_run: Path, tmp_path: Path) -> Path:
    """Return a copy of the complete run that a test may change."""
    return Path(shutil.copytree(convex_run, tmp_path / "run"))


@pytest.fixture
def _registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after the test whatever it registers."""
    from steadfed.simulation._tables import NAMED

    for registry in NAMED.values():
        monkeypatch.setattr(registry, "_classes", dict(registry))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.portable)
