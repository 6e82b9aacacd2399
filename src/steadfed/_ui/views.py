"""What the page of a run, or of several, shows: made once for all who watch, and sent as far as it changed.

catalogue ──► histories (read on as they grow, the last few kept) ──► report ──► snapshot ──► streams
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from steadfed._core.wording import harmless, prose
from steadfed._ui.catalogue import Catalogue
from steadfed._ui.pacing import Paced
from steadfed._ui.page_reports import live_report
from steadfed._ui.recent import Recent
from steadfed.reports._render.plotly import panel_json
from steadfed.reports.panels import Headline, Report
from steadfed.server._history import RunHistory

MOST_COMPARED = 10
"""Runs on one page: there are as many colours."""
_READERS = 24
_VIEWS = 24


@final
@dataclass(frozen=True, kw_only=True)
class PageSnapshot:
    """A page at some moment, as JSON."""

    head: str
    """Title, headlines, states of the runs, and which panels stand in which section."""
    layout: str
    """A digest of that order: a page must be built anew if it is another."""
    panels: Mapping[str, str]
    """By key."""
    version: str
    """Another if anything is another; the same after a restart of the server."""

    @property
    def whole(self) -> str:
        """All of it."""
        return self._with(self.panels)

    def since(self, earlier: PageSnapshot) -> str:
        """Return what changed: the head, and the panels that are not as they were."""
        return self._with({key: text for key, text in self.panels.items() if earlier.panels.get(key) != text})

    def _with(self, panels: Mapping[str, str]) -> str:
        inner = ",".join(f"{json.dumps(key)}:{text}" for key, text in panels.items())
        return f'{{"head":{self.head},"panels":{{{inner}}}}}'


@final
class Reader:
    """A history that threads share: who holds its lock may read on and look at it."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet: that may take a while."""
        self.lock = threading.Lock()
        self.changes = 0
        """How often there was something new."""
        self._path = path
        self._history: RunHistory | None = None

    def history(self) -> RunHistory:
        """Return the history as it is now; only for who holds the lock."""
        if self._history is None:
            self._history = RunHistory(self._path)
        else:
            self.changes += self._history.refresh()
        return self._history


@final
class Views:
    """Pages of runs, by their ids."""

    def __init__(self, catalogue: Catalogue, *, patience: float = 1.0) -> None:
        self._catalogue = catalogue
        self._patience = patience
        self._readers: Recent[Path, Reader] = Recent(Reader, most=_READERS)
        self._views: Recent[tuple[str, ...], Paced[PageSnapshot | None]] = Recent(self._paced, most=_VIEWS)

    def snapshot(self, runs: tuple[str, ...]) -> PageSnapshot | None:
        """Return the page of some runs; None if one of them is not there (any more). May take a while."""
        return self._views.get(runs).get()

    def _paced(self, runs: tuple[str, ...]) -> Paced[PageSnapshot | None]:
        return Paced(_View(self._catalogue, self._readers, runs).snapshot, patience=self._patience)


@final
class _View:
    """The page of some runs; made again only if one of them has something new."""

    def __init__(self, catalogue: Catalogue, readers: Recent[Path, Reader], runs: tuple[str, ...]) -> None:
        self._catalogue = catalogue
        self._readers = readers
        self._runs = runs
        self._made: tuple[list[tuple[Reader, int]], PageSnapshot] | None = None

    def snapshot(self) -> PageSnapshot | None:
        runs = self._runs
        paths = [path for run in runs if (path := self._catalogue.path_of(run)) is not None]
        if len(paths) != len(runs):
            return None
        readers = [self._readers.get(path) for path in paths]
        with ExitStack() as stack:
            for _, reader in sorted(zip(paths, readers, strict=True), key=lambda pair: pair[0]):  # always in one order
                stack.enter_context(reader.lock)
            histories = [reader.history() for reader in readers]
            seen = [(reader, reader.changes) for reader in readers]
            if self._made is None or self._made[0] != seen:
                self._made = seen, snapshot_of(live_report(histories), self._facts(runs, histories))
            return self._made[1]

    def _facts(self, runs: Sequence[str], histories: Sequence[RunHistory]) -> list[dict[str, Any]]:
        return [
            {
                "id": run,
                "name": harmless(history.name, limit=120),
                "place": harmless(self._catalogue.place_of(history.path), limit=240),
                "state": history.state.value,
                "played": history.rounds_played,
                "planned": history.rounds_planned,
            }
            for run, history in zip(runs, histories, strict=True)
        ]


def snapshot_of(report: Report, runs: Sequence[Mapping[str, Any]]) -> PageSnapshot:
    """Return a report as JSON, a text for every panel."""
    panels = {panel.key: _text(panel_json(panel)) for section in report.sections for panel in section.panels}
    sections = [
        {
            "key": section.key,
            "title": harmless(section.title),
            "intro": prose(section.intro),
            "panels": [panel.key for panel in section.panels],
        }
        for section in report.sections
    ]
    head = {
        "title": harmless(report.title),
        "subtitle": prose(report.subtitle),
        "headlines": [_headline(each) for each in report.headlines],
        "runs": list(runs),
        "sections": sections,
    }
    text = _text(head)
    return PageSnapshot(
        head=text, layout=_digest(_text(sections)), panels=panels, version=_digest(text, *panels.values())
    )


def _headline(headline: Headline) -> dict[str, str]:
    return {
        "title": harmless(headline.title),
        "value": harmless(headline.value),
        "note": harmless(headline.note),
        "tone": headline.tone.value,
    }


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _digest(*texts: str) -> str:
    found = hashlib.sha256()
    for text in texts:
        found.update(text.encode(errors="replace"))
    return found.hexdigest()[:16]
