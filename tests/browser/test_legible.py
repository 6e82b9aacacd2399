"""Numbers and names of reports can be read: in the dark, on a phone, in narrow cells."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest
from tests.browser.conftest import Visit, Visitor

from steadfed._core.wording import percent
from steadfed.reports._render.html import write_page
from steadfed.reports.panels import Column, HeatMap, Panel, Report, Section, Table, Unit

pytestmark = pytest.mark.browser
PHONE, DESKTOP = 390, 1280
LEAST = 4.5
"""The least contrast of text that WCAG 2 allows (success criterion 1.4.3)."""
TEXTS = "[...document.querySelectorAll('#map .scatterlayer text')].filter((each) => each.textContent)"
SHARES = tuple(place / 20 for place in range(21))
WORDS = ("none", "sign-flip", "label-flip", "alie", "ipm-0.1", "ipm-100", "mimic")


def heat_map(shares: tuple[float, ...], columns: tuple[str, ...], *, good_is_high: bool = True) -> HeatMap:
    return HeatMap(
        key="map", title="Map", rows=("rage", "centered-clipping"), columns=columns, values=(shares, shares),
        row_title="rule", column_title="attack", value_title="accuracy", unit=Unit.PERCENT, low=0.0, high=1.0,
        written=True, good_is_high=good_is_high,
    )  # fmt: skip


def written(place: Path, *panels: Panel) -> Path:
    report = Report(title="t", subtitle="", sections=(Section(key="s", title="s", panels=panels),))
    write_page(report, place / "report.html")
    return place / "report.html"


def luminance(colour: tuple[float, ...]) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def cells(visit: Visit) -> list[tuple[float, ...]]:
    """Return the colours of the cells as the screen shows them, each near its upper left corner."""
    image = pytest.importorskip("PIL.Image")
    picture = image.open(io.BytesIO(visit.page.locator("#map .heatmaplayer image").screenshot())).convert("RGB")
    width = picture.width / len(SHARES)
    return [
        tuple(part / 255 for part in picture.getpixel((int((place + 0.15) * width), picture.height // 8)))
        for place in range(len(SHARES))
    ]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("good_is_high", [False, True])
def test_numbers_stand_out_from_every_colour_of_a_cell(
    visitor: Visitor, tmp_path: Path, *, dark: bool, good_is_high: bool
) -> None:
    page = written(tmp_path, heat_map(SHARES, tuple(map(str, range(21))), good_is_high=good_is_high))
    with visitor.at(page, dark=dark) as visit:
        visit.draw_everything()
        fills = visit.page.evaluate(f"{TEXTS}.slice(0, 21).map((each) => getComputedStyle(each).fill)")
        inks = [tuple(int(part) / 255 for part in fill[4:-1].split(",")) for fill in fills]
        assert set(inks) <= {(0.0, 0.0, 0.0), (1.0, 1.0, 1.0)}
        assert min(contrast(*pair) for pair in zip(inks, cells(visit), strict=True)) >= LEAST


def test_numbers_are_in_cells_that_are_wide_enough_also_after_a_change(visitor: Visitor, tmp_path: Path) -> None:
    page = written(tmp_path, heat_map((0.91,) * 7, WORDS))
    with visitor.at(page, width=PHONE) as visit:
        visit.draw_everything()
        assert visit.page.evaluate(f"{TEXTS}.length") == 0
        visit.page.set_viewport_size({"width": DESKTOP, "height": 900})
        visit.until(f"{TEXTS}.length === 14")
        boxes = visit.page.evaluate(f"{TEXTS}.slice(0, 7).map((each) => each.getBoundingClientRect().toJSON())")
        assert all(one["right"] < other["left"] for one, other in pairwise(boxes))
        visit.page.set_viewport_size({"width": PHONE, "height": 900})
        visit.until(f"{TEXTS}.length === 0")
        visit.assert_innocent()


def test_cells_fill_the_plot_with_numbers_and_without(visitor: Visitor, tmp_path: Path) -> None:
    page = written(tmp_path, heat_map((0.91,) * 7, WORDS))
    with visitor.at(page) as visit:
        visit.draw_everything()
        axes = visit.page.evaluate(
            "(({ xaxis, yaxis }) => [xaxis.range, yaxis.range])(document.querySelector('#map .plot')._fullLayout)"
        )
        assert axes == [[-0.5, 6.5], [1.5, -0.5]]


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_every_one_of_a_few_words_stands_below_a_map(visitor: Visitor, tmp_path: Path, width: int) -> None:
    with visitor.at(written(tmp_path, heat_map((0.91,) * 7, WORDS)), width=width) as visit:
        visit.draw_everything()
        assert visit.page.locator("#map .xtick text").all_text_contents() == list(WORDS)


def test_long_texts_of_a_table_are_on_the_screen_of_a_phone(visitor: Visitor, tmp_path: Path) -> None:
    columns = tuple(Column(title=title) for title in ("kind", "what", "outcome", "because"))
    rows = tuple((f"kind {row}", "step size", "held", "since it is small enough " * 6) for row in range(3))
    page = written(tmp_path, Table(key="t", title="Theorems", columns=columns, rows=rows))
    with visitor.at(page, width=PHONE) as visit:
        boxes = visit.page.locator("#t td").evaluate_all("all => all.map((each) => each.getBoundingClientRect().right)")
        assert max(boxes) <= PHONE
        labels = visit.page.locator("#t tr:first-child td").evaluate_all(
            "all => all.map((each) => getComputedStyle(each, '::before').content)"
        )
        assert labels == ['"kind"', '"what"', '"outcome"', '"because"']
        visit.page.locator("#t th button").first.click()
        visit.page.locator("#t th button").first.click()
        assert visit.page.locator("#t td").first.inner_text().endswith("kind 2")


def test_shares_are_worded_in_tables_as_in_sentences(visitor: Visitor, tmp_path: Path) -> None:
    shares = (0.0, 0.00011, 0.0009, 0.001, 0.21, 0.8829, 0.999, 0.9991, 0.9996, 1.0)
    rows = tuple((share,) for share in shares)
    page = written(tmp_path, Table(key="t", title="t", columns=(Column(title="a", unit=Unit.PERCENT),), rows=rows))
    with visitor.at(page) as visit:
        assert visit.page.locator("#t td").all_inner_texts() == [percent(share) for share in shares]
