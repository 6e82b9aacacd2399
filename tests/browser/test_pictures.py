"""Pages look as they did when somebody last looked at them: a report of a run, and one of a comparison."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser.conftest import Visit, Visitor
from tests.browser.likeness import MOST, check_letters, check_likeness, unlike
from tests.reports.made import folder
from tests.reports.nasty import nasty_report
from tests.reports.test_comparisons import written
from tests.sweeps.runs.grids import result

from steadfed.aggregators import Rage
from steadfed.attacks import FixedMembers
from steadfed.partitions import IidPartition
from steadfed.reports._render.html import write_page
from steadfed.reports._reporting import report_of
from steadfed.reports.panels import Report
from steadfed.server._history import RunHistory
from steadfed.server._record import RoundRecord
from steadfed.sweeps.runs._results import Result

pytestmark = pytest.mark.browser
WIDTHS = {"desktop": 1280, "phone": 390}
CLIENTS, ROUNDS, START = 12, 30, 8
LIARS = (4, 9)
LATER = re.compile(r"-([2-9]|\d\d+)$")
"""Plots that are numbered differ in their figures only, so that the first stands for all."""


def a_round(number: int) -> RoundRecord:
    """Return a round of twelve clients, of whom two lie from the ninth round on; one slips through now and then."""
    lying = LIARS if number >= START else ()
    out = {client for client in lying if (number + client) % 7} | ({2} if number % 6 == 5 else set())
    absent = (number % CLIENTS,) if number % 4 == 3 else ()
    received = tuple(client for client in range(CLIENTS) if client not in absent)
    kept = tuple(client for client in received if client not in out)
    return RoundRecord(
        round=number,
        step=5 * (number + 1),
        lr=0.1,
        cohort=tuple(range(CLIENTS)),
        received=received,
        absent=absent,
        byzantine=lying,
        kept=kept,
        weights=tuple(1.0 / len(kept) if client in kept else 0.0 for client in received),
        scores=tuple(9.0 if client in lying else 1.0 + client / 20 for client in received),
        reason="the spread is below the threshold",
        num_byzantine=2,
        spread_before=6.0 + math.sin(number) if lying else 0.6,
        spread=0.5 + 0.1 * math.cos(number),
        threshold=1.0,
        error=0.2 + 0.05 * math.sin(number),
        certificate={"error_bound": 0.75 + 0.1 * math.cos(number)},
        test_accuracy=0.93 - 0.8 * math.exp(-number / 6),
        test_loss=0.2 + 2.0 * math.exp(-number / 6),
        bytes_down=400_000,
        bytes_up=400_000,
        seconds={"local_steps": 0.5, "aggregation": 0.25 + 0.05 * math.sin(number)},
    )


def run_report(place: Path) -> Report:
    changes = {"rounds": ROUNDS, "cohort_size": CLIENTS, "partition": IidPartition(num_clients=CLIENTS)}
    liars = {"byzantine": FixedMembers(clients=LIARS), "rule": Rage(num_byzantine=2)}
    folder(place / "hospitals", [a_round(number) for number in range(ROUNDS)], **changes, **liars)
    return report_of([RunHistory(place / "hospitals")], guarantee=False)


def comparison_rows() -> list[Result]:
    return [
        result(rule, attack, base + 0.02 * math.sin(7 * seed + len(attack)) - fraction * (2 - len(rule) / 5), seed=seed,
               fraction=fraction, heterogeneity=kind, precision=0.9 if rule == "rage" else None)
        for kind, fraction in [("iid", 0.1), ("iid", 0.2), ("dirichlet alpha=0.1", 0.1), ("dirichlet alpha=0.1", 0.2)]
        for rule, base in (("rage", 0.8), ("median", 0.9), ("krum", 0.7))
        for attack in ("none", "alie", "sign-flip")
        for seed in (0, 1, 2)
    ]  # fmt: skip


def comparison(place: Path) -> Report:
    return written(place, comparison_rows())


def of_every_kind(_: Path) -> Report:
    return nasty_report()


KINDS = {"run": run_report, "comparison": comparison, "every-kind": of_every_kind}


@pytest.fixture(scope="module", params=[(kind, width) for kind in KINDS for width in WIDTHS], ids="-".join)
def shown(
    request: pytest.FixtureRequest, visitor: Visitor, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Visit]]:
    kind, width = request.param
    place = tmp_path_factory.mktemp(kind)
    write_page(KINDS[kind](place), place / "report.html")
    with visitor.at(place / "report.html", width=WIDTHS[width]) as visit:
        visit.draw_everything()
        check_letters(visit)
        yield f"{kind}-{width}", visit


def test_the_first_view_looks_as_it_did(shown: tuple[str, Visit], tmp_path: Path) -> None:
    name, visit = shown
    visit.page.evaluate("window.scrollTo(0, 0)")
    check_likeness(name, visit.page.screenshot(), tmp_path)


def test_the_plots_look_as_they_did(shown: tuple[str, Visit], tmp_path: Path) -> None:
    name, visit = shown
    keys = visit.page.locator("article:has(.js-plotly-plot)").evaluate_all("all => all.map((each) => each.id)")
    assert len(keys) > 3
    for key in (key for key in keys if not LATER.search(key)):
        check_likeness(f"{name}-{key}", visit.page.locator(f"#{key} .plot").screenshot(), tmp_path)


def test_a_curve_that_is_missing_is_seen() -> None:
    draw, image = pytest.importorskip("PIL.ImageDraw"), pytest.importorskip("PIL.Image")
    pictures = []
    for curve in (True, False):
        made = image.new("RGB", (600, 360), "white")
        draw.Draw(made).rectangle((40, 20, 580, 320), outline="grey")
        if curve:
            draw.Draw(made).line([(40 + x, 300 - x // 3) for x in range(0, 540, 20)], fill="navy", width=2)
        file = io.BytesIO()
        made.save(file, "PNG")
        pictures.append(file.getvalue())
    assert unlike(pictures[0], pictures[0]) == 0.0
    assert unlike(*pictures) > MOST
