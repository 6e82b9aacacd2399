"""Nothing of the machine's own data is seen by the tests, and nothing is downloaded, unless a test asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fresh home and current folder, without data, without network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STEADFED_OFFLINE", "1")
    monkeypatch.delenv("STEADFED_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    return tmp_path
