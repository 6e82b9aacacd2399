"""Reports to take away: whole pages, made when somebody asks and kept until the run has changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import final

from steadfed._ui.page_reports import whole_report
from steadfed._ui.recent import Recent
from steadfed.reports._render.html import render
from steadfed.server._history import RunHistory
from steadfed.server._history.files import CONFIG, ROUNDS, SUMMARY, Stamp, stamp_of

_KEPT = 4
Stamps = tuple[Stamp | None, ...]


@final
class Downloads:
    """Reports by the folders they are about; one is made at a time."""

    def __init__(self) -> None:
        self._pages: Recent[tuple[tuple[Path, ...], Stamps], bytes] = Recent(_render, most=_KEPT)

    def page(self, paths: Sequence[Path]) -> bytes:
        """Return the report of some runs as a page that is whole. May take a while."""
        stamps = tuple(stamp_of(path / name) for path in paths for name in (CONFIG, ROUNDS, SUMMARY))
        return self._pages.get((tuple(paths), stamps))


def file_name(names: Sequence[str]) -> str:
    """Return what a report is called on disk: letters, digits, hyphens, dots and underscores.

    >>> file_name(["demo 1"]), file_name(["a", "b"]), file_name(["../<x>"])
    ('demo-1.html', 'comparison-of-2.html', 'x.html')
    """
    name = names[0] if len(names) == 1 else f"comparison-of-{len(names)}"
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:100]
    return f"{plain or 'report'}.html"


def _render(key: tuple[tuple[Path, ...], Stamps]) -> bytes:
    return render(whole_report([RunHistory(path) for path in key[0]])).encode()
