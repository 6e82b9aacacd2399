"""Panels as JSON: what the page is given to draw."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, final

import pytest
from tests.reports.nasty import NASTY, ROUNDS, bars, curves, heat_map, panels, table, traffic

from steadfed.reports._render.csv import table_of
from steadfed.reports._render.plotly import EMPTY, panel_json
from steadfed.reports.panels import Bars, Column, HeatMap, Lines, Panel, Series, Style, Table, Unit


def lines(*y: float | None, log_y: bool = False) -> Lines:
    series = Series(name="s", x=tuple(float(k) for k in range(len(y))), y=y, colour=0)
    return Lines(key="k", title="t", series=(series,), x_title="round", y_title="y", log_y=log_y)


def test_every_panel_is_json_that_a_browser_reads() -> None:
    for panel in panels():
        found = json.loads(json.dumps(panel_json(panel), allow_nan=False))
        assert found["key"] == panel.key


def test_texts_in_figures_have_no_markup_but_ours() -> None:
    for panel in (curves(), traffic(), heat_map(), bars()):
        found = panel_json(panel)
        text = json.dumps([found["figure"], found.get("texts")], ensure_ascii=False)
        for ours in ("<b>", "</b>", "<br>", "<extra></extra>"):
            text = text.replace(ours, "")
        assert "<" not in text


def test_what_is_not_finite_is_a_gap() -> None:
    found = panel_json(lines(1.0, math.nan, None, math.inf, 1e308, 2.0))
    assert found["figure"]["data"][0]["y"] == [1.0, None, None, None, None, 2.0]


def test_a_logarithmic_axis_has_gaps_where_nothing_is_positive() -> None:
    found = panel_json(lines(1.0, 0.0, -1.0, 1e6, log_y=True))
    assert found["figure"]["data"][0]["y"] == [1.0, None, None, 1e6]
    assert found["figure"]["layout"]["yaxis"]["type"] == "log"


@pytest.mark.parametrize(
    ("y", "mode"),
    [
        ((1.0, 2.0), "lines"),
        ((1.0,), "lines+markers"),
        ((1.0, 2.0, None, 3.0), "lines+markers"),
        ((None, 1, 2), "lines"),
    ],
)
def test_a_point_that_no_line_reaches_is_drawn_as_a_point(y: tuple[float | None, ...], mode: str) -> None:
    assert panel_json(lines(*y))["figure"]["data"][0]["mode"] == mode


@pytest.mark.parametrize(
    "panel",
    [
        lines(),
        lines(math.nan, None),
        lines(0.0, log_y=True),
        Bars(key="k", title="t", categories=(), parts={}, x_title="x", y_title="y"),
        HeatMap(key="k", title="t", rows=(), columns=(), values=(), row_title="r", column_title="c", value_title="v"),
    ],
)
def test_a_plot_without_a_number_says_so(panel: Panel) -> None:
    found = panel_json(panel)
    assert found["empty"] == EMPTY
    assert "figure" not in found


def test_rows_of_the_same_name_stay_apart_in_every_order() -> None:
    found = panel_json(heat_map(("a", "a", "b", "a")))
    rows = found["figure"]["data"][0]["y"]
    assert len(set(rows)) == 4
    assert [order["name"] for order in found["orders"]] == ["by suspicion", "last first", NASTY[0]]
    assert found["orders"][1]["rows"] == rows[::-1]
    assert found["flagged"] == rows[:3]


def test_the_pointer_says_of_every_cell_what_belongs_to_it() -> None:
    found = panel_json(heat_map(("a", "b")))
    said = [[found["texts"][place] for place in row] for row in found["said"]]
    assert said[0][1] == "kept"
    assert said[0][10].startswith("removed: &lt;a href=")
    assert [len(row) for row in said] == [ROUNDS, ROUNDS]
    assert len(found["texts"]) == len(set(found["texts"]))


def test_the_whole_of_a_long_name_is_said_by_the_pointer() -> None:
    found = panel_json(heat_map(("n" * 100,)))
    assert all(text.replace("<br>", "").startswith("n" * 100) for text in found["texts"])


def test_equal_values_have_a_scale_with_two_ends() -> None:
    panel = HeatMap(
        key="k", title="t", rows=("a",), columns=("0",), values=((2.0,),), row_title="r", column_title="c",
        value_title="v",
    )  # fmt: skip
    trace = panel_json(panel)["figure"]["data"][0]
    assert trace["zmin"] < trace["zmax"]


def test_whole_numbers_that_a_browser_would_round_are_text() -> None:
    rows = ((2**63 + 1, 7, math.nan, None, "x"),)
    panel = Table(key="k", title="t", columns=tuple(Column(title=c) for c in "abcde"), rows=rows)
    assert panel_json(panel)["rows"] == [[str(2**63 + 1), 7, None, None, "x"]]


def test_tables_keep_what_is_flagged_and_how_many_are_shown() -> None:
    found = panel_json(table())
    assert (found["flagged"], found["shown"], len(found["rows"])) == ([0, 3], 12, 40)


def test_a_panel_of_an_unknown_kind_is_refused() -> None:
    @final
    @dataclass(frozen=True, kw_only=True)
    class Smell(Panel):
        pass

    with pytest.raises(TypeError, match="no way to draw a Smell"):
        panel_json(Smell(key="k", title="t"))


def _level_axis(value: float, unit: Unit) -> Any:
    curve = Series(name="x", x=(0.0, 1.0), y=(value, value), colour=0)
    panel = Lines(key="a", title="A", x_title="round", y_title="y", unit=unit, series=(curve,))
    return panel_json(panel)["figure"]["layout"]["yaxis"].get("range")


def test_a_level_line_does_not_stand_between_impossible_shares() -> None:
    assert _level_axis(0.0, Unit.PERCENT) == _level_axis(1.0, Unit.PERCENT) == [-0.03, 1.03]
    assert _level_axis(0.0, Unit.NUMBER) == [-0.03, 1.03]
    assert _level_axis(7.0, Unit.NUMBER) is None


def test_rounds_are_written_without_powers_of_ten() -> None:
    curve = Series(name="x", x=(0.0, 20_000.0), y=(0.0, 1.0), colour=0)
    panel = Lines(key="a", title="A", x_title="round", y_title="y", series=(curve,))
    axis = panel_json(panel)["figure"]["layout"]["xaxis"]
    assert (axis["exponentformat"], axis["separatethousands"]) == ("none", True)


def below(names: tuple[str, ...]) -> Any:
    panel = HeatMap(
        key="k", title="t", rows=tuple("abcdefghijkl"), columns=names, values=((1.0,) * len(names),) * 12,
        row_title="r", column_title="c", value_title="v",
    )  # fmt: skip
    found = panel_json(panel)
    return found["figure"]["layout"]["xaxis"], found["height"]


ATTACKS = ("none", "sign-flip", "label-flip", "alie", "ipm-0.1", "ipm-100", "mimic")


def test_a_few_words_are_all_named_and_numbers_of_rounds_are_not() -> None:
    assert below(ATTACKS)[0]["dtick"] == 1
    for rounds in (tuple(map(str, range(200))), tuple(f"{k}–{k + 4}" for k in range(0, 1000, 5)), tuple("01234567")):
        axis, _ = below(rounds)
        assert axis["nticks"] > 0
        assert "dtick" not in axis
    assert "dtick" not in below(tuple(f"hospital {k}" for k in range(17)))[0]


def test_words_that_will_be_slanted_have_room() -> None:
    longer = tuple(f"{name} and some more" for name in ATTACKS)
    assert below(longer)[1] > below(ATTACKS)[1]


def test_places_have_names_and_points_the_bands_that_they_are_given() -> None:
    series = Series(name="s", x=(-0.1, 0.9), y=(0.5, None), bands=((0.4, 0.8), None), colour=0, style=Style.POINTS)
    panel = Lines(key="k", title="t", series=(series,), y_title="y", places=("here", "<there>"))
    figure = panel_json(panel)["figure"]
    (trace,), axis = figure["data"], figure["layout"]["xaxis"]
    assert (trace["error_y"]["array"], trace["error_y"]["arrayminus"]) == ([0.3, 0.0], [0.1, 0.0])
    assert (axis["tickvals"], axis["ticktext"]) == ([0, 1], ["here", "&lt;there&gt;"])
    assert trace["text"] == ["here", "&lt;there&gt;"]
    assert figure["layout"]["hovermode"] == "closest"


def test_a_table_of_points_has_the_names_of_their_places_and_their_bands() -> None:
    series = Series(name="s", x=(-0.1, 0.9), y=(0.5, None), bands=((0.4, 0.8), None), colour=0, style=Style.POINTS)
    panel = Lines(key="k", title="t", series=(series,), x_title="place", y_title="y", places=("here", "there"))
    assert table_of(panel) == "place,series,y,from,to\nhere,s,0.5,0.4,0.8\nthere,s,,,\n"
