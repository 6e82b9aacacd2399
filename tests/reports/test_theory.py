"""A certification as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.certification.small import convex, played

from steadfed.aggregators import Median
from steadfed.certification import Certification, certify
from steadfed.errors import ParameterError
from steadfed.reports._render.image import write_picture
from steadfed.reports._sections.theory import bound_panel, filter_panel
from steadfed.reports.panels import Lines
from steadfed.runs import Run

pytest.importorskip("matplotlib")


def draw(found: Certification, path: Path) -> None:
    write_picture([bound_panel(found), filter_panel(found)], path)


@pytest.fixture(scope="module")
def certification(convex_run: Path) -> Certification:
    return certify(convex_run)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_certification_gives_the_same_bytes(certification: Certification, tmp_path: Path, kind: str) -> None:
    for name in ("one", "two"):
        draw(certification, tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_an_svg_is_xml_without_a_date(certification: Certification, tmp_path: Path) -> None:
    draw(certification, tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314  written a moment ago
    assert "dc:date" not in text


def test_everything_that_is_compared_is_drawn_and_named(certification: Certification) -> None:
    bound, error = bound_panel(certification), filter_panel(certification)
    assert isinstance(bound, Lines)
    names = [series.name for series in bound.series]
    assert names[0] == "measured"
    assert len(names) == 7  # three bounds with their floors
    assert [name.endswith(": floor") for name in names[1:]] == [False, True] * 3
    assert bound.log_y
    assert error.log_y
    assert [series.name.split(",")[0] for series in error.series] == [
        "certificate",
        "certificate at the true σ₀",
        "true error",
    ]


def test_no_bound_is_drawn_where_no_theorem_applies(tmp_path: Path) -> None:
    bound = bound_panel(certify(played(tmp_path / "run", convex(rule=Median()))))
    assert isinstance(bound, Lines)
    assert [series.name for series in bound.series] == ["measured"]
    assert bound.caption.startswith("No bound is drawn, because no theorem applies")


def test_a_run_that_was_not_begun_can_be_drawn(tmp_path: Path) -> None:
    draw(certify(Run.start(convex(), tmp_path / "run").folder.path), tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").stat().st_size > 0


def test_other_files_and_places_are_refused(certification: Certification, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"written as \.pdf or \.svg or \.png, got '.*plot\.gif'"):
        draw(certification, tmp_path / "plot.gif")
    with pytest.raises(ParameterError, match="cannot write the plot"):
        draw(certification, tmp_path / "nowhere" / "plot.svg")
