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
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.fuzz.harness import CORPUS, Harness, corpus_of
from tests.fuzz.table import HARNESSES

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "fuzz"
_HANG = 60
"""Seconds after which libFuzzer ends a process that does not come back."""


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


def play(harness: Harness, seconds: int) -> Played:
    """Play one decoder for so long, starting the process again if an input kills it."""
    place = PLACE / harness.name
    corpus, findings = place / "corpus", place / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(harness.seeds()):
        (corpus / f"seed-{number:02d}").write_bytes(seed[: harness.longest])
    for path in corpus_of(harness.name):
        shutil.copy(path, corpus / path.name)
    words = place / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in harness.words), encoding="ascii")
    end, executions, edges, crashes = time.monotonic() + seconds, 0, 0, 0
    while (left := round(end - time.monotonic())) > 5 and crashes < 20:
        output, code = _run(harness, corpus, findings, words, left)
        executions += _last(output, r"stat::number_of_executed_units:\s+(\d+)") or _last(output, r"#(\d+)\s")
        edges = max(edges, _last(output, r"cov: (\d+)"))
        if code != 0:
            crashes += 1
            (findings / f"died-{crashes}.txt").write_text(output[-4000:], encoding="utf-8")
    _minimise(harness, corpus)
    told = [path.read_text(encoding="utf-8").strip()[:500] for path in sorted(findings.glob("found-*.txt"))]
    kept = len(corpus_of(harness.name))
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    return Played(harness.name, date, seconds, executions, edges, kept, crashes, tuple(told))


def _run(harness: Harness, corpus: Path, findings: Path, words: Path, seconds: int) -> tuple[str, int]:
    options = {
        "max_total_time": seconds,
        "max_len": harness.longest,
        "timeout": _HANG,
        "rss_limit_mb": 4096,
        "artifact_prefix": f"{findings}/",
        "print_final_stats": 1,
        "dict": words,
    }
    done = subprocess.run(  # noqa: S603  our own module
        [
            sys.executable,
            "-m",
            "tests.fuzz.playing",
            harness.name,
            str(corpus),
            str(findings),
            *(f"-{key}={value}" for key, value in options.items() if key != "dict" or harness.words),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return done.stdout, done.returncode


def _minimise(harness: Harness, corpus: Path) -> None:
    """Choose the committed corpus anew; in a process of its own, which may die of an input."""
    target = CORPUS / harness.name
    command = [sys.executable, "-m", "tests.fuzz.minimising", harness.name, str(target), str(corpus)]
    subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603  our own module


def _last(output: str, pattern: str) -> int:
    found = re.findall(pattern, output)
    return int(found[-1]) if found else 0


def _escaped(word: str) -> str:
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in word.encode())[:200]


def main() -> None:
    """Play the decoders that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*HARNESSES, []], help="decoders; all if none is named")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each")
    arguments = parser.parse_args()
    results = PLACE / "results.json"
    PLACE.mkdir(parents=True, exist_ok=True)
    rows = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}
    found = 0
    for name in arguments.names or HARNESSES:
        played = play(HARNESSES[name], round(60 * arguments.minutes))
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
