"""Plays the tests that a CPU may change under every instruction set that this one has: `make test-portable`.

Libraries choose their kernels by the CPU, and kernels round differently. Each of the levels of x86-64 is played by
telling torch, MKL, OpenBLAS, numpy and the C library to use nothing beyond it; what the CPU does not have is left out,
and said so. Tests are chosen by the marker `portable`; doctests all have it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
MARK = "pytest.mark.portable"
MARKED = "portable and not slow and not federation and not browser"


@dataclass(frozen=True)
class Level:
    """A level of x86-64: what it needs of the CPU, and how libraries are kept to it."""

    name: str
    needs: frozenset[str]
    """Flags as /proc/cpuinfo has them."""
    beyond: tuple[str, ...]
    """How the names of numpy's features begin that are beyond it."""
    settings: dict[str, str] = field(hash=False)

    def environment(self) -> dict[str, str]:
        """Return the variables that keep a process to the level."""
        found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
        disabled = " ".join(name for name in found if name.startswith(self.beyond))
        return self.settings | ({"NPY_DISABLE_CPU_FEATURES": disabled} if disabled else {})


LEVELS = (
    Level(
        "x86-64-v2 (SSE)",
        frozenset({"ssse3", "sse4_2"}),
        ("X86_V3", "X86_V4", "AVX", "FMA", "F16C"),
        {
            "ATEN_CPU_CAPABILITY": "default",
            "OPENBLAS_CORETYPE": "Prescott",
            "MKL_CBWR": "COMPATIBLE",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F",
            "OMP_NUM_THREADS": "1",
        },
    ),
    Level(
        "x86-64-v3 (AVX2)",
        frozenset({"avx2", "fma", "bmi2"}),
        ("X86_V4", "AVX512"),
        {
            "ATEN_CPU_CAPABILITY": "avx2",
            "OPENBLAS_CORETYPE": "Haswell",
            "MKL_CBWR": "AVX2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
        },
    ),
    Level(
        "x86-64-v4 (AVX-512)",
        frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
        (),
        {"ATEN_CPU_CAPABILITY": "avx512", "OPENBLAS_CORETYPE": "SkylakeX"},
    ),
)


def cpu_flags(text: str) -> frozenset[str]:
    """Return the flags of the first CPU in the text of /proc/cpuinfo; none if it is no x86.

    >>> sorted(cpu_flags("processor : 0\\nflags : fpu avx2\\n\\nprocessor : 1\\nflags : fpu"))
    ['avx2', 'fpu']
    """
    lines = (line.partition(":") for line in text.splitlines())
    return next((frozenset(value.split()) for key, _, value in lines if key.strip() == "flags"), frozenset())


def playable(flags: frozenset[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the levels that a CPU with these flags has, with their variables, and say which are left out."""
    for level in LEVELS:
        if missing := sorted(level.needs - flags):
            print(f"{level.name}: left out, this CPU has no {', '.join(missing)}", flush=True)  # noqa: T201
        else:
            yield level.name, level.environment()
    if not flags:
        yield "this CPU, which is no x86-64", {}


def places() -> list[str]:
    """Return the files with marked tests, and where the doctests are: to collect everything would take longer."""
    marked = (path for path in (ROOT / "tests").rglob("test_*.py") if MARK in path.read_text(encoding="utf-8"))
    return [*sorted(str(path.relative_to(ROOT)) for path in marked), "src"]


def play(name: str, variables: dict[str, str], options: list[str]) -> int:
    """Run the marked tests at a level and return pytest's exit code."""
    print(f"{name}: {' '.join(f'{key}={value!r}' for key, value in variables.items())}", flush=True)  # noqa: T201
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", MARKED, *options, *places()]
    code = subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False).returncode  # noqa: S603
    print(f"{name}: {'passed' if code == 0 else 'FAILED'} after {time.monotonic() - start:.0f} s", flush=True)  # noqa: T201
    return code


def main(options: list[str]) -> int:
    """Play every level, also after one that failed; further options go to pytest."""
    flags = cpu_flags(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    failed = [name for name, variables in playable(flags) if play(name, variables, options)]
    print(f"failed: {', '.join(failed)}" if failed else "every level passed")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
