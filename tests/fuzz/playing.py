"""One decoder played by libFuzzer, with the coverage of our code and of the parsers under it: a process of its own.

python -m tests.fuzz.playing NAME CORPUS FINDINGS [options of libFuzzer]
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

INSTRUMENTED = ["steadfed", "tomllib", "json", "zipfile", "tarfile", "csv", "numpy.lib._format_impl", "flwr.app"]
"""Modules of Python whose branches lead the way; what is compiled has no coverage and is led by what follows it."""
ADDRESS_SPACE = 3 << 30
"""Bytes that may be asked for beyond what is there after loading: a claim that is believed fails at once."""


def main(arguments: list[str]) -> None:
    """Play until libFuzzer ends; every finding is a file, and does not end it."""
    import atheris

    name, corpus, findings, *options = arguments
    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.harness import Finding, play
        from tests.fuzz.table import HARNESSES

        harness = HARNESSES[name]
        read = harness.reader()
        for seed in harness.seeds():  # imports what is imported only when it is needed
            play(harness, read, seed)
    _limit_memory()
    place = Path(findings)
    known: dict[str, Any] = {}

    def one_input(data: bytes) -> None:
        finding: Finding | None = play(harness, read, data)
        if finding is None:
            return
        seen = known.get(finding.name)
        if seen is None or len(data) < seen:
            known[finding.name] = len(data)
            (place / finding.name).write_bytes(data)
            (place / f"{finding.name}.txt").write_text(f"{finding}\n", encoding="utf-8", errors="backslashreplace")

    atheris.Setup([sys.argv[0], corpus, *options], one_input)
    atheris.Fuzz()


def _limit_memory() -> None:
    in_use = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ADDRESS_SPACE, in_use + ADDRESS_SPACE))


if __name__ == "__main__":
    main(sys.argv[1:])
