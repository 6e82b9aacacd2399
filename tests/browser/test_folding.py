"""Pages of several runs: short, with the rest a click away, and whole on paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Visitor
from tests.browser.test_pictures import CLIENTS, LIARS, a_round, comparison_rows
from tests.reports.made import folder
from tests.reports.test_comparisons import written

from steadfed.aggregators import Mean, Rage
from steadfed.attacks import FixedMembers, Silence
from steadfed.partitions import IidPartition
from steadfed.reports._render.html import write_page
from steadfed.reports._reporting import report_of
from steadfed.reports.panels import Table
from steadfed.server._history import RunHistory
from steadfed.server._record import RoundRecord

pytestmark = pytest.mark.browser
TALLEST = 6_000
CUT = """() => [...document.querySelectorAll('.scrolled')].filter((each) => each.scrollWidth > each.clientWidth)
    .map((each) => each.ariaLabel)"""
"""Tables of which something is cut off."""


def without_removals(record: RoundRecord) -> RoundRecord:
    """Return a round as the mean plays it."""
    share = 1 / len(record.received)
    changes = {"kept": record.received, "weights": (share,) * len(record.received), "certificate": None}
    return record.model_copy(update=changes)


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of three runs such as those of the demonstration."""
    place = tmp_path_factory.mktemp("demonstration")
    common: dict[str, Any] = {"rounds": 30, "cohort_size": CLIENTS, "partition": IidPartition(num_clients=CLIENTS)}
    common["byzantine"] = FixedMembers(clients=LIARS)
    changes: dict[str, dict[str, Any]] = {
        "mean": {"rule": Mean()},
        "oracle": {"rule": Mean(), "attack": Silence()},
        "rage": {"rule": Rage(num_byzantine=2)},
    }
    for name, change in changes.items():
        rounds = [a_round(number) for number in range(30)]
        folder(place / name, rounds if name == "rage" else map(without_removals, rounds), **common, **change)
    histories = [RunHistory(place / name) for name in changes]
    write_page(report_of(histories, guarantee=False), place / "report.html")
    return place / "report.html"


def test_the_page_leads_with_the_run_that_matters_and_is_short(visitor: Visitor, demonstration: Path) -> None:
    with visitor.at(demonstration) as visit:
        visit.draw_everything()
        assert visit.page.locator(".card dt").first.inner_text() == "rage"
        assert visit.page.evaluate("document.documentElement.scrollHeight") < TALLEST
        assert visit.page.evaluate(CUT) == []
        visit.assert_innocent()


def test_what_is_opened_is_as_wide_as_its_place(visitor: Visitor, demonstration: Path) -> None:
    fits = "Math.abs(document.querySelector('#scores-1 .main-svg').getBoundingClientRect().width - "
    fits += "document.querySelector('#scores-1 .plot').clientWidth) < 2"
    with visitor.at(demonstration) as visit:
        visit.draw_everything()
        assert not visit.page.locator("#scores-1").is_visible()
        visit.page.locator("details:has(#scores-1) > summary").click()
        assert visit.page.locator("#scores-1").is_visible()
        visit.until(fits)
        visit.assert_innocent()


def test_paper_has_what_is_folded_away_and_the_screen_folds_it_again(visitor: Visitor, demonstration: Path) -> None:
    with visitor.at(demonstration) as visit:
        visit.draw_everything()
        visit.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert visit.page.locator("#scores-1").is_visible()
        assert visit.page.locator("#weights-3").is_visible()
        visit.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert not visit.page.locator("#scores-1").is_visible()


def test_an_address_leads_into_what_is_folded(visitor: Visitor, demonstration: Path) -> None:
    with visitor.at(f"{demonstration.resolve().as_uri()}#scores-1") as visit:
        visit.until("document.querySelector('details:has(#scores-1)').open")


@pytest.mark.parametrize("width", [1280, 1600])
def test_the_ranking_is_not_cut_and_its_other_columns_are_near(visitor: Visitor, tmp_path: Path, width: int) -> None:
    report = written(tmp_path, comparison_rows())
    long = {"krum": "bucketing+centered-clipping radius=10"}
    sections = []
    for section in report.sections:
        panels = [
            replace(panel, rows=tuple((long.get(str(row[0]), row[0]), *row[1:]) for row in panel.rows))
            if isinstance(panel, Table) and panel.key == "ranking"
            else panel
            for panel in section.panels
        ]
        sections.append(replace(section, panels=tuple(panels)))
    write_page(replace(report, sections=tuple(sections)), tmp_path / "report.html")
    columns = "document.querySelectorAll('#ranking th:not([hidden])').length"
    with visitor.at(tmp_path / "report.html", width=width) as visit:
        assert visit.page.evaluate(CUT) == []
        few = visit.page.evaluate(columns)
        visit.page.locator("#ranking .wider").click()
        assert visit.page.evaluate(columns) > few
        assert "±" in visit.page.locator("#ranking td").nth(1).inner_text()


def test_cells_with_numbers_are_squares(visitor: Visitor, tmp_path: Path) -> None:
    write_page(written(tmp_path, comparison_rows()), tmp_path / "report.html")
    ends = """() => { const { xaxis, yaxis } = document.querySelector('#attacks-1 .plot')._fullLayout;
        return [xaxis._length / 3, yaxis._length / 3]; }"""
    with visitor.at(tmp_path / "report.html") as visit:
        visit.draw_everything()
        across, down = visit.page.evaluate(ends)
        assert across == pytest.approx(down, abs=1)
