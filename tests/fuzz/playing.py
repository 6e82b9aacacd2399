"""One decoder played by libFuzzer, with the coverage of our code and of the parsers under it, in a process of its own.

Everything is imported once, by `loaded`; a process for each decoder is then forked, so that what kills it kills nothing
else, and no minute goes into importing the same again.
"""

from __future__ import annotations

import io
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # nothing of ours may be imported before it is instrumented
    from tests.fuzz.harness import Harness, Reader

INSTRUMENTED = ["steadfed", "tomllib", "json", "zipfile", "tarfile"]
"""Modules of Python whose branches lead the way; what is compiled has no coverage and is led by what follows it."""
ADDRESS_SPACE = 3 << 30
"""Bytes that may be asked for beyond what is there after loading: a claim that is believed fails at once."""


def loaded(names: Sequence[str]) -> dict[str, tuple[Harness, Reader]]:
    """Import and instrument the decoders that are named, or all.

    Nothing is decoded yet: the threads that some libraries then start would not be there in a process that is forked.
    """
    import atheris

    # It names every module on stderr.
    with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.table import HARNESSES

        return {name: (HARNESSES[name], HARNESSES[name].reader()) for name in names or HARNESSES}


def write_seeds(harness: Harness, corpus: Path) -> None:
    """Write down what a decoder is begun with."""
    for number, seed in enumerate(harness.seeds()):
        (corpus / f"seed-{number:02d}").write_bytes(seed[: harness.longest])


def fuzz(harness: Harness, read: Reader, corpus: Path, findings: Path, options: Mapping[str, object]) -> None:
    """Play until libFuzzer ends this process; every finding is a file, and does not end it."""
    import atheris
    from tests.fuzz.harness import play

    with atheris.instrument_imports(include=INSTRUMENTED):
        for path in corpus.iterdir():  # imports what is imported only when it is needed
            play(harness, read, path.read_bytes())
    _limit_memory()
    known: dict[str, int] = {}

    def one_input(data: bytes) -> None:
        finding = play(harness, read, data)
        if finding is None or len(data) >= known.get(finding.name, len(data) + 1):
            return
        known[finding.name] = len(data)
        (findings / finding.name).write_bytes(data)
        (findings / f"{finding.name}.txt").write_text(f"{finding}\n", encoding="utf-8", errors="backslashreplace")

    atheris.Setup([sys.argv[0], str(corpus), *(f"-{key}={value}" for key, value in options.items())], one_input)
    atheris.Fuzz()


def forked(deed: Callable[[], object], log: Path) -> int:
    """Do something in a process of its own whose words go to a file; return 0 if it ended well."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException), log.open("ab", buffering=0) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            deed()
            code = 0
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _limit_memory() -> None:
    in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ADDRESS_SPACE, in_use + ADDRESS_SPACE))
