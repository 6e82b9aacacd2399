"""A folder in which an input is a file, at hardly any cost."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import final

_MEMORY = Path("/dev/shm")  # noqa: S108  the inputs are no secret


@final
class Scratch:
    """A folder of this process, deleted with it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="steadfed-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
        atexit.register(shutil.rmtree, self.path, ignore_errors=True)

    def file(self, name: str, content: bytes) -> Path:
        """Return a file that holds the input and nothing else."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content)
        return path
