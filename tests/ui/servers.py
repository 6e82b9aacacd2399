"""`steadfed ui` as a process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.commands import PROGRAM


@contextmanager
def served(folder: Path, *options: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `steadfed ui` on a port, or a free one; yield the process and its address."""
    command = [*PROGRAM, "ui", str(folder), "--port", str(port), *options]
    with subprocess.Popen(  # noqa: S603  the project's own program
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            yield process, next(word for word in words if word.startswith("http"))
        finally:
            process.terminate()
