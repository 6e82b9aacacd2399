"""What `list` and `init` say of the package as it is, written down: reading it takes no torch and no second.

    registries, RunConfig ──► taken() ──► snapshot.json ──► known() ──► list, init

`python -m steadfed._cli.reference docs` takes it anew; a test compares it with the registries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypedDict

FILE = Path(__file__).with_suffix(".json")


class Entry(TypedDict):
    """What is told of a class that a configuration may name."""

    first: str
    """The first line of its description."""
    summary: str
    facts: str
    """Who made it, and what it must know; nothing where that is told of this machine."""
    parameters: list[list[str]]
    """Name, default, what is allowed and meaning of each."""


class Snapshot(TypedDict):
    """All that is written down."""

    kinds: Mapping[str, Mapping[str, Entry]]
    """By what may be listed, and by name."""
    start: str
    """The configuration to start from, if nothing else is wanted."""


@cache
def known() -> Snapshot:
    """Return what is written down."""
    found: Snapshot = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def taken() -> str:
    """Return the text of the file as it should be. Loads torch."""
    from steadfed._cli.init import starting_text
    from steadfed._cli.list import KINDS, OF_THIS_MACHINE, entries

    kinds = {kind: entries(kind) for kind in KINDS}
    for kind in OF_THIS_MACHINE:
        kinds[kind] = {name: {**entry, "facts": ""} for name, entry in kinds[kind].items()}
    now: Snapshot = {"kinds": kinds, "start": starting_text()}
    return json.dumps(now, indent=1, ensure_ascii=False) + "\n"
