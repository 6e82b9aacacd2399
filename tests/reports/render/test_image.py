"""Pictures of plots for a paper: every point and every name in them can be seen."""

from __future__ import annotations

import base64
import html
import io
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from steadfed.errors import ParameterError
from steadfed.reports._render.figure_style import DARK, LIGHT, MARKERS, FigureStyle
from steadfed.reports._render.image import picture_of
from steadfed.reports.panels import Bars, HeatMap, Lines, Panel, Series, Style, Unit

pytest.importorskip("matplotlib")


def coloured(y: tuple[float | None, ...], colour: int) -> int:
    """Return how many pixels of a picture of a curve have its colour."""
    image = pytest.importorskip("PIL.Image")
    series = Series(name="s", x=tuple(map(float, range(len(y)))), y=y, colour=colour)
    content = picture_of(Lines(key="k", title="t", series=(series,), x_title="round", y_title="y"))
    assert content is not None
    picture = image.open(io.BytesIO(content)).convert("RGB")
    wanted = tuple(bytes.fromhex(LIGHT.series[colour][1:]))
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
    """Return the texts in a picture, which are texts."""
    content = picture_of(panel, "svg")
    assert content is not None
    return [html.unescape(text) for text in re.findall(r"<text\b[^>]*>(.*?)</text>", content.decode())]


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


def squares(rows: int, columns: int, **changes: object) -> HeatMap:
    names = ("none", "sign-flip", "label-flip", "a little is enough", "ipm-0.1", "ipm-100", "mimic", "min-max")
    values = tuple(tuple((row + column) / (rows + columns) for column in range(columns)) for row in range(rows))
    panel = HeatMap(
        key="k", title="Every attack", rows=tuple(f"nnm+rule {row}" for row in range(rows)), columns=names[:columns],
        values=values, row_title="rule", column_title="attack", value_title="accuracy", unit=Unit.PERCENT, low=0.0,
        high=1.0, written=True,
    )  # fmt: skip
    return replace(panel, **changes)  # type: ignore[arg-type]


def pixels(panel: Panel, style: FigureStyle) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    content = picture_of(panel, "png", style)
    assert content is not None
    return np.asarray(image.open(io.BytesIO(content)).convert("RGB")).astype(int)


@pytest.mark.parametrize(("width", "millimetres"), [("single", 85.0), ("double", 178.0), (60, 60.0), ("120mm", 120.0)])
@pytest.mark.parametrize("panel", [squares(3, 4), heat_map(("a",), ("b",))], ids=["squares", "map"])
def test_a_figure_is_as_wide_as_it_should_be(panel: Panel, width: object, millimetres: float) -> None:
    style = FigureStyle(width=width)
    pdf, svg = (picture_of(panel, kind, style) or b"" for kind in ("pdf", "svg"))
    points = float(re.search(rb"/MediaBox \[ ?0 0 ([0-9.]+)", pdf).group(1))  # type: ignore[union-attr]
    assert points == pytest.approx(millimetres * 72 / 25.4, abs=0.01)
    assert float(re.search(rb'width="([0-9.]+)pt"', svg).group(1)) == pytest.approx(points, abs=0.01)  # type: ignore[union-attr]
    assert pixels(panel, style).shape[1] == pytest.approx(millimetres * 300 / 25.4, abs=1)


@pytest.mark.parametrize("width", ["single", "double", 60])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 8), (9, 2)])
def test_cells_with_numbers_are_squares_and_one_of_them_is_no_poster(rows: int, columns: int, width: object) -> None:
    empty = squares(rows, columns, values=tuple((1.0,) * columns for _ in range(rows)))
    style = FigureStyle(width=width)
    yellow = _cells(pixels(empty, style))
    down, across = np.flatnonzero(yellow.any(axis=1)), np.flatnonzero(yellow.any(axis=0))
    across = across[: np.argmax(np.diff(across, append=10**9) > 3) + 1]  # a scale of colours may stand beside them
    height, wide = down[-1] - down[0] + 1, across[-1] - across[0] + 1
    assert wide / columns == pytest.approx(height / rows, abs=1.5)
    assert wide / columns <= 4.6 * 8 / 72 * 300


def _cells(picture: np.ndarray) -> np.ndarray:
    """Return where the brightest colour of cividis is."""
    return (abs(picture - np.array([254, 232, 56])) <= 4).all(axis=2)  # type: ignore[no-any-return]


def test_numbers_that_have_no_room_are_left_to_a_scale_of_colours() -> None:
    wide = replace(squares(3, 8), columns=tuple(f"attack {place}" for place in range(40)), values=((0.5,) * 40,) * 3)
    assert "50" not in texts(wide)
    assert "50" in texts(squares(1, 1, values=((0.5,),)))


def test_fonts_lie_in_the_file_and_letters_are_letters() -> None:
    panel = squares(2, 2, title="σ₀ ≤ λ & 5 $ <b>")
    svg, pdf = (picture_of(panel, kind) or b"" for kind in ("svg", "pdf"))
    assert "σ₀ ≤ λ & 5 $ <b>" in texts(panel)
    fonts = [base64.b64decode(data) for data in re.findall(r"data:font/ttf;base64,([^\"]+)", svg.decode())]
    assert len(fonts) == 2
    assert all(font.startswith(b"\0\1\0\0") and len(font) < 40_000 for font in fonts)
    assert b"/Type3" not in pdf
    assert b"/FontFile2" in pdf


def test_a_figure_has_the_same_bytes_in_every_process() -> None:
    code = (
        "import hashlib, sys; from tests.reports.render.test_image import squares, lines;"
        "from steadfed.reports._render.image import picture_of;"
        "print([hashlib.sha256(picture_of(each, kind)).hexdigest() for each in (squares(3, 4), lines())"
        " for kind in ('pdf', 'svg', 'png')])"
    )
    said = [
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    content = picture_of(lines(), "pdf") or b""
    assert b"CreationDate" not in content


def lines(several: int = 3) -> Lines:
    x = tuple(map(float, range(30)))
    series = tuple(
        Series(
            name=f"rule {place}", x=x, y=tuple(at / 40 + place / 10 for at in x), colour=place,
            bands=tuple((at / 40, at / 40 + 0.2) for at in x),
        )
        for place in range(several)
    )  # fmt: skip
    return Lines(key="k", title="Accuracy", note="Mean over 3 seeds", series=series, y_title="y", unit=Unit.PERCENT)


def test_a_band_is_drawn_about_a_curve_and_the_note_says_of_how_many_seeds() -> None:
    panel = lines()
    assert {"Mean over 3 seeds", "rule 2"} <= set(texts(panel))
    bare = replace(panel, series=tuple(replace(each, bands=()) for each in panel.series))
    covered = [len(np.unique(pixels(each, FigureStyle()).reshape(-1, 3), axis=0)) for each in (panel, bare)]
    assert covered[0] > covered[1]


def test_dark_figures_are_dark() -> None:
    paper = pixels(lines(), FigureStyle(style="dark"))[0, 0]
    assert tuple(paper) == tuple(bytes.fromhex(DARK.paper[1:]))


@pytest.mark.parametrize("panel", [squares(8, 8), lines(10)], ids=["map", "curves"])
@pytest.mark.parametrize("size", [5.0, 8.0])
def test_no_letter_is_smaller_than_it_should_be(panel: Panel, size: float) -> None:
    content = (picture_of(panel, "svg", FigureStyle(font_size=size)) or b"").decode()
    sizes = [float(found) for found in re.findall(r"font(?:-size)?:[^;\"]*?([0-9.]+)px", content)]
    assert sizes
    assert min(sizes) >= 0.875 * size - 0.01


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"width": "wide"}, r"width: should be single \(85 mm\), double \(178 mm\), or from 40 .* got 'wide'"),
        ({"width": 39}, "or from 40 to 400 millimetres, got 39"),
        ({"width": "nan"}, "or from 40 to 400 millimetres, got 'nan'"),
        ({"font_size": 3}, "font_size: input should be greater than or equal to 4, got 3"),
        ({"style": "drak"}, "style: input should be 'light' or 'dark', got 'drak'"),
    ],
)  # fmt: skip
def test_looks_that_no_paper_has_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        FigureStyle(**given)


_BLINDNESS = {  # Machado, Oliveira and Fernandes (2009), severity 1, of linear RGB
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


@pytest.mark.parametrize("kind", _BLINDNESS)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_of_curves_differ_for_everybody_or_their_markers_do(kind: str, colours: object) -> None:
    series = [_linear(colour) for colour in colours.series]  # type: ignore[attr-defined]
    seen = [_lab(np.clip(np.array(_BLINDNESS[kind]) @ colour, 0, 1)) for colour in series]
    gaps = [np.linalg.norm(seen[one] - seen[other]) for one in range(6) for other in range(one)]
    assert min(gaps) > 8, "the first six differ at sight"
    assert len(set(MARKERS)) == len(series)


def _linear(colour: str) -> np.ndarray:
    parts = np.frombuffer(bytes.fromhex(colour[1:]), dtype=np.uint8) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    """Return CIELAB under D65."""
    matrix = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = np.array(matrix) @ linear / (0.9505, 1.0, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_bars_and_empty_panels_are_drawn() -> None:
    bars = Bars(
        key="k", title="t", categories=("a", "b"), parts={str(part): (1.0, 2.0) for part in range(12)}, x_title="x",
        y_title="y",
    )  # fmt: skip
    assert {"a", "b", "11"} <= set(texts(bars))
    nothing = HeatMap(key="k", title="t", rows=("a",), columns=("b",), values=((None,),), row_title="r",
                      column_title="c", value_title="v", written=True)  # fmt: skip
    assert texts(nothing)
