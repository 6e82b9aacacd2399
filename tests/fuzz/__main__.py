"""`make fuzz`: plays every decoder for some minutes, keeps what reached new code, and says what was found.

Inputs that reach new code go to build/fuzz/NAME/corpus, findings to build/fuzz/NAME/findings, figures to
build/fuzz/results.json. At the end of a decoder's time its committed corpus, tests/fuzz/corpus/NAME, is made anew from
both: the shortest inputs that reach everything. A finding that was mended is kept there as found-….
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.playing import forked, fuzz, loaded, write_seeds

if TYPE_CHECKING:
    from tests.fuzz.harness import Harness, Reader

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "fuzz"
_HANG = 120
"""Seconds after which libFuzzer ends a process that does not come back."""
_MOST_DEATHS = 20


@dataclass(frozen=True)
class Played:
    """What came of one decoder."""

    name: str
    date: str
    seconds: int
    executions: int
    edges: int
    """Branches of Python that were reached, as libFuzzer counts them."""
    inputs: int
    """How many inputs reach all of them."""
    crashes: int
    """How often the process itself died."""
    findings: tuple[str, ...]


def play(harness: Harness, read: Reader, seconds: int) -> Played:
    """Play one decoder for so long, starting the process again if an input kills it."""
    from tests.fuzz.harness import CORPUS, corpus_of

    place = PLACE / harness.name
    corpus, findings = place / "corpus", place / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    _told(place / "log", partial(write_seeds, harness, corpus))
    for path in corpus_of(harness.name):
        shutil.copy(path, corpus / path.name)
    end, executions, edges, crashes = time.monotonic() + seconds, 0, 0, 0
    while (left := round(end - time.monotonic())) > 2 and crashes < _MOST_DEATHS:
        options = _options(harness, place, left)
        output, code = _told(place / "log", partial(fuzz, harness, read, corpus, findings, options))
        executions += _last(output, r"stat::number_of_executed_units:\s+(\d+)") or _last(output, r"#(\d+)\s")
        edges = max(edges, _last(output, r"cov: (\d+)"))
        if code != 0:
            crashes += 1
            (findings / f"died-{crashes}.txt").write_text(output[-4000:], encoding="utf-8")
    _told(place / "log", partial(_minimise, harness, read, CORPUS / harness.name, corpus))
    told = [path.read_text(encoding="utf-8").strip()[:500] for path in sorted(findings.glob("found-*.txt"))]
    date, kept = f"{datetime.now(UTC):%Y-%m-%d}", len(corpus_of(harness.name))
    return Played(harness.name, date, seconds, executions, edges, kept, crashes, tuple(told))


def _options(harness: Harness, place: Path, seconds: int) -> dict[str, object]:
    """Return what libFuzzer is told."""
    options: dict[str, object] = {
        "max_total_time": seconds,
        "max_len": harness.longest,
        "timeout": _HANG,
        "rss_limit_mb": 8192,
        "artifact_prefix": f"{place / 'findings'}/",
        "print_final_stats": 1,
    }
    if harness.words:
        (place / "words").write_text("".join(f'"{_escaped(word)}"\n' for word in harness.words), encoding="ascii")
        options["dict"] = place / "words"
    return options


def _told(log: Path, deed: Callable[[], object]) -> tuple[str, int]:
    """Do something in a process of its own; return what it printed, and 0 if it ended well."""
    log.unlink(missing_ok=True)
    code = forked(deed, log)
    return log.read_text(encoding="utf-8", errors="replace"), code


def _minimise(harness: Harness, read: Reader, target: Path, corpus: Path) -> None:
    """Choose the committed corpus anew."""
    from tests.fuzz.minimising import write_smallest

    write_smallest(harness, read, target, corpus)


def _last(output: str, pattern: str) -> int:
    found = re.findall(pattern, output)
    return int(found[-1]) if found else 0


def _escaped(word: str) -> str:
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in word.encode()[:60])


def main() -> None:
    """Play the decoders that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", help="decoders, such as reply; all if none is named")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each")
    arguments = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    results = PLACE / "results.json"
    PLACE.mkdir(parents=True, exist_ok=True)
    rows = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}
    found = 0
    for name, (harness, read) in loaded(arguments.names).items():
        played = play(harness, read, round(60 * arguments.minutes))
        rows[name] = asdict(played)
        results.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        found += len(played.findings) + played.crashes
        print(
            f"{name:18} {played.executions:>10,} inputs  {played.edges:>6,} edges  {played.inputs:>4} kept  "
            f"{len(played.findings)} findings  {played.crashes} crashes",
            flush=True,
        )
        for finding in played.findings:
            print(f"    {finding}", flush=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
