"""Tables for other programs: no letter of a name acts, in the header or below."""

from __future__ import annotations

from steadfed.reports._render.csv import table_of
from steadfed.reports.panels import Column, Table


def test_control_characters_are_spelled_out_in_the_header_and_in_cells() -> None:
    columns = (Column("metric\x1b[2J"), Column("value"))
    table = Table(key="k", title="t", columns=columns, rows=(("loss\x07\u202e", 1.5), ("a\nb\tc", 2.0)))
    assert table_of(table) == "metric\\x1b[2J,value\nloss\\x07\\u202e,1.5\na; b\tc,2.0\n"
