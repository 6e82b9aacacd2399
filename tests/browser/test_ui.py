"""The live page in a real browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final
from urllib.parse import urlsplit

import pytest
from tests.browser.conftest import Visit, Visitor
from tests.cli.commands import SMALL
from tests.ui.folders import append, begun, played
from tests.ui.servers import served

from steadfed._ui.catalogue import id_of
from steadfed.runs import Run, config_from_toml

pytestmark = pytest.mark.browser
POINTS = "key => { const plot = document.querySelector(`#${key} .plot`); return plot?.data?.[0].x.length ?? 0; }"
"""How many points the first curve of a panel has."""
IS_LONG = "([key, length]) => document.querySelector(`#${key} .plot`)?.data?.[0].x.length === length"
OVERFLOW = "() => document.documentElement.scrollWidth - window.innerWidth"


@final
@dataclass(frozen=True)
class Site:
    """A live page over a folder."""

    folder: Path
    address: str

    def run(self, *names: str) -> str:
        """Return the address of the page of a run, or of several."""
        ids = [id_of(name) for name in names]
        return f"{self.address}run/{ids[0]}" if len(ids) == 1 else f"{self.address}compare?runs={','.join(ids)}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("runs")
    with served(folder) as (_, address):
        yield Site(folder, address)


def assert_innocent(visit: Visit, address: str) -> None:
    """No word on the console, no dialog, nothing asked for elsewhere."""
    own = "{0.scheme}://{0.netloc}/".format(urlsplit(address))
    assert [asked for asked in visit.outside if not asked.startswith(own)] == []
    assert (visit.complaints, visit.dialogs) == ([], [])


def in_sight(visit: Visit, key: str, points: int) -> None:
    """Scroll to a panel and wait until its curve has so many points."""
    visit.page.wait_for_selector(f"#{key}", state="attached")
    visit.page.locator(f"#{key}").scroll_into_view_if_needed()
    visit.page.wait_for_function(IS_LONG, arg=[key, points])


def test_a_page_follows_a_run_that_is_being_played(site: Site, visitor: Visitor) -> None:
    run = Run.start(config_from_toml(SMALL), site.folder / "played")
    rounds = run.play()
    next(rounds), next(rounds)
    with visitor.at(site.run("played")) as visit:
        in_sight(visit, "accuracy", 2)
        assert visit.page.text_content(".badge") == "running"
        visit.page.evaluate("() => (window.marker = 1)")
        next(rounds), next(rounds)
        visit.page.wait_for_function(IS_LONG, arg=["accuracy", 4])
        for _ in rounds:
            pass
        visit.page.wait_for_function(IS_LONG, arg=["accuracy", 6])
        visit.page.wait_for_function("() => document.querySelector('.badge').textContent === 'complete'")
        assert visit.page.evaluate("() => window.marker") == 1
        for key in ("weights", "suspicion"):
            visit.page.locator(f"#{key}").scroll_into_view_if_needed()
            visit.page.wait_for_selector(f"#{key}[data-drawn]")
        assert visit.page.evaluate("() => document.querySelectorAll('#suspicion tr.flagged').length") == 2
        assert_innocent(visit, site.address)


def test_a_page_begins_before_the_first_round(site: Site, visitor: Visitor) -> None:
    folder = begun(site.folder / "waiting")
    with visitor.at(site.run("waiting")) as visit:
        visit.page.wait_for_selector("text=not begun")
        append(folder, range(4))
        in_sight(visit, "accuracy", 4)
        assert_innocent(visit, site.address)


def test_a_page_survives_a_restart_of_the_server(tmp_path: Path, visitor: Visitor) -> None:
    folder = played(tmp_path / "one", 3)
    with served(tmp_path) as (process, address):
        site, port = Site(tmp_path, address), urlsplit(address).port
        page = visitor.at(site.run("one"))
        visit = page.__enter__()
        in_sight(visit, "accuracy", 3)
        visit.page.evaluate("() => (window.marker = 1)")
        process.terminate()
        process.wait(timeout=30)
        visit.page.wait_for_selector("text=Connection lost")
    append(folder, range(3, 5))
    assert port is not None
    with served(tmp_path, port=port):
        visit.page.wait_for_selector("#connection", state="hidden")
        visit.page.wait_for_function(IS_LONG, arg=["accuracy", 5])
        append(folder, range(5, 6))
        visit.page.wait_for_function(IS_LONG, arg=["accuracy", 6])
        assert visit.page.evaluate("() => window.marker") == 1
        refused = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")
        assert [said for said in visit.complaints if not any(word in said for word in refused)] == []
        page.__exit__(None, None, None)


def test_ticked_runs_are_compared(site: Site, visitor: Visitor) -> None:
    played(site.folder / "pair" / "left", 5)
    played(site.folder / "pair" / "right", 7, rule="krum")
    played(site.folder / "pair" / "other", 2)
    with visitor.at(f"{site.address}?search=pair") as visit:
        for name in ("pair/left", "pair/right"):
            visit.page.check(f"tr[data-run='{id_of(name)}'] input")
        visit.page.click("#compare")
        in_sight(visit, "accuracy", 5)
        curves = visit.page.evaluate("() => document.querySelector('#accuracy .plot').data.map(each => each.x.length)")
        assert curves == [5, 7]
        colours = visit.page.evaluate(
            "() => document.querySelector('#accuracy .plot').data.map(each => each.line.color)"
        )
        assert len(set(colours)) == 2
        assert visit.page.locator(".facts li").count() == 2
        assert_innocent(visit, site.address)


def test_names_with_markup_are_shown_as_they_are(site: Site, visitor: Visitor) -> None:
    name, client = "<img src=x onerror=alert(1)>", "<b onclick=alert(2)>bold</b>"
    evil = (client, "<script>alert(3)</script>", "a&amp;b", "d", "e", "f", "[x](javascript:alert(4))", "</article>")
    played(site.folder / "odd" / name, 4, clients=evil, attack="<i>x</i>")
    with visitor.at(f"{site.address}?search=odd") as visit:
        visit.page.wait_for_selector(".run-name")
        assert visit.page.text_content(".run-name") == name
        assert "<i>x</i>" in (visit.page.text_content("tbody tr") or "")
        visit.page.click(".run-name")
        in_sight(visit, "accuracy", 4)
        assert visit.page.text_content("h1") == name
        for key in ("weights", "suspicion"):
            visit.page.locator(f"#{key}").scroll_into_view_if_needed()
            visit.page.wait_for_selector(f"#{key}[data-drawn]")
        cells = visit.page.locator("#suspicion td:first-child").all_text_contents()
        assert client in cells
        assert "<script>alert(3)</script>" in cells
        assert visit.page.evaluate("() => document.querySelectorAll('main img, main b[onclick], main i').length") == 0
        assert_innocent(visit, site.address)


def test_the_list_is_searched_sorted_and_paged_and_grows_by_itself(site: Site, visitor: Visitor) -> None:
    for number in range(60):
        played(site.folder / "many" / f"cell-{number:03}", 1 + number % 3, rule="krum" if number % 2 else "rage")
    with visitor.at(f"{site.address}?search=many&sort=name") as visit:
        page = visit.page
        page.wait_for_selector("text=Page 1 of 2, 60 runs")
        assert page.locator("tbody tr").count() == 50
        page.click("text=Next")
        page.wait_for_selector("text=Page 2 of 2")
        assert page.locator("tbody tr").count() == 10
        page.fill("input[type=search]", "many krum")
        page.wait_for_function("() => document.querySelectorAll('tbody tr').length === 30")
        page.click("th[data-sort=accuracy] button")
        page.wait_for_selector("th[data-sort=accuracy][aria-sort=descending]")
        assert page.locator("tbody tr").first.locator(".progress").text_content() == "3 / 20"
        played(site.folder / "many" / "new", 9, rule="krum")
        page.wait_for_selector("text=9 / 20")
        assert page.evaluate("() => location.search").startswith("?search=many+krum")
        assert_innocent(visit, site.address)


def test_a_run_that_goes_is_told_and_one_that_never_was_too(site: Site, visitor: Visitor) -> None:
    folder = played(site.folder / "short-lived", 3)
    with visitor.at(site.run("short-lived")) as visit:
        in_sight(visit, "accuracy", 3)
        shutil.rmtree(folder.path)
        visit.page.wait_for_selector(".gone", state="visible")
        played(site.folder / "short-lived", 4)
        visit.page.wait_for_selector(".gone", state="hidden")
        visit.page.wait_for_function(IS_LONG, arg=["accuracy", 4])
    with visitor.at(site.run("nobody")) as visit:
        visit.page.wait_for_selector("text=No such run")
        assert_innocent(visit, site.address)


@pytest.mark.parametrize("place", ["list", "run", "compare"])
def test_a_phone_shows_everything_without_scrolling_sideways(site: Site, visitor: Visitor, place: str) -> None:
    names = ("phone/one", "phone/two-with-a-name-that-is-longer-than-any-phone-is-wide-and-has-no-space-in-it")
    for name in names:
        if not (site.folder / name).exists():
            played(site.folder / name, 5)
    addresses: dict[str, Callable[[], str]] = {
        "list": lambda: f"{site.address}?search=phone",
        "run": lambda: site.run(names[1]),
        "compare": lambda: site.run(*names),
    }
    with visitor.at(addresses[place](), width=390, dark=True) as visit:
        if place == "list":
            visit.page.wait_for_selector(".run-name")
        else:
            in_sight(visit, "accuracy", 5)
        assert visit.page.evaluate(OVERFLOW) <= 0
        assert_innocent(visit, site.address)


def test_the_report_can_be_taken_away(site: Site, visitor: Visitor) -> None:
    played(site.folder / "to take", 3)
    with visitor.at(site.run("to take")) as visit:
        with visit.page.expect_download() as download:
            visit.page.click("#download")
        assert download.value.suggested_filename == "to-take.html"
        assert "<!doctype html>" in Path(download.value.path()).read_text(encoding="utf-8")[:100]
        assert_innocent(visit, site.address)


def test_colours_can_be_turned_and_stay(site: Site, visitor: Visitor) -> None:
    played(site.folder / "coloured", 3)
    with visitor.at(site.run("coloured")) as visit:
        in_sight(visit, "accuracy", 3)
        light = visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        visit.page.click("#theme")
        dark = visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert dark != light
        visit.page.reload()
        visit.page.wait_for_selector("#accuracy")
        assert visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor") == dark
        assert_innocent(visit, site.address)


def test_a_token_opens_the_door_once_and_leaves_the_address(tmp_path: Path, visitor: Visitor) -> None:
    played(tmp_path / "one", 3)
    with served(tmp_path, "--token", "let-me-in-please") as (_, address):
        with visitor.at(address) as visit:
            visit.page.wait_for_selector(".run-name")
            assert "token" not in visit.page.url
            assert visit.page.evaluate("() => document.cookie") == ""
            visit.page.click(".run-name")
            in_sight(visit, "accuracy", 3)
            assert_innocent(visit, address)
        with visitor.at(address.partition("?")[0]) as visit:
            assert "needs a token" in (visit.page.text_content("body") or "")


def test_a_run_of_ten_thousand_rounds_stays_small(site: Site, visitor: Visitor) -> None:
    played(site.folder / "long", 10_000, planned=10_000, clients=tuple(range(10)))
    with visitor.at(site.run("long")) as visit:
        visit.page.wait_for_selector("#accuracy[data-drawn]", state="attached")
        assert 100 < visit.page.evaluate(POINTS, "accuracy") <= 600
        answer: Any = visit.page.request.get(f"{site.address}api/runs/{id_of('long')}/panels")
        assert len(json.dumps(answer.json())) < 1_000_000
        assert_innocent(visit, site.address)
