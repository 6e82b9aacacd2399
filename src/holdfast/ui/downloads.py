"""Reports to take away: whole pages, made when somebody asks and kept until the run has changed."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import final

from holdfast.reports.render.html import render
from holdfast.server.history import RunHistory
from holdfast.server.history.files import CONFIG, ROUNDS, SUMMARY, stamp_of
from holdfast.ui.showing import whole_report

_KEPT = 4
Stamps = tuple[tuple[int, int] | None, ...]


@final
class Downloads:
    """Reports by the folders they are about; one is made at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Path, ...], tuple[Stamps, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def page(self, paths: Sequence[Path]) -> bytes:
        """Return the report of some runs as a page that is whole. May take a while."""
        key = tuple(paths)
        with self._lock:
            stamps = _stamps(paths)
            kept = self._kept.pop(key, None)
            if kept is None or kept[0] != stamps:
                kept = (stamps, _made(paths))
            self._kept[key] = kept
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return kept[1]


def file_name(names: Sequence[str]) -> str:
    """Return what a report is called on disk: letters, digits, hyphens, dots and underscores.

    >>> file_name(["demo 1"]), file_name(["a", "b"]), file_name(["../<x>"])
    ('demo-1.html', 'comparison-of-2.html', 'x.html')
    """
    name = names[0] if len(names) == 1 else f"comparison-of-{len(names)}"
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:100]
    return f"{plain or 'report'}.html"


def _stamps(paths: Sequence[Path]) -> Stamps:
    return tuple(stamp_of(path / name) for path in paths for name in (CONFIG, ROUNDS, SUMMARY))


def _made(paths: Sequence[Path]) -> bytes:
    return render(whole_report([RunHistory(path) for path in paths])).encode()
