"""The page of a report: one file, whole, with nothing in it that acts but its own scripts."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.reports.nasty import NASTY, nasty_report, panels

from steadfed.errors import RunError
from steadfed.reports._render.html import DRAWING, asset, embed, plotly_script, render, write_page
from steadfed.reports._render.plotly import panel_json
from steadfed.reports.panels import HeatMap, Report, Section

SCRIPTS = (*DRAWING, "page.js")
WORDS = Report(title="t", subtitle="", sections=(Section(key="s", title="s", panels=panels()[:1]),))
"""A report without a plot."""


class Reader(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1] += data


def unpacked(letters: str) -> bytes:
    return gzip.decompress(base64.b64decode(letters))


@pytest.fixture(scope="module")
def page() -> str:
    return render(nasty_report())


def test_the_page_has_its_own_scripts_only_and_asks_for_nothing(page: str) -> None:
    reader = Reader(page)
    kinds = [attributes.get("type") for tag, attributes in reader.tags if tag == "script"]
    assert kinds == ["application/json", "text/plain", "text/plain", *[None] * len(SCRIPTS)]
    assert not {tag for tag, _ in reader.tags} & {"img", "iframe", "link", "object", "b", "i"}
    addresses = [
        attributes.get(name) for _, attributes in reader.tags for name in ("src", "href") if name in attributes
    ]
    assert addresses
    assert all(address is not None and address.startswith("#") for address in addresses)


def test_the_policy_names_what_may_run(page: str) -> None:
    reader = Reader(page)
    policy = next(attributes["content"] for _, attributes in reader.tags if "http-equiv" in attributes)
    assert reader.scripts[3:] == [asset(name) for name in SCRIPTS]
    for script in (*(script.encode() for script in reader.scripts[3:]), plotly_script()):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" in str(policy)
    assert str(policy).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in str(policy)


def test_the_panels_are_in_the_page_as_they_are(page: str) -> None:
    reader = Reader(page)
    plots = json.loads(unpacked(reader.scripts[1]))
    found = [{**panel, **plots.get(panel["key"], {})} for panel in json.loads(reader.scripts[0])]
    assert found == json.loads(json.dumps([panel_json(panel) for panel in panels()]))
    ids = [attributes.get("id") for tag, attributes in reader.tags if tag == "article"]
    assert ids == [panel.key for panel in panels()]


def test_plotly_is_in_the_page_compressed_and_only_if_something_is_drawn(page: str) -> None:
    assert unpacked(Reader(page).scripts[2]) == plotly_script()
    assert len(page) < 3_000_000
    assert len(render(WORDS)) < 100_000


def test_what_is_drawn_is_in_the_page_compressed() -> None:
    cells = tuple(tuple(f"kept; score {row + column / 1000:.4g}" for column in range(200)) for row in range(100))
    values = tuple((1.0,) * 200 for _ in cells)
    rows, columns = tuple(f"client {row}" for row in range(100)), tuple(map(str, range(200)))
    panel = HeatMap(
        key="k", title="t", rows=rows, columns=columns, values=values, hover=cells,
        row_title="r", column_title="c", value_title="v",
    )  # fmt: skip
    page = render(Report(title="t", subtitle="", sections=(Section(key="s", title="s", panels=(panel,)),)))
    without = len(render(nasty_report()))
    assert len(page) - without < len(json.dumps(panel_json(panel))) / 4


def test_names_that_mean_harm_are_escaped_in_the_page(page: str) -> None:
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "&lt;img src=x onerror=alert(1)&gt;" in outside
    assert "<img" not in page.replace("\\u003c", "")
    assert "\u202e" not in page


def test_the_same_report_gives_the_same_page(page: str) -> None:
    assert render(nasty_report()) == page


@pytest.mark.parametrize("text", [*NASTY[:-1], "<!--<script>", "\u2029", "]]>"])
def test_nothing_in_json_ends_its_element(text: str) -> None:
    found = embed([text])
    assert not set("<>&\u2028\u2029") & set(found)
    assert json.loads(found) == [text]


def test_scripts_of_the_page_do_not_end_their_own_elements() -> None:
    for name in (*SCRIPTS, "report.css"):
        assert "</" not in asset(name)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write the report .*nowhere.*--out"):
        write_page(WORDS, tmp_path / "nowhere" / "report.html")


def test_a_page_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    write_page(WORDS, path)
    assert path.read_text(encoding="utf-8") == render(WORDS)
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_not_installed_is_named_with_the_command_that_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = importlib.util.find_spec

    def without_plotly(name: str, package: str | None = None) -> Any:
        return None if name == "plotly" else usual(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_plotly)
    with pytest.raises(RunError, match=r"plotly is not installed.*pip install 'steadfed\[report\]'"):
        render(nasty_report())
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(RunError, match=r"jinja2 is not installed.*pip install 'steadfed\[report\]'"):
        render(WORDS)
