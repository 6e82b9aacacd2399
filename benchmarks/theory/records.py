"""The records of the study: one line of JSON per run, and one per machine that ran some."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

RECORDS = Path(__file__).parents[1] / "results" / "theory.jsonl"
PACKAGES = ("torch", "numpy", "scipy")


def recorded(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records that are there; a line that was cut off counts as missing."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def runs(path: Path) -> list[dict[str, Any]]:
    """Return the records of runs."""
    return [each for each in recorded(path) if "figure" in each]


def machines(path: Path) -> list[str]:
    """Return what ran them."""
    return [each["machine"] for each in recorded(path) if "machine" in each]


def this_machine() -> str:
    """Return one line about this machine; no times are measured, so what rounds is enough."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    instructions = torch.backends.cpu.get_cpu_capability()
    return (
        f"{platform.machine()} ({instructions}), {os.cpu_count()} cores, {platform.system()}; "
        f"Python {platform.python_version()}, {versions}"
    )
