"""Reports of runs that went wrong in every way, and of clients that mean harm, in a real browser."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.conftest import Visitor
from tests.deployments import configured, deployment, remote_config
from tests.reports.made import folder, four
from tests.reports.nasty import NASTY

from steadfed.partitions import RemotePartition
from steadfed.reports._render.html import write_page
from steadfed.reports._reporting import report_of
from steadfed.server._folder import RunFolder
from steadfed.server._history import RunHistory
from steadfed.server._record import DroppedReply, RoundRecord

pytestmark = pytest.mark.browser
NAMES = (*NASTY[:-1], "\x1b[2J\x00 line\u2028end")
"""Names that fit into a file of records."""


def empty(path: Path) -> None:
    folder(path)


def one_round(path: Path) -> None:
    folder(path, [four(0)], rounds=1)


def crashed(path: Path) -> None:
    folder(path, [four(0), four(1)])
    with (path / "rounds.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"round": 2, "st')


def damaged(path: Path) -> None:
    folder(path, [four(0), four(1)])
    with (path / "rounds.jsonl").open("a", encoding="utf-8") as file:
        file.write("<script>alert(1)</script>\n")


def without_a_finite_loss(path: Path) -> None:
    lost = {"test_loss": math.nan, "train_loss": math.inf, "test_accuracy": math.nan, "error": math.nan}
    folder(path, [four(number, **lost) for number in range(4)])


def enormous(path: Path) -> None:
    folder(path, [four(number, test_loss=10.0 ** (308 - 100 * number), error=1e308) for number in range(4)])


def deployed(path: Path) -> None:
    deployment(path)


def hostile(path: Path) -> None:
    """Write a deployment whose clients have names and faults with markup."""
    config = remote_config(cohort_size=len(NAMES), partition=RemotePartition(num_clients=len(NAMES)))
    made = RunFolder.create(path, configured(config))
    count = len(NAMES)
    for number in range(5):
        made.append(
            RoundRecord(
                round=number,
                step=number + 1,
                lr=0.1,
                cohort=NAMES,
                received=NAMES,
                kept=NAMES[3:],
                weights=tuple(0.0 if place < 3 else 1 / (count - 3) for place in range(count)),
                scores=tuple(9.0 if place < 3 else 1.0 for place in range(count)),
                reason=NASTY[1],
                drops=tuple(DroppedReply(client=name, fault="not asked", detail=NASTY[0]) for name in NAMES),
                metrics={NASTY[2]: 0.5},
                seconds={NASTY[0]: 1.0},
            )
        )


KINDS = (empty, one_round, crashed, damaged, without_a_finite_loss, enormous, deployed, hostile)


@pytest.mark.parametrize("make", KINDS)
def test_any_run_has_a_page_that_draws_everything_and_does_no_harm(
    visitor: Visitor, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "run")
    page = tmp_path / "report.html"
    write_page(report_of([RunHistory(tmp_path / "run")], guarantee=False), page)
    with visitor.at(page, width=390) as visit:
        visit.draw_everything()
        assert visit.page.evaluate("steadfed.failed") == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert visit.page.evaluate("document.querySelectorAll('main a[href^=http], main img, svg a').length") == 0
        assert visit.page.locator("article").count() == visit.page.locator("article[data-drawn]").count() > 3
        visit.assert_innocent()


def test_runs_of_all_kinds_stand_side_by_side(visitor: Visitor, tmp_path: Path) -> None:
    for make in KINDS:
        make(tmp_path / make.__name__)
    page = tmp_path / "report.html"
    write_page(report_of([RunHistory(tmp_path / make.__name__) for make in KINDS], guarantee=False), page)
    with visitor.at(page) as visit:
        visit.draw_everything()
        assert visit.page.evaluate("steadfed.failed") == []
        assert visit.page.locator("tr.flagged").count() > 0
        visit.assert_innocent()
