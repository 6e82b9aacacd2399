"""Reports in a real browser, opened from disk."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser.conftest import Visit, Visitor
from tests.reports.nasty import NASTY, nasty_report

from steadfed.reports._render.html import write_page

pytestmark = pytest.mark.browser
PHONE = 390
BLANK = 20
"""A picture with fewer colours has nothing drawn in it."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "report.html"
    write_page(nasty_report(), place)
    return place


@pytest.fixture(scope="module")
def desktop(visitor: Visitor, path: Path) -> Iterator[Visit]:
    with visitor.at(path) as visit:
        visit.draw_everything()
        yield visit


@pytest.fixture(scope="module")
def phone(visitor: Visitor, path: Path) -> Iterator[Visit]:
    with visitor.at(path, width=PHONE) as visit:
        visit.draw_everything()
        yield visit


def test_every_plot_is_drawn_without_a_complaint_or_a_request(desktop: Visit, phone: Visit) -> None:
    for visit in (desktop, phone):
        assert visit.page.evaluate("steadfed.failed") == []
        assert visit.page.locator(".js-plotly-plot").count() == 5
        visit.assert_innocent()


def test_no_button_sends_anything_anywhere(desktop: Visit) -> None:
    buttons = desktop.page.locator(".modebar-btn").evaluate_all("all => all.map((each) => each.dataset.title)")
    assert set(buttons) == {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}


def test_on_a_phone_plots_far_below_wait_until_somebody_scrolls_there(visitor: Visitor, path: Path) -> None:
    with visitor.at(path, width=PHONE) as visit:
        visit.page.wait_for_timeout(300)
        assert visit.page.locator("#grid .js-plotly-plot").count() == 0
        visit.page.locator("#grid").scroll_into_view_if_needed()
        visit.page.locator("#grid[data-drawn]").wait_for()
        visit.assert_innocent()


def test_elsewhere_they_are_drawn_when_there_is_nothing_else_to_do(visitor: Visitor, path: Path) -> None:
    with visitor.at(path) as visit:
        assert visit.page.evaluate("steadfed.drawn") < visit.page.evaluate("steadfed.plots")
        visit.until("steadfed.drawn === steadfed.plots")
        assert visit.page.evaluate("window.scrollY") == 0
        visit.assert_innocent()


@pytest.mark.parametrize("key", ["curves", "traffic", "weights", "labels", "grid"])
def test_no_plot_is_blank(desktop: Visit, phone: Visit, key: str) -> None:
    image = pytest.importorskip("PIL.Image")
    for visit in (desktop, phone):
        picture = image.open(io.BytesIO(visit.page.locator(f"#{key} .plot").screenshot())).convert("RGB")
        assert len(picture.getcolors(maxcolors=1 << 24)) > BLANK


def test_what_clients_wrote_is_shown_and_makes_no_element(desktop: Visit) -> None:
    count = desktop.page.evaluate("document.querySelectorAll('article a, article img, article script, svg a').length")
    assert count == 0
    for place in ("h1", "#warning", "#clients", "#curves h3"):
        assert NASTY[0] in desktop.page.locator(place).inner_text()
    ticks = desktop.page.locator("#weights .ytick text").all_text_contents()
    assert "◆ <img src…alert(1)>" in ticks, ticks
    legend = desktop.page.locator("#curves .legendtext").all_text_contents()
    assert NASTY[2] in legend
    assert "%\u200b{x}" in desktop.page.locator("#curves .annotation-text").text_content()  # type: ignore[operator]


def test_a_script_that_slipped_in_would_not_run(visitor: Visitor, path: Path) -> None:
    with visitor.at(path) as visit:
        visit.page.evaluate(
            """() => {
                const script = document.createElement('script');
                script.textContent = 'window.owned = 1';
                document.body.append(script);
                document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.owned = 2">');
            }"""
        )
        visit.page.wait_for_timeout(200)
        assert visit.page.evaluate("window.owned === undefined")


def column(visit: Visit, place: int) -> list[str]:
    return visit.page.locator(f"#clients tbody tr td:nth-child({place})").all_inner_texts()


def test_a_table_is_sorted_by_its_headings_with_what_is_unknown_last(visitor: Visitor, path: Path) -> None:
    with visitor.at(path) as visit:
        heading = visit.page.locator("#clients th", has_text="suspicion")
        visit.page.locator("#clients .more").click()
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "descending"
        shares = [float(text.removesuffix(" %")) for text in column(visit, 2) if text != "–"]
        assert shares == sorted(shares, reverse=True)
        assert column(visit, 2)[-1] == "–"
        heading.locator("button").focus()
        visit.page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == "ascending"
        shares = [float(text.removesuffix(" %")) for text in column(visit, 2) if text != "–"]
        assert shares == sorted(shares)
        assert column(visit, 2)[-1] == "–"
        visit.assert_innocent()


def test_a_long_table_shows_some_rows_then_all_and_finds_words(visitor: Visitor, path: Path) -> None:
    with visitor.at(path) as visit:
        assert len(column(visit, 1)) == 12
        visit.page.locator("#clients .more").click()
        assert len(column(visit, 1)) == 40
        visit.page.locator("#clients input[type=search]").fill("CLIENT 3")
        assert column(visit, 1) == [f"client {k}" for k in range(30, 40)]
        visit.page.locator("#clients input[type=search]").fill("<IMG")
        assert column(visit, 1) == [NASTY[0]]
        assert column(visit, 5) == [str(2**63)]


def test_a_heat_map_is_sorted_by_its_menu_and_marks_the_byzantine_rows(visitor: Visitor, path: Path) -> None:
    with visitor.at(path) as visit:
        visit.draw_everything()
        marks = "document.querySelectorAll('#weights .shapelayer path').length"
        lowest = """Math.max(...[...document.querySelectorAll('#weights .shapelayer path')]
            .map((mark) => mark.getBoundingClientRect().y))"""
        top = """() => [...document.querySelectorAll('#weights .ytick text')]
            .sort((one, other) => one.getBoundingClientRect().y - other.getBoundingClientRect().y)[0].textContent"""
        assert visit.page.evaluate(marks) == 3
        before = visit.page.evaluate(lowest)
        assert str(visit.page.evaluate(top)).startswith("◆ <img")
        visit.page.locator("#weights select").select_option(label="last first")
        visit.until(f"({top})() === 'hospital-a'")
        assert visit.page.evaluate(marks) == 3
        assert visit.page.evaluate(lowest) > before + 50
        visit.assert_innocent()


def test_the_pointer_shows_the_client_the_reason_and_the_figure(desktop: Visit) -> None:
    box = desktop.page.locator("#weights .plot").first
    box.scroll_into_view_if_needed()
    cells = desktop.page.locator("#weights .heatmaplayer image").bounding_box()
    assert cells is not None
    desktop.page.mouse.move(cells["x"] + cells["width"] * 22.5 / 40, cells["y"] + cells["height"] * 0.5 / 10)
    shown = desktop.page.locator("#weights .hoverlayer .hovertext")
    shown.wait_for()
    text = shown.text_content() or ""
    for expected in ("<img src=x onerr", NASTY[0], "round 22", "weight × n: 0", f"removed: {NASTY[2]}"):
        assert expected in text
    assert desktop.page.locator(".hoverlayer a").count() == 0
    desktop.page.mouse.move(cells["x"] + cells["width"] * 21.5 / 40, cells["y"] + cells["height"] * 0.5 / 10)
    desktop.until("document.querySelector('#weights .hovertext').textContent.includes('round 21')")
    assert "weight × n: –" in (shown.text_content() or "")


def test_dark_and_light_change_the_page_and_the_plots(visitor: Visitor, path: Path) -> None:
    page_colour = "getComputedStyle(document.body).backgroundColor"
    tick_colour = "getComputedStyle(document.querySelector('#curves .xtick text')).fill"
    with visitor.at(path, dark=True) as visit:
        visit.draw_everything()
        dark = [visit.page.evaluate(page_colour), visit.page.evaluate(tick_colour)]
        visit.page.locator("#theme").click()
        visit.until(f"{tick_colour} !== '{dark[1]}'")
        light = [visit.page.evaluate(page_colour), visit.page.evaluate(tick_colour)]
        assert max(brightness(dark[0]), brightness(light[1])) < 64
        assert min(brightness(light[0]), brightness(dark[1])) > 192
        visit.assert_innocent()


def brightness(colour: str) -> float:
    parts = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(parts) / 3


def test_nothing_is_wider_than_a_phone(phone: Visit) -> None:
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert phone.page.evaluate("document.getElementById('contents').open") is False
    boxes = [phone.page.locator(f"#{key}").bounding_box() for key in ("curves", "traffic")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[1]["y"] > boxes[0]["y"] + boxes[0]["height"]
    assert boxes[0]["width"] > 0.85 * PHONE


def test_a_desktop_has_curves_side_by_side_and_contents_that_stay(desktop: Visit) -> None:
    boxes = [desktop.page.locator(f"#{key}").bounding_box() for key in ("curves", "traffic", "weights")]
    one, other, wide = (box for box in boxes if box is not None)
    assert one["y"] == pytest.approx(other["y"], abs=2)
    assert wide["width"] == pytest.approx(other["x"] + other["width"] - one["x"], abs=4)
    assert desktop.page.evaluate("document.getElementById('contents').open") is True
    desktop.page.locator("#again").scroll_into_view_if_needed()
    assert desktop.page.locator("#contents").bounding_box()["y"] >= 0  # type: ignore[index]


def test_code_is_copied(desktop: Visit) -> None:
    button = desktop.page.locator("#again .copy")
    button.click()
    desktop.until("document.querySelector('#again .copy').textContent !== 'Copy'")
    assert button.text_content() == "Copied"


def test_newer_figures_keep_what_the_reader_chose(visitor: Visitor, path: Path) -> None:
    with visitor.at(path) as visit:
        visit.draw_everything()
        visit.page.locator("#clients th button").first.click()
        visit.page.locator("#clients input").fill("client 1")
        visit.page.locator("#weights select").select_option(index=1)
        visit.page.evaluate(
            """async () => {
                const panels = JSON.parse(document.getElementById('steadfed-report').textContent);
                const [table, map] = ['clients', 'weights'].map((key) => panels.find((panel) => panel.key === key));
                Object.assign(map, JSON.parse(await steadfed.inflated('steadfed-plots')).weights);
                table.rows.push(['client 19b', 0.5, 1, 1, 'new']);
                map.figure.data[0].z[9][39] = 0.125;
                await steadfed.updatePanel(document.getElementById('clients'), table);
                await steadfed.updatePanel(document.getElementById('weights'), map);
            }"""
        )
        names = column(visit, 1)
        assert names == [f"client {k}" for k in range(10, 20)] + ["client 19b"]
        assert visit.page.locator("#weights select").input_value() == "1"
        z = visit.page.evaluate("document.querySelector('#weights .js-plotly-plot').data[0].z[9][39]")
        assert z == 0.125
        visit.assert_innocent()
