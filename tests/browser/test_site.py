"""The documentation site, built as `make docs` builds it and opened from disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser.conftest import Visitor

from steadfed.reports._render.formulas import formulas

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
THEORY = tuple(f"theory/{path.stem}.html" for path in sorted((ROOT / "docs/theory").glob("*.md")))
PAGES = (
    "index.html",
    "quickstart.html",
    "choosing.html",
    "guides/read-a-report.html",
    "faq-of-errors.html",
    "peers.html",
    "cli.html",
    "guides/tutorial.html",
    "theory/filter.html",
    "api/aggregators.html",
    "api/reports.html",
    "repository/benchmarks/index.html",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_from_disk_and_asks_nobody_for_anything(page: str, site: Path, visitor: Visitor) -> None:
    with visitor.at(site / page) as visit:
        visit.page.wait_for_load_state("networkidle")
        assert visit.page.locator("h1").count() == 1
        pictures = visit.page.locator("article img").evaluate_all("all => all.map(each => each.naturalWidth)")
        assert all(pictures)
        visit.assert_innocent()


@pytest.mark.parametrize("page", [*THEORY, "api/aggregators.html", "api/theory.html", "rules.html"])
def test_formulas_are_typeset_by_the_site_itself(page: str, site: Path, visitor: Visitor) -> None:
    with visitor.at(site / page) as visit:
        marked = visit.page.locator(".arithmatex")
        assert marked.count() > 0
        assert visit.page.locator(".arithmatex .katex").count() == marked.count()
        assert visit.page.locator(".katex-error").count() == 0
        visit.until("[...document.fonts].some((font) => font.family.startsWith('KaTeX') && font.status == 'loaded')")
        visit.assert_innocent()


def test_the_formulas_of_reports_are_what_katex_makes_of_them(site: Path, visitor: Visitor) -> None:
    with visitor.at(site / "theory/filter.html") as visit:
        for name, each in formulas().items():
            options = {"displayMode": True, "output": "mathml", "strict": "error"}
            made = visit.page.evaluate("([tex, options]) => katex.renderToString(tex, options)", [each.tex, options])
            assert made == each.mathml, f"{name}: run `node docs/katex/mathml.js`"


def test_the_search_finds_a_rule_without_a_server(site: Path, visitor: Visitor) -> None:
    with visitor.at(site / "index.html") as visit:
        visit.page.locator("input.md-search__input").click()  # loads the index
        visit.page.locator(".md-search-result__meta", has_text="Type to start searching").wait_for()
        visit.page.keyboard.type("krum", delay=20)
        visit.page.locator(".md-search-result__item").first.wait_for()
        assert visit.page.locator(".md-search-result__item").count() > 2
        visit.assert_innocent()


def test_it_is_dark_for_those_who_like_it_dark_and_switches(site: Path, visitor: Visitor) -> None:
    with visitor.at(site / "index.html", dark=True) as visit:
        body = visit.page.locator("body")
        assert body.get_attribute("data-md-color-scheme") == "slate"
        visit.page.locator("label[for=__palette_0]").click()
        assert body.get_attribute("data-md-color-scheme") == "default"


@pytest.mark.parametrize(
    "page", ["index.html", "peers.html", "cli.html", "api/aggregators.html", *THEORY, "guides/tutorial.html"]
)
def test_nothing_sticks_out_on_a_phone(page: str, site: Path, visitor: Visitor) -> None:
    with visitor.at(site / page, width=390) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 391
