"""A certification as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.certification.small import convex, played

from holdfast.aggregators import Median
from holdfast.certification import Certification, certify
from holdfast.certification.plots import _figure, draw
from holdfast.errors import ParameterError
from holdfast.runs import Run

pytest.importorskip("matplotlib")


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
    left, right = _figure(certification).axes
    labels = [line.get_label() for line in left.get_lines() if not str(line.get_label()).startswith("_")]
    assert labels[0] == "measured"
    assert len(labels) == 5
    assert labels[-1] == "floor of a bound"
    assert left.get_yscale() == right.get_yscale() == "log"
    assert [str(line.get_label()).split(",")[0] for line in right.get_lines()] == [
        "certificate",
        "certificate at the true σ₀",
        "true error",
    ]


def test_no_bound_is_drawn_where_no_theorem_applies(tmp_path: Path) -> None:
    left, _ = _figure(certify(played(tmp_path / "run", convex(rule=Median())))).axes
    assert [line.get_label() for line in left.get_lines()] == ["measured"]
    assert left.texts[0].get_text().startswith("No bound is drawn, because no theorem applies")


def test_a_run_that_was_not_begun_can_be_drawn(tmp_path: Path) -> None:
    draw(certify(Run.start(convex(), tmp_path / "run").folder.path), tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").stat().st_size > 0


def test_other_files_and_places_are_refused(certification: Certification, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"written as \.svg or \.png, got '.*plot\.pdf'"):
        draw(certification, tmp_path / "plot.pdf")
    with pytest.raises(ParameterError, match="cannot write the plot"):
        draw(certification, tmp_path / "nowhere" / "plot.svg")
