"""Reports on paper: every plot, every row, and nothing cut off at the edge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Visit, Visitor
from tests.reports.nasty import curves, nasty_report, table

from steadfed.reports._render.html import write_page
from steadfed.reports.panels import Report, Section

pytestmark = pytest.mark.browser
PAPER = 698
"""Pixels of A4 between the widest margins that browsers leave unless told otherwise."""
PREPARED = "performance.getEntriesByType('navigation')[0].loadEventEnd > 0 && window.Plotly !== undefined"
WIDTHS = """() => [...document.querySelectorAll('.js-plotly-plot')]
    .map((plot) => Math.round(plot.querySelector('.main-svg').getBoundingClientRect().width))"""

COVERED = """() => [...document.querySelectorAll('.js-plotly-plot:has(.legend)')]
    .filter((plot) => plot.querySelector('.legend .bg').getBoundingClientRect().bottom
        > plot.querySelector('.gridlayer').getBoundingClientRect().top + 1)
    .map((plot) => plot.ariaLabel)"""
"""Plots whose legend lies over what is drawn."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "report.html"
    write_page(nasty_report(), place)
    return place


def printed(visit: Visit, expression: str) -> Any:
    """Return what holds while the browser prints: it waits for nothing that is begun before."""
    visit.page.evaluate(
        f"window.addEventListener('beforeprint', () => queueMicrotask(() => (window.held = ({expression}))))"
    )
    visit.page.pdf(format="A4")
    return visit.page.evaluate("window.held")


@pytest.mark.parametrize("width", [1600, 390])
def test_a_print_has_every_plot_as_wide_as_paper_though_nobody_scrolled(
    visitor: Visitor, path: Path, width: int
) -> None:
    with visitor.at(path, width=width) as visit:
        visit.until(PREPARED)
        visit.page.wait_for_timeout(300)
        found = printed(visit, f"[({WIDTHS})(), document.documentElement.dataset.theme]")
        assert found == [[660] * 5, "light"]
        visit.until("document.documentElement.dataset.theme === undefined")
        visit.until("steadfed.drawn === steadfed.plots")
        visit.until(f"Math.max(...({WIDTHS})()) === document.querySelector('#weights .plot').clientWidth")
        visit.assert_innocent()


def test_the_button_waits_for_every_plot(visitor: Visitor, path: Path) -> None:
    with visitor.at(path, width=390) as visit:
        visit.page.evaluate("window.print = () => (window.held = [steadfed.drawn, steadfed.plots])")
        visit.page.locator("#print").click()
        visit.until("window.held !== undefined")
        drawn, plots = visit.page.evaluate("window.held")
        assert drawn == plots == 6


@pytest.mark.parametrize("width", [1600, 390])
def test_nothing_reaches_over_the_edge_of_the_paper(visitor: Visitor, path: Path, width: int) -> None:
    with visitor.at(path, width=width) as visit:
        visit.draw_everything()
        visit.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert visit.page.evaluate(WIDTHS) == [660] * 5
        visit.page.emulate_media(media="print")
        visit.page.set_viewport_size({"width": PAPER, "height": 1000})
        ends = "[...document.querySelectorAll('.main-svg, table, td, pre, .card')]"
        assert visit.page.evaluate(f"Math.max(...{ends}.map((each) => each.getBoundingClientRect().right))") <= PAPER
        assert not visit.page.locator("#print").is_visible()


def test_a_legend_lies_above_its_curves_on_paper_and_afterwards(visitor: Visitor, tmp_path: Path) -> None:
    twelve = tuple(replace(curves().series[0], name=f"a run: points {place}") for place in range(12))
    pair = tuple(replace(curves(key), series=twelve) for key in ("one", "other"))
    section = Section(key="s", title="Side by side", panels=pair)
    write_page(Report(title="t", subtitle="", sections=(section,)), tmp_path / "report.html")
    with visitor.at(tmp_path / "report.html") as visit:
        visit.draw_everything()
        visit.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert visit.page.evaluate(COVERED) == []
        visit.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        visit.until(f"({WIDTHS})()[0] < 660 && ({COVERED})().length === 0")
        visit.page.set_viewport_size({"width": 800, "height": 900})
        visit.until(f"({WIDTHS})()[0] > 660 && ({COVERED})().length === 0")


def test_a_table_is_printed_with_all_its_rows(visitor: Visitor, path: Path) -> None:
    rows = "document.querySelectorAll('#clients tbody tr').length"
    with visitor.at(path) as visit:
        assert visit.page.evaluate(rows) == 12
        assert printed(visit, rows) == 40
        visit.until(f"{rows} === 12")


def test_a_table_that_is_not_printed_as_a_whole_says_so(visitor: Visitor, tmp_path: Path) -> None:
    section = Section(key="s", title="Clients", panels=(table(500),))
    write_page(Report(title="t", subtitle="", sections=(section,)), tmp_path / "report.html")
    with visitor.at(tmp_path / "report.html") as visit:
        assert not visit.page.locator("#clients .count").is_visible()
        visit.page.emulate_media(media="print")
        assert visit.page.locator("#clients .count").inner_text() == "12 of 500 rows are shown."


def test_a_print_that_comes_too_early_names_what_is_missing(visitor: Visitor, path: Path) -> None:
    said = "getComputedStyle(document.querySelector('#grid .body'), '::after').content"
    with visitor.at(path, width=390) as visit:
        visit.page.emulate_media(media="print")
        assert "Not drawn yet" in visit.page.evaluate(said)
        visit.draw_everything()
        assert visit.page.evaluate(said) == "none"
