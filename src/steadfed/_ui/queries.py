"""Which runs a visitor wants to see: searched, sorted and cut into pages on the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, final

from steadfed._core.lookup import find
from steadfed._core.parsing import parse_whole
from steadfed._ui.catalogue import Listing, RunEntry
from steadfed.errors import ParameterError
from steadfed.server._history import RunState, RunSummary

LARGEST_PAGE = 200
_LONGEST = 200


def _progress(run: RunSummary) -> float | None:
    return run.rounds_played / run.rounds_planned if run.rounds_planned else None


SORTS: Mapping[str, Callable[[RunEntry], Any]] = {
    "name": lambda entry: entry.place.lower(),
    "state": lambda entry: list(RunState).index(entry.summary.state),
    "progress": lambda entry: _progress(entry.summary),
    "accuracy": lambda entry: entry.summary.last_accuracy,
    "rule": lambda entry: entry.summary.rule.lower() or None,
    "attack": lambda entry: entry.summary.attack.lower() or None,
    "data": lambda entry: entry.summary.data.lower() or None,
    "changed": lambda entry: entry.summary.changed,
}
"""What a list may be sorted by."""


@final
@dataclass(frozen=True, kw_only=True)
class Query:
    """A part of the list.

    >>> Query.of({"sort": "-accuracy", "page": "2"})
    Query(search='', state=None, sort='accuracy', descending=True, page=2, size=50)
    """

    search: str = ""
    """Words that must all be in the name, the rule, the attack or the data."""
    state: RunState | None = None
    sort: str = "changed"
    descending: bool = True
    page: int = 1
    size: int = 50

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> Self:
        """Return what the parameters of an address ask for; `ParameterError` if they make no sense."""
        sort = asked.get("sort", "-changed")
        find("order of the list", sort.removeprefix("-"), SORTS)
        state = asked.get("state", "")
        known = {each.value: each for each in RunState}
        return cls(
            search=asked.get("search", "")[:_LONGEST],
            state=find("state", state, known) if state else None,
            sort=sort.removeprefix("-"),
            descending=sort.startswith("-"),
            page=_whole(asked, "page", 1, 10**6),
            size=_whole(asked, "size", 50, LARGEST_PAGE),
        )

    def answer(self, listing: Listing) -> dict[str, Any]:
        """Return the page that was asked for, and how many there are."""
        found = [entry for entry in listing.entries if self._has_words(entry)]
        states = Counter(entry.summary.state.value for entry in found)
        if self.state is not None:
            found = [entry for entry in found if entry.summary.state is self.state]
        key = SORTS[self.sort]
        found.sort(key=lambda entry: entry.place.lower())
        known = [entry for entry in found if key(entry) is not None]
        known.sort(key=key, reverse=self.descending)
        ordered = known + [entry for entry in found if key(entry) is None]  # what is not known comes last either way
        pages = max(1, -(-len(ordered) // self.size))
        page = min(self.page, pages)
        return {
            "runs": [entry.as_dict() for entry in ordered[(page - 1) * self.size : page * self.size]],
            "page": page,
            "pages": pages,
            "matching": len(ordered),
            "total": len(listing.entries),
            "states": {state.value: states[state.value] for state in RunState},
            "version": listing.version,
        }

    def _has_words(self, entry: RunEntry) -> bool:
        summary = entry.summary
        text = f"{entry.place} {summary.rule} {summary.attack} {summary.data}".lower()
        return all(word in text for word in self.search.lower().split())


def _whole(asked: Mapping[str, str], key: str, default: int, most: int) -> int:
    try:
        return parse_whole(asked.get(key, str(default)), 1, most)
    except ParameterError as error:
        raise ParameterError(f"{key}: {error}") from None
