"""What a federation of four to ten sites is told: what was measured, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from steadfed.aggregators import Aggregator, FlTrust, Krum, Mean, Rage, Zeno
from steadfed.runs._few_sites import MEASURED, few_sites_promise, few_sites_warning

README = Path(__file__).parents[2] / "benchmarks" / "README.md"


def row(table: str, title: str) -> list[list[float]]:
    """Return the numbers in the cells of a row, without those after ±."""
    line = next(line for line in table.splitlines() if line.startswith(f"| {title} |"))
    return [[float(each) for each in re.findall(r"[\d.]+", cell)] for cell in line.split("|")[2:7]]


def test_the_figures_are_those_that_were_published() -> None:
    table = README.read_text(encoding="utf-8").partition("### Few sites")[2]
    peace, far, flipped = row(table, "nobody attacks"), row(table, "ones"), row(table, "sign-flip")
    near = [row(table, name) for name in ("ipm-0.1", "alie-1.5")]
    for place, (_, found) in enumerate(sorted(MEASURED.items())):
        assert list(found.far) == far[place]
        assert list(found.flipped) == flipped[place]
        rage, mean = peace[place]
        assert found.peace == pytest.approx(max(0.0, mean - rage), abs=0.051)
        lost = max(mean - rage for rage, mean in (each[place] for each in near))
        assert found.near == pytest.approx(lost, abs=0.11)


@pytest.mark.parametrize("cohort", range(4, 11))
def test_from_four_to_ten_sites_it_says_what_is_removed_what_is_not_and_what_it_costs(cohort: int) -> None:
    can, cannot, costs, *more = few_sites_promise(Rage(num_byzantine=1), cohort)
    assert "updates far from the others are removed" in can
    assert cannot.startswith("not told from honest sites: ")
    assert ("flipped labels, and updates" in cannot) == (cohort < 8)
    assert costs.startswith("where nobody attacks it costs")
    assert more == ([] if cohort in MEASURED else [f"{cohort} sites were not measured"])
    assert (few_sites_warning(Rage(num_byzantine=1), cohort) is not None) == (cohort < 6)


def test_what_differs_from_what_was_measured_is_said() -> None:
    (can, *_, two, weak) = few_sites_promise(Rage(num_byzantine=3), 10)
    assert can.startswith("measured with one Byzantine site of 10: ")
    assert two.startswith("f = 3 is more than one: ")
    assert weak == "f/K = 3/10 is above 1/4, up to which RAGE's bound is good"
    (can, *_) = few_sites_promise(Krum(num_byzantine=1), 6)
    assert can.startswith("measured with one Byzantine site of 6, of RAGE as it is by default: ")
    assert few_sites_promise(Rage(num_byzantine=1), 3) == ["nothing was measured with fewer than 4 sites"]


@pytest.mark.parametrize("rule", [Mean(), Rage(num_byzantine=0), FlTrust(), Zeno(num_byzantine=1)], ids=repr)
def test_who_assumes_nobody_or_judges_by_points_of_the_server_is_told_nothing(rule: Aggregator) -> None:
    assert few_sites_promise(rule, 4) == []
    assert few_sites_warning(rule, 4) is None


def test_more_sites_are_told_nothing() -> None:
    assert few_sites_promise(Rage(num_byzantine=1), 11) == []
