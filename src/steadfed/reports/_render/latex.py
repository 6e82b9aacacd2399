r"""A report as tables for a paper: one file for every table and every map of numbers, to be \input; needs booktabs.

Names come from clients and users: every letter of theirs is shown as it is, or spelled out where no engine has it, and
none acts. The files are plain ASCII, and the same for the same report.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import final

from steadfed._core.wording import harmless, number, percent, size
from steadfed.errors import ParameterError
from steadfed.reports._render.figure_style import FigureStyle
from steadfed.reports._render.image import write_files
from steadfed.reports.panels import Column, HeatMap, Panel, Report, Table, Unit, Value

_NOTHING = "--"
_LONG = 40
"""Letters of a cell that is broken into lines."""
_LINE = 1.2
"""From a line of letters to the next."""
_ACTING: Mapping[str, str] = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", '"': r"\char34{}",
}  # fmt: skip
"""What LaTeX would act on."""
_JOINED = ("--", "''", "``", "!`", "?`", ",,")
"""Letters that it would join to another one."""
_SIGNS: Mapping[str, str] = {
    "–": "--", "—": "---", "…": r"\dots{}", "·": r"$\cdot$", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\le$",
    "≥": r"$\ge$", "≠": r"$\ne$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$", "√": r"$\surd$", "‖": r"$\Vert$",
    "∇": r"$\nabla$", "′": r"$'$", "−": "$-$", "“": "``", "”": "''", "‘": "`", "’": "'", "°": r"$^{\circ}$",
    "ß": r"{\ss}", "æ": r"{\ae}", "Æ": r"{\AE}", "ø": r"{\o}", "Ø": r"{\O}", "å": r"{\aa}", "Å": r"{\AA}", "ł": r"{\l}",
    "Ł": r"{\L}", "œ": r"{\oe}", "Œ": r"{\OE}", "ı": r"{\i}", "✓": r"$\surd$", "✗": r"$\times$", "○": r"$\circ$",
}  # fmt: skip
_MARKS = {"̀": "`", "́": "'", "̂": "^", "̃": "~", "̄": "=", "̆": "u", "̇": ".", "̈": '"', "̋": "H", "̌": "v", "̧": "c"}
"""Accents, apart from their letters, as commands."""
_CAPITALS = frozenset("ΓΔΘΛΞΠΣΥΦΨΩ")
"""Greek ones that look like no Latin one, so that they have a command."""


def write_latex(report: Report, folder: Path, *, style: FigureStyle | None = None) -> list[Path]:
    """Write a file for every table and every map of numbers of a report, named after its key, and return them.

    Raises:
        ParameterError: they cannot be written, or a table should be some millimetres wide.
    """
    panels = [panel for section in report.sections for panel in section.panels]
    look = style or FigureStyle()
    found = {f"{panel.key}.tex": text.encode() for panel in panels if (text := latex_of(panel, look)) is not None}
    return write_files(folder, found)


def latex_of(panel: Panel, style: FigureStyle | None = None) -> str | None:
    r"""Return a table, or a map with its numbers, as a float with booktabs' rules; None if a panel is neither.

    One column of a paper holds what matters most; both columns (a `table*`) hold all, and intervals in maps.

    >>> from steadfed.reports.panels import Column
    >>> columns = Column("a_b"), Column("n", Unit.PERCENT)
    >>> print(latex_of(Table(key="k", title="50 % & more", columns=columns, rows=(("x", 0.5),))), end="")
    \begin{table}
      \centering
      \fontsize{8}{9.6}\selectfont
      \caption{50 \% \& more}
      \label{tab:k}
      \begin{tabular}{lr}
        \toprule
        a\_b & n (\%) \\
        \midrule
        x & 50.0 \\
        \bottomrule
      \end{tabular}
    \end{table}
    """
    look = style or FigureStyle()
    if not isinstance(look.width, str):
        raise ParameterError(f"a table is single or double (a table*), got a width of {look.width:g} mm")
    wide = look.width == "double"
    if isinstance(panel, Table):
        return _float(panel, _of_table(panel, wide=wide), look)
    if isinstance(panel, HeatMap) and panel.written:
        return _float(panel, _of_map(panel, wide=wide), look)
    return None


def escaped(text: str) -> str:
    r"""Return text as LaTeX shows it, whichever engine reads it.

    >>> print(escaped("50 % of R_k & ε ≤ 1 – Zürich, 東"))
    50 \% of R\_k \& $\varepsilon$ $\le$ 1 -- Z\"{u}rich, \texttt{U+6771}
    """
    line = unicodedata.normalize("NFC", harmless(text, limit=400))
    apart = ("{}" if before + letter in _JOINED else "" for before, letter in pairwise(f" {line}"))
    return "".join(gap + _letter(letter) for gap, letter in zip(apart, line, strict=True))


@final
@dataclass(frozen=True, kw_only=True)
class _Tabular:
    """Cells that are LaTeX already."""

    kinds: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0


def _of_table(panel: Table, *, wide: bool) -> _Tabular:
    places = [place for place, column in enumerate(panel.columns) if wide or not column.minor]
    shown = [place for place in places if not panel.columns[place].half_width]
    halves = {place - 1 for place in places if panel.columns[place].half_width}
    rows = panel.rows[: panel.shown or None]

    def cell(row: tuple[Value, ...], place: int) -> str:
        text = _cell(row[place], panel.columns[place].unit)
        half = row[place + 1] if place in halves else None
        return text if half is None else rf"{text} $\pm$ {_cell(half, panel.columns[place].unit)}"

    return _Tabular(
        kinds="".join(_kind(panel.columns[place], [row[place] for row in rows]) for place in shown),
        heads=[_head(panel.columns[place]) for place in shown],
        rows=[[cell(row, place) for place in shown] for row in rows],
        left_out=len(panel.rows) - len(rows),
    )


def _of_map(panel: HeatMap, *, wide: bool) -> _Tabular:
    strong = set(panel.strong)

    def cell(row: int, column: int) -> str:
        text = _cell(panel.values[row][column], panel.unit)
        half = panel.widths[row][column] if wide and panel.widths else None
        number_ = rf"\textbf{{{text}}}" if (row, column) in strong else text
        return number_ if half is None else rf"{number_} $\pm$ {_cell(half, panel.unit)}"

    order = next(iter(panel.orders.values()), range(len(panel.rows)))
    return _Tabular(
        kinds="l" + "r" * len(panel.columns),
        heads=[_text(panel.row_title), *map(_text, panel.columns)],
        rows=[[_text(panel.rows[row]), *(cell(row, place) for place in range(len(panel.columns)))] for row in order],
    )


def _float(panel: Panel, found: _Tabular, style: FigureStyle) -> str:
    name = "table*" if style.width == "double" else "table"
    said = [panel.title, panel.note.rstrip(".")] if panel.note else [panel.title]
    if found.left_out:
        said.append(f"The first {len(found.rows)} of {len(found.rows) + found.left_out:,} rows")
    caption = ". ".join(map(escaped, said)) + ("." if len(said) > 1 else "")
    headed = any(found.heads)
    lines = [
        rf"\begin{{{name}}}",
        r"  \centering",
        rf"  \fontsize{{{style.font_size:g}}}{{{_LINE * style.font_size:g}}}\selectfont",
        rf"  \caption{{{caption}}}",
        rf"  \label{{tab:{panel.key}}}",
        rf"  \begin{{tabular}}{{{found.kinds}}}",
        r"    \toprule",
        *([f"    {_row(found.heads)}", r"    \midrule"] if headed else []),
        *(f"    {_row(row)}" for row in found.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        rf"\end{{{name}}}",
        "",
    ]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _kind(column: Column, values: Sequence[Value]) -> str:
    """Return how a column is set: numbers to the right, words to the left, and long ones in lines."""
    if column.unit is not Unit.TEXT:
        return "r"
    return r"p{0.35\linewidth}" if any(len(str(value)) > _LONG for value in values) else "l"


def _head(column: Column) -> str:
    unit = {Unit.PERCENT: r" (\%)", Unit.SECONDS: " (s)"}.get(column.unit, "")
    return _text(column.title) + unit


def _cell(value: Value, unit: Unit) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return _NOTHING
    if isinstance(value, str):
        return _text(value)
    if unit is Unit.PERCENT:
        return _signed(percent(value).removesuffix(" %"))
    if unit is Unit.SECONDS:
        return _signed(f"{value:.3g}")
    return _signed(size(value) if unit is Unit.BYTES else number(value))


def _signed(text: str) -> str:
    """Return a number with a real minus; powers of ten as they are."""
    return escaped(text.replace("-", "−")) if text != "–" else _NOTHING


def _text(text: str) -> str:
    r"""Return a name for a cell; after a line's end a bracket or a star would be read as an argument of it."""
    found = escaped(text)
    return f"{{}}{found}" if found.startswith(("[", "*")) else found


def _letter(letter: str) -> str:
    """Return a letter as LaTeX shows it."""
    if letter in _ACTING:
        return _ACTING[letter]
    if " " <= letter <= "~":
        return letter
    return _SIGNS.get(letter) or _greek(letter) or _script(letter) or "".join(_accented(letter))


def _greek(letter: str) -> str:
    if not ("α" <= letter <= "ω" and letter not in "ος") and letter not in _CAPITALS:
        return ""
    name = unicodedata.name(letter).lower().split()[-1].replace("lamda", "lambda").replace("epsilon", "varepsilon")
    return rf"$\{name.capitalize() if letter in _CAPITALS else name}$"


def _script(letter: str) -> str:
    """Return a raised or lowered number or letter."""
    kind, _, rest = unicodedata.decomposition(letter).partition(" ")
    sign = {"<super>": "^", "<sub>": "_"}.get(kind)
    inside = "".join(chr(int(code, 16)) for code in rest.split()) if sign else ""
    return f"${sign}{{{inside.replace('−', '-')}}}$" if inside.replace("−", "-").isascii() and inside else ""


def _accented(letter: str) -> Iterator[str]:
    """Yield a letter with its accents; what has none that LaTeX knows is spelled out."""
    base, *marks = list(unicodedata.normalize("NFD", letter))
    if base.isascii() and base.isalpha() and len(marks) == 1 and marks[0] in _MARKS:
        yield rf"\{_MARKS[marks[0]]}{{{base}}}"
    else:
        yield rf"\texttt{{U+{ord(letter):04X}}}"
