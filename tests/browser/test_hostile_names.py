"""Names that try to act, in every place of every page: nothing is executed, nothing asked for, everything legible."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import tomli_w
from tests.browser.conftest import Visit, Visitor
from tests.reports.test_comparisons import written
from tests.sweeps.runs.grids import BASE, result
from tests.ui.folders import record
from tests.ui.servers import served

from steadfed._ui.catalogue import id_of
from steadfed.reports._render.html import write_page
from steadfed.reports._reporting import report_of
from steadfed.server._folder import RunFolder
from steadfed.server._history import RunHistory
from steadfed.server._record import DroppedReply

pytestmark = pytest.mark.browser
HOSTILE = (
    "<img src=x onerror=window.touched=1>",
    "</script><script>window.touched=2</script>",
    "'-(window.touched=3)-'",
    '" onmouseover="window.touched=4" autofocus onfocus="window.touched=4',
    "</title></style></textarea><svg/onload=window.touched=5>",
    "${window.touched=6}{{constructor.constructor('window.touched=6')()}}%{customdata}",
    "[x](javascript:window.touched=7)<a href='javascript:window.touched=7'>x</a>",
    "<iframe srcdoc='<script>parent.touched=8</script>'></iframe><link rel=stylesheet href=//example.org/x>",
    "<style>*{display:none}</style><meta http-equiv=refresh content='0;url=//example.org'>",
    "__proto__",
    "constructor",
    "toString",
    "\u202egnp.live\u2066 \u200b\ufeff",
    "line\nbreak\r\n\ttab \x00\x1b[2J",
    "a&lt;b&amp;&#60;script&#62;",
    "x" * 10_000,
    "東" * 10_000,
    "\u0301" * 3_000,
    "",
    " ",
)
"""What names, reasons and settings may be; each writes a number onto the window if anything executes it."""
FOLDERS = tuple(
    name.replace("/", "⁄").replace("\x00", "")[:60] for name in HOSTILE if name.strip() and name not in {"", " "}
)
"""As far as they can be names of folders, which end after 255 bytes."""
UNTOUCHED = (
    "() => window.touched === undefined && document.querySelectorAll('main iframe, main style, main meta').length === 0"
)
POLLUTED = "() => Object.keys(Object.prototype).length + Object.keys(Array.prototype).length"


def hostile_run(path: Path, word: str) -> Path:
    """Write a run whose clients, metrics, faults, reasons and settings are hostile."""
    words = {key: {"name": word} for key in ("data", "rule", "attack", "model", "partition")}
    config = tomli_w.dumps({"rounds": 4, "lr": 0.1, **words, "provenance": {"data_sha256": word, "torch": word}})
    folder = RunFolder.create(path, config)
    with folder.locked():
        for number in range(4):
            folder.append(
                record(
                    number,
                    HOSTILE,
                    reason=HOSTILE[number],
                    stop=HOSTILE[number + 4],
                    drops=tuple(DroppedReply(client=name, fault=name, detail=name) for name in HOSTILE),
                    metrics=dict.fromkeys(HOSTILE, 0.5),
                    skipped=number == 3,
                    seconds=dict.fromkeys(HOSTILE, 1.0),
                )
            )
    return path


def assert_untouched(visit: Visit, own: str = "") -> None:
    """Nothing executed, nobody asked, no word on the console; and the page can be read."""
    visit.page.mouse.move(200, 300)
    assert visit.page.evaluate(UNTOUCHED)
    assert visit.page.evaluate(POLLUTED) == 0
    assert [asked for asked in visit.outside if not own or not asked.startswith(own)] == []
    assert (visit.complaints, visit.dialogs) == ([], [])
    assert visit.page.locator("h1").is_visible()
    assert visit.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_a_report_of_hostile_runs_does_no_harm(visitor: Visitor, tmp_path: Path) -> None:
    runs = [hostile_run(tmp_path / f"{place} {name}", HOSTILE[place]) for place, name in enumerate(FOLDERS[:3])]
    for chosen in (runs[:1], runs):
        write_page(report_of([RunHistory(run) for run in chosen], code=False), tmp_path / "page.html")
        with visitor.at(tmp_path / "page.html") as visit:
            visit.draw_everything()
            assert visit.page.evaluate("steadfed.failed") == []
            assert_untouched(visit)


def test_a_report_of_a_hostile_comparison_does_no_harm(visitor: Visitor, tmp_path: Path) -> None:
    results = [
        result(rule, attack, 0.5 + place / 100, heterogeneity=HOSTILE[place])
        for place in range(12)
        for rule in (HOSTILE[0], HOSTILE[9], HOSTILE[15])
        for attack in ("none", HOSTILE[1], HOSTILE[12])
    ]
    grid = f'title = """{HOSTILE[0]}"""\nnote = """{HOSTILE[4]}"""\n{BASE}\n[grid]\nrule = ["rage"]\n'
    write_page(written(tmp_path, results, grid), tmp_path / "page.html")
    with visitor.at(tmp_path / "page.html") as visit:
        visit.draw_everything()
        assert visit.page.evaluate("steadfed.failed") == []
        assert_untouched(visit)


def test_the_live_page_over_hostile_runs_does_no_harm(visitor: Visitor, tmp_path: Path) -> None:
    for place, name in enumerate(FOLDERS):
        hostile_run(tmp_path / name, HOSTILE[place])
    with served(tmp_path) as (_, address):
        own = "{0.scheme}://{0.netloc}/".format(urlsplit(address))
        with visitor.at(address) as visit:
            visit.page.wait_for_selector(".run-name")
            assert visit.page.locator(".run-name").count() == len(FOLDERS)
            assert_untouched(visit, own)
        for page in (f"run/{id_of(FOLDERS[0])}", f"compare?runs={id_of(FOLDERS[1])},{id_of(FOLDERS[9])}"):
            with visitor.at(f"{address}{page}") as visit:
                visit.page.wait_for_selector("#suspicion" if "run/" in page else "article", state="attached")
                for panel in visit.page.locator("article").all()[:12]:
                    panel.scroll_into_view_if_needed()
                visit.page.wait_for_timeout(200)
                assert_untouched(visit, own)
