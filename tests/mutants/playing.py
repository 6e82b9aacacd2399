"""Tests on a copy of the project, in a process that has the large libraries already."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from queue import SimpleQueue

import pytest
from tests.mutants.table import PACKAGE, ROOT

LIBRARIES = ["flwr.serverapp", "numpy", "pydantic", "pytest", "scipy.stats", "sklearn", "torch"]
"""What takes most of the time to import, and is imported once for all mutants; nothing of the project."""
PASSED, USAGE, NOTHING = 0, 4, 5
"""What pytest returns. Anything else is a mutant that was noticed, such as the signal of a crash."""


@contextmanager
def copies(number: int) -> Iterator[SimpleQueue[Path]]:
    """Offer so many copies of the project, in which sources and tests are files of their own, the rest links."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        free: SimpleQueue[Path] = SimpleQueue()
        for index in range(number):
            copy = Path(folder, str(index))
            copy.mkdir()
            for entry in ROOT.iterdir():
                if entry.name in {"src", "tests"}:
                    shutil.copytree(entry, copy / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
                elif not entry.name.startswith(".") and entry.name != "build":
                    (copy / entry.name).symlink_to(entry)
            free.put(copy)
        yield free


def pytest_arguments(modules: Iterable[str], tests: Iterable[str]) -> list[str]:
    """Return what pytest is asked for: the tests, and only then the modules for their own doctests.

    A module that pytest imports for its doctests before the package has imported it is there twice, and a test that
    patches it changes the one that nobody uses.

    >>> pytest_arguments(["src/a.py"], ["tests/test_a.py"])
    ['tests/test_a.py', 'src/a.py']
    """
    return [*tests, *modules]


def run_tests(copy: Path, arguments: Sequence[str], timeout: float | None) -> tuple[int | None, str]:
    """Return what pytest says of the copy, None if it does not end in time, and the end of its output."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    output = copy.with_suffix(".txt")
    process: ForkServerProcess = context.Process(target=_in_the_copy, args=(copy, output, list(arguments)))
    process.start()
    process.join(timeout)
    code = process.exitcode
    with contextlib.suppress(ProcessLookupError):  # what the tests started ends with them
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    return code, "\n".join(output.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])


def _in_the_copy(copy: Path, output: Path, arguments: list[str]) -> None:
    """Leave the project for its copy and run pytest; nothing but a result of the copy can come out."""
    os.setsid()
    os.chdir(copy)
    with output.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:] = [str(copy / "src"), *(each for each in sys.path if Path(each).resolve() not in {ROOT, ROOT / "src"})]
    package = Path(PACKAGE).name
    for name in [name for name in sys.modules if name.split(".")[0] in {"tests", package}]:
        del sys.modules[name]
    found = str(__import__(package).__file__)
    if not Path(found).is_relative_to(copy):
        msg = f"{package} must be imported from {copy}, got {found}"
        raise RuntimeError(msg)
    shutil.rmtree(copy / ".hypothesis", ignore_errors=True)  # examples of another mutant
    sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *arguments]))
