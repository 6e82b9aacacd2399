"""Pictures of plots for a paper: every point and every name in them can be seen."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from steadfed.reports._render.image import PALETTE, picture_of
from steadfed.reports.panels import HeatMap, Lines, Panel, Series, Style

pytest.importorskip("matplotlib")


def coloured(y: tuple[float | None, ...], colour: int) -> int:
    """Return how many pixels of a picture of a curve have its colour."""
    image = pytest.importorskip("PIL.Image")
    series = Series(name="s", x=tuple(map(float, range(len(y)))), y=y, colour=colour)
    content = picture_of(Lines(key="k", title="t", series=(series,), x_title="round", y_title="y"))
    assert content is not None
    picture = image.open(io.BytesIO(content)).convert("RGB")
    wanted = tuple(bytes.fromhex(PALETTE[colour][1:]))
    return sum(count for count, found in picture.getcolors(1 << 24) if found == wanted)


def test_points_that_no_line_reaches_are_seen() -> None:
    assert coloured((1.0,), 0) > 50
    assert coloured((1.0, None, 2.0, None, 1.0), 0) > 3 * 50
    assert coloured((None, 1.0, float("nan"), 2.0, None), 1) > 2 * 50


def heat_map(rows: tuple[str, ...], columns: tuple[str, ...]) -> HeatMap:
    values = tuple(tuple(0.5 for _ in columns) for _ in rows)
    return HeatMap(
        key="k", title="t", rows=rows, columns=columns, values=values, row_title="r", column_title="c", value_title="v"
    )


def texts(panel: Panel) -> list[str]:
    """Return the texts in a picture: matplotlib names each in a comment beside its outlines."""
    content = picture_of(panel, "svg")
    assert content is not None
    return re.findall(r"<!-- (.*?) -->", content.decode())


def test_rounds_below_a_map_leave_room_for_each_other() -> None:
    spans = tuple(f"{start}–{start + 4}" for start in range(0, 3000, 5))
    found = [text for text in texts(heat_map(("a",), spans)) if text in spans]
    assert found[0] == "0–4"
    assert 3 <= len(found) <= 8


def test_words_below_a_map_are_all_there() -> None:
    rules = ("oracle", "nnm+trimmed-mean", "geometric-median", "centered-clipping", "median", "mean", "krum")
    assert set(rules) <= set(texts(heat_map(("a",), rules)))


def test_names_that_differ_at_their_ends_look_different() -> None:
    rows = tuple(f"byzantine fraction 0.2, dirichlet alpha={alpha}" for alpha in (0.1, 0.5))
    found = [text for text in texts(heat_map(rows, ("x",))) if "alpha" in text]
    assert len(set(found)) == 2


def test_places_and_bands_are_drawn() -> None:
    series = Series(name="s", x=(-0.1, 0.9), y=(0.5, 0.7), bands=((0.2, 0.9), None), colour=0, style=Style.POINTS)
    panel = Lines(key="k", title="t", series=(series, series), y_title="y", places=("here", "there"))
    assert {"here", "there"} <= set(texts(panel))
    without = replace(panel, series=2 * (replace(series, bands=()),))
    assert picture_of(panel) != picture_of(without)
