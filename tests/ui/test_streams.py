"""Changes as events."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from tests.ui.folders import append, begun, played

from steadfed._ui.catalogue import Catalogue, id_of
from steadfed._ui.streams import Events, Listeners, list_changes, page_changes
from steadfed._ui.views import Views


def heard(events: AsyncIterator[dict[str, Any]], deeds: list[Callable[[], object]]) -> list[dict[str, Any]]:
    """Return the first event, and the one after each deed."""

    async def listen() -> list[dict[str, Any]]:
        found = [await anext(events)]
        for deed in deeds:
            deed()
            found.append(await asyncio.wait_for(anext(events), 30))
        return found

    return asyncio.run(listen())


def page(folder: Path, name: str, known: str | None = None) -> Events:
    views = Views(Catalogue(folder, patience=0), patience=0)
    return page_changes(lambda: views.snapshot((id_of(name),)), known=known, pause=0.01)


def test_a_visitor_gets_the_page_and_then_what_changes(tmp_path: Path) -> None:
    folder = played(tmp_path / "one", 5)
    first, second = heard(page(tmp_path, "one"), [lambda: append(folder, range(5, 6))])
    assert (first["event"], second["event"]) == ("page", "panels")
    assert set(json.loads(second["data"])["panels"]) < set(json.loads(first["data"])["panels"])
    assert first["id"] != second["id"]


def test_a_visitor_who_has_the_page_already_hears_only_of_changes(tmp_path: Path) -> None:
    folder = played(tmp_path / "one", 5)
    (first,) = heard(page(tmp_path, "one"), [])
    events = page(tmp_path, "one", known=first["id"])  # another server, as after a restart

    async def listen() -> dict[str, Any]:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        append(folder, range(5, 6))
        return await asyncio.wait_for(waiting, 30)

    assert asyncio.run(listen())["event"] == "panels"


def test_a_run_that_goes_and_comes_back_is_told(tmp_path: Path) -> None:
    folder = played(tmp_path / "one", 5)
    events = heard(page(tmp_path, "one"), [lambda: shutil.rmtree(folder.path), lambda: played(tmp_path / "one", 5)])
    assert [event["event"] for event in events] == ["page", "gone", "page"]


def test_a_run_that_was_never_there_is_gone(tmp_path: Path) -> None:
    (first,) = heard(page(tmp_path, "nobody"), [])
    assert first["event"] == "gone"


def test_other_panels_are_another_page(tmp_path: Path) -> None:
    folder = begun(tmp_path / "one")
    events = heard(page(tmp_path, "one"), [lambda: append(folder, range(3))])
    assert [event["event"] for event in events] == ["page", "page"]


def test_the_list_tells_that_it_changed(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path, patience=0)
    events = heard(list_changes(catalogue.listing, known=None, pause=0.01), [lambda: begun(tmp_path / "one")])
    assert [event["event"] for event in events] == ["changed", "changed"]
    assert events[0]["id"] != events[1]["id"]


def test_only_so_many_listen_and_who_leaves_makes_room(tmp_path: Path) -> None:
    audience = Listeners(most=2)

    async def come_and_go() -> None:
        listeners = [aiter(audience.stream_to(page(tmp_path, "nobody")).body_iterator) for _ in range(2)]
        for each in listeners:
            await anext(each)
        with pytest.raises(HTTPException, match="2 pages are listening already"):
            audience.stream_to(page(tmp_path, "nobody"))
        await listeners[0].aclose()  # type: ignore[attr-defined]
        audience.stream_to(page(tmp_path, "nobody"))
        await listeners[1].aclose()  # type: ignore[attr-defined]

    asyncio.run(come_and_go())
