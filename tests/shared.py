"""Folders that many tests read: made once for all worker processes of a session, and found unchanged at its end."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the temporary folder that all workers of this session have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a lock among the workers."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def shared_folder(base: Path, name: str, make: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a folder that the first worker makes and all read; AssertionError at the end if somebody changed it."""
    folder, known = base / name, base / f"{name}.sha256"
    with locked(base / f"{name}.lock"):
        if not known.exists():
            make(folder)
            known.write_text(digest(folder), encoding="utf-8")
    yield folder
    assert digest(folder) == known.read_text(encoding="utf-8"), f"a test has changed {folder}, which all tests share"


def digest(folder: Path) -> str:
    """Return a hash of the names and bytes of all files below a folder."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder)} {len(content)} ".encode() + content)
    return found.hexdigest()
