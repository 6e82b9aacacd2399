"""Panels as plain JSON: tables and texts as they are, plots as what Plotly draws.

    panel ──► panel_json ──► page/plots.js ──► what people see

Colours are left to the page, which knows whether it is light or dark: a trace names the place of its colour in the
palette (`meta.colour`). Nothing here imports Plotly; figures are the dictionaries that its schema describes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch
from itertools import pairwise
from typing import Any

from steadfed._core.wording import harmless, prose
from steadfed.reports._render.axis_names import LONGEST_NAME, axis_names, category_axis, needs_slant
from steadfed.reports._render.formulas import formulas
from steadfed.reports._render.labels import hover, label
from steadfed.reports.panels import Bars, Code, HeatMap, Lines, Panel, Series, Style, Table, Text, Unit, Value

EMPTY = "Nothing to draw: there is no finite value here."
_DIGITS = 6
"""Significant digits of what is drawn; a screen shows fewer."""
_EXACT = 2**53
"""Up to here a browser knows every whole number."""
_LARGEST = 1e300
"""Beyond this a browser cannot compute the ends of an axis; such values are left out like infinite ones."""
_DASHES = {Style.LINE: "solid", Style.DASHED: "dash", Style.DOTTED: "dot", Style.POINTS: "solid"}
_HEIGHT, _NAMED = 310, 12
"""Of curves and bars, in pixels: the height, and what the name of a curve adds."""
_ROW, _ABOVE, _BELOW, _SLANTED, _LOWEST, _HIGHEST = 18, 52, 50, 110, 200, 640
"""Of heat maps, in pixels: a row, the scale above the rows, names below that are upright, or not; lowest, highest."""
_SQUARE = 34
"""Pixels of a row whose cells are squares."""
_UPRIGHT = 4
"""Letters that have room below such a cell."""
_DECADES = 8
"""Powers of ten that an axis names at most."""
_FORMATS = {
    Unit.NUMBER: ("%{{{0}:.4~g}}", {"exponentformat": "power"}),
    Unit.TEXT: ("%{{{0}}}", {}),
    Unit.PERCENT: ("%{{{0}:.1%}}", {"tickformat": ".0~%"}),
    Unit.BYTES: ("%{{{0}:.3~s}}B", {"tickformat": "~s", "ticksuffix": "B"}),
    Unit.SECONDS: ("%{{{0}:.3~g}} s", {"ticksuffix": " s"}),
}
"""How Plotly writes numbers: by the pointer, and on an axis."""


def panel_json(panel: Panel) -> dict[str, Any]:
    """Return a panel as what `json.dumps` takes and the page draws.

    Every text in it may be shown: control characters are spelled out, and what goes into a plot is escaped for Plotly.

    >>> panel_json(Text(key="verdict", title="Verdict", paragraphs=("It learned.",)))["paragraphs"]
    ['It learned.']
    """
    note = f"{panel.note}." if panel.note else ""
    said = prose(f"{note} {panel.caption}".strip())
    head = {"key": panel.key, "title": harmless(panel.title), "caption": said, "fold": harmless(panel.fold)}
    return {**head, **_body(panel)}


@singledispatch
def _body(panel: Panel) -> dict[str, Any]:
    raise TypeError(f"no way to draw a {type(panel).__name__}")


@_body.register
def _(panel: Text) -> dict[str, Any]:
    words = {"kind": "text", "tone": panel.tone.value, "paragraphs": [prose(each) for each in panel.paragraphs]}
    if not panel.formula:
        return words
    return {**words, "formula": {"name": panel.formula, "text": formulas()[panel.formula].text}}


@_body.register
def _(panel: Code) -> dict[str, Any]:
    return {"kind": "code", "language": harmless(panel.language), "text": prose(panel.text)}


@_body.register
def _(panel: Table) -> dict[str, Any]:
    columns = [
        {
            "title": harmless(column.title),
            "unit": column.unit.value,
            "hint": harmless(column.hint),
            **{name: True for name in ("minor", "half_width") if getattr(column, name)},
        }
        for column in panel.columns
    ]
    return {
        "kind": "table",
        "columns": columns,
        "rows": [[_cell(value) for value in row] for row in panel.rows],
        "flagged": list(panel.flagged),
        "shown": panel.shown,
    }


@_body.register
def _(panel: Lines) -> dict[str, Any]:
    drawn, kind = [_curve(series, panel) for series in panel.series], "points" if panel.places else "lines"
    areas = [trace for series in panel.series for trace in _area(series, panel)]
    if not any(value is not None for trace in drawn for value in trace["y"]):
        return {"kind": kind, "empty": EMPTY}
    counted = panel.x_unit is Unit.NUMBER and not panel.places
    plain = {"exponentformat": "none", "separatethousands": True} if counted else {}
    layout = {
        "xaxis": {
            **_axis(panel.x_title, panel.x_unit),
            "zeroline": False,
            "automargin": False,
            "tickangle": 0,
            **plain,
            **_named_places(panel),
        },
        "margin": {"b": 50, "l": 68},  # known, so that the margins of both axes do not chase each other
        "yaxis": {
            **_axis(panel.y_title, panel.unit),
            "automargin": False,
            **(_decades(drawn) if panel.log_y else _level(drawn, panel.unit)),
        },
        "hovermode": "x unified" if counted else "closest",
        "showlegend": len(drawn) > 1,
        **_marks(panel),
    }
    if counted:
        layout["xaxis"]["unifiedhovertitle"] = {"text": f"{label(panel.x_title)} %{{x}}"}
    slanted = _SLANTED if panel.places and needs_slant(panel.places) else 0
    return {
        "kind": kind,
        "height": _HEIGHT + _NAMED * min(len(drawn), 12) + slanted,
        "figure": {"data": [*areas, *drawn], "layout": layout},
    }


@_body.register
def _(panel: HeatMap) -> dict[str, Any]:
    values = [[number(value) for value in row] for row in panel.values]
    if not any(value is not None for row in values for value in row):
        return {"kind": "heat-map", "empty": EMPTY}
    rows, columns = axis_names(panel.rows, panel.flagged), axis_names(panel.columns)
    trace = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": values,
        "colorbar": _FORMATS[panel.unit][1],
        "hovertemplate": f"%{{y}}<br>{label(panel.column_title)} %{{x}}<br>%{{text}}<extra></extra>",
        "xgap": 1 if len(columns) <= 100 else 0,
        "ygap": 1,
        **_ends(panel, values),
    }
    below = category_axis(panel.column_title, columns)
    crowded = panel.written and any(len(name) > _UPRIGHT for name in panel.columns)
    frame = _ABOVE + (_SLANTED if crowded or needs_slant(columns) else _BELOW)
    layout = {
        "xaxis": below,
        "yaxis": {"type": "category", "title": {"text": label(panel.row_title)}, "showgrid": False},
        "margin": {"t": _ABOVE, "b": _BELOW},
    }
    orders = panel.orders or {"": tuple(range(len(rows)))}
    row = _SQUARE if panel.written else _ROW
    return {
        "kind": "heat-map",
        "height": max(_LOWEST, min(_HIGHEST, frame + row * len(rows))),
        "figure": {"data": [trace], "layout": layout},
        "good_is_high": panel.good_is_high,
        "written": panel.written,
        "strong": [list(place) for place in panel.strong],
        "value": {"title": label(panel.value_title), "unit": panel.unit.value},
        "orders": [
            {"name": harmless(name), "rows": [rows[place] for place in places]} for name, places in orders.items()
        ],
        "flagged": [rows[place] for place in panel.flagged],
        **_hover_texts(panel),
    }


@_body.register
def _(panel: Bars) -> dict[str, Any]:
    values = {name: [number(value) for value in part] for name, part in panel.parts.items()}
    if not any(value is not None for part in values.values() for value in part):
        return {"kind": "bars", "empty": EMPTY}
    categories = axis_names(panel.categories, panel.flagged)
    whole = [hover(name, limit=200) for name in panel.categories]
    template = f"%{{customdata}}<br>%{{fullData.name}}: {_FORMATS[panel.unit][0].format('y')}<extra></extra>"
    data = [
        {
            "type": "bar",
            "name": label(name, limit=40),
            "x": categories,
            "y": part,
            "customdata": whole,
            "hovertemplate": template,
            "meta": {"colour": place},
        }
        for place, (name, part) in enumerate(values.items())
    ]
    below = category_axis(panel.x_title, categories)
    layout = {
        "barmode": "stack",
        "bargap": 0.15,
        "xaxis": below,
        "margin": {} if needs_slant(categories) else {"b": _BELOW},
        "yaxis": _axis(panel.y_title, panel.unit),
        "showlegend": len(data) > 1,
    }
    return {"kind": "bars", "height": _HEIGHT, "figure": {"data": data, "layout": layout}}


def number(value: float | None) -> float | None:
    """Return a number as it is drawn; None if it cannot be: missing, not finite or beyond all screens.

    >>> number(0.123456789), number(float("nan")), number(None)
    (0.123457, None, None)
    """
    if value is None or not math.isfinite(value) or abs(value) > _LARGEST:
        return None
    return float(f"{value:.{_DIGITS}g}")


def _cell(value: Value) -> Value:
    """Return a cell of a table; whole numbers that a browser would round, such as the ids of nodes, become text."""
    if value is None or isinstance(value, bool):
        return value if value is None else str(value).lower()
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, int):
        return value if abs(value) < _EXACT else str(value)
    return float(value) if math.isfinite(value) else None


def _curve(series: Series, panel: Lines) -> dict[str, Any]:
    y = with_gaps(series.y, log_y=panel.log_y)
    points = "markers" if series.style is Style.POINTS else "lines+markers" if has_lone_point(y) else "lines"
    said = "%{fullData.name}: " + _FORMATS[panel.unit][0].format("y")
    if panel.x_unit is not Unit.NUMBER:
        said += f"<br>{label(panel.x_title)}: {_FORMATS[panel.x_unit][0].format('x')}"
    if panel.places:
        said += "<br>%{text}"
    return {
        "type": "scatter",
        "mode": points,
        "name": label(series.name, limit=48),
        "x": [float(value) if math.isfinite(value) else None for value in series.x],
        "y": y,
        "line": {"dash": _DASHES[series.style], "width": 2},
        "marker": {"size": 10 if series.strong else 5},
        "meta": {"colour": series.colour},
        "hovertemplate": f"{said}<extra></extra>",
        **({"text": [label(panel.places[round(x)]) for x in series.x]} if panel.places else {}),
        **({"error_y": _bars_of(series)} if series.bands and series.style is Style.POINTS else {}),
    }


def _area(series: Series, panel: Lines) -> list[dict[str, Any]]:
    """Return the band about a curve: its lower end, and its upper end with what lies between them filled."""
    if not series.bands or series.style is Style.POINTS:
        return []
    ends = [[None if band is None else band[end] for band in series.bands] for end in (0, 1)]
    common = {
        "type": "scatter",
        "mode": "lines",
        "x": [float(value) for value in series.x],
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": {"colour": series.colour, "area": True},
    }
    low, high = (with_gaps(end, log_y=panel.log_y) for end in ends)
    return [{**common, "y": low}, {**common, "y": high, "fill": "tonexty"}]


def _bars_of(series: Series) -> dict[str, Any]:
    """Return the bands of a series as lines up and down from its points."""
    pairs = list(zip(series.y, series.bands, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if y is None or band is None else number(band[1] - y) for y, band in pairs],
        "arrayminus": [0.0 if y is None or band is None else number(y - band[0]) for y, band in pairs],
        "thickness": 1.5,
        "width": 0,
    }


def _named_places(panel: Lines) -> dict[str, Any]:
    """Return what an axis has besides where its places have names."""
    if not panel.places:
        return {}
    number_of = len(panel.places)
    return {
        "tickmode": "array",
        "tickvals": list(range(number_of)),
        "ticktext": axis_names(panel.places),
        "tickangle": -35 if needs_slant(panel.places) else 0,  # towards the left: Plotly hides what leaves the plot
        "automargin": True,
        "range": [-0.5, number_of - 0.5],
    }


def with_gaps(y: Sequence[float | None], *, log_y: bool) -> list[float | None]:
    """Return the numbers of a curve as they are drawn; a logarithmic axis has no place for zero and less."""
    return [None if value is not None and log_y and value <= 0 else number(value) for value in y]


def has_lone_point(y: Sequence[float | None]) -> bool:
    """Tell whether some point has no neighbour that a line could join it to."""
    padded = [None, *y, None]
    joined = [left is not None and right is not None for left, right in pairwise(padded)]
    alone = (not before and not after for before, after in pairwise(joined))
    return any(value is not None and single for value, single in zip(y, alone, strict=True))


def _axis(title: str, unit: Unit) -> dict[str, Any]:
    return {"title": {"text": label(title)}, **_FORMATS[unit][1]}


def _decades(drawn: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a logarithmic axis: powers of ten, each or some of them; twice and five times those if there are few."""
    sizes = [math.log10(value) for trace in drawn for value in trace["y"] if value is not None]
    decades = max(sizes) - min(sizes)
    if decades > 1.5:
        return {"type": "log", "dtick": math.ceil(decades / _DECADES)}
    if decades < 0.5:
        return {"type": "log"}  # Plotly then names values at even distances
    powers = range(math.floor(min(sizes)), math.ceil(max(sizes)) + 1)
    return {"type": "log", "tickvals": [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]}


def _level(drawn: list[dict[str, Any]], unit: Unit) -> dict[str, Any]:
    """Return the ends of an axis for curves that are one level line; others need none.

    Plotly draws such a line in the middle, of -100 % to 100 % for 0 and of 0 % to 200 % for 1.
    """
    values = {value for trace in drawn for value in trace["y"] if value is not None}
    whole = unit is Unit.PERCENT and 0 <= min(values) == max(values) <= 1
    return {"range": [-0.03, 1.03]} if whole or values == {0.0} else {}


def _marks(panel: Lines) -> dict[str, Any]:
    """Return a dotted line and a word for every mark."""
    lines = [
        {"type": "line", "x0": mark.at, "x1": mark.at, "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot"}}
        for mark in panel.marks
    ]
    words = [
        {
            "x": mark.at,
            "y": 1 - 0.08 * (place % 3),
            "yref": "paper",
            "yanchor": "top",
            "xanchor": "left",
            "text": label(mark.text, limit=40),
            "showarrow": False,
        }
        for place, mark in enumerate(panel.marks)
    ]
    return {"shapes": lines, "annotations": words}


def _ends(panel: HeatMap, values: list[list[float | None]]) -> dict[str, float]:
    """Return the ends of the scale of colours, apart from each other."""
    known = [value for row in values for value in row if value is not None]
    low = min(known) if panel.low is None else panel.low
    high = max(known) if panel.high is None else panel.high
    return {"zmin": low, "zmax": high if high > low else low + 1.0}


def _hover_texts(panel: HeatMap) -> dict[str, Any]:
    """Return what the pointer says of every cell, each text once, and the place of every cell's text among them."""
    places: dict[str, int] = {}
    found = []
    for row, name in enumerate(panel.rows):
        whole = f"{hover(name, limit=200)}<br>" if len(name) > LONGEST_NAME else ""
        texts = panel.hover[row] if panel.hover else [""] * len(panel.columns)
        known = {text: whole + hover(text) for text in set(texts)}
        found.append([places.setdefault(known[text], len(places)) for text in texts])
    return {"texts": list(places), "said": found}
