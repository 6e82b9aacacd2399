"""A report with a panel of every kind, whose texts were written by somebody who means harm."""

from __future__ import annotations

import math

from steadfed.reports.panels import (
    Bars,
    Code,
    Column,
    Headline,
    HeatMap,
    Lines,
    Mark,
    Panel,
    Report,
    Section,
    Series,
    Style,
    Table,
    Text,
    Tone,
    Unit,
)

NASTY = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '<a href="http://example.org">click</a>',
    "<b>bold</b> &lt;i&gt; %{x} {{ 7 * 7 }}",
    "Zürich 東京 🏥 \u202eevil",
    "n" * 200,
    "--><!--<script>",
    "\x1b[2J\x00\ud800 line\u2028end",
)
"""Names that clients might give themselves."""
ROUNDS = 40


def curves(key: str = "curves", name: str = "accuracy") -> Lines:
    rounds = tuple(float(k) for k in range(ROUNDS))
    return Lines(
        key=key,
        title=f"Curves {NASTY[0]}",
        caption="How it went. " + NASTY[1],
        series=(
            Series(name=name, x=rounds, y=tuple(1 - math.exp(-k / 9) for k in rounds), colour=0),
            Series(
                name=NASTY[2],
                x=rounds,
                y=tuple(None if 10 < k < 14 else 0.6 - k / 100 for k in rounds),
                colour=1,
                style=Style.DASHED,
            ),
            Series(name=NASTY[5], x=rounds, y=tuple(math.nan for _ in rounds), colour=2),
        ),
        x_title="round",
        y_title="test accuracy",
        unit=Unit.PERCENT,
        marks=(Mark(at=8, text=NASTY[3]),),
    )


def traffic() -> Lines:
    sent = tuple(float(k * 3e8) for k in range(ROUNDS))
    loss = tuple(10.0 ** (2 - k / 8) for k in range(ROUNDS))
    return Lines(
        key="traffic",
        title="Loss against bytes",
        series=(Series(name="loss", x=sent, y=loss, colour=4, style=Style.POINTS),),
        x_title="bytes up and down",
        y_title="training loss",
        x_unit=Unit.BYTES,
        log_y=True,
    )


def heat_map(rows: tuple[str, ...] = (*NASTY, NASTY[0], "hospital-a")) -> HeatMap:
    places = range(len(rows))
    values = tuple(
        tuple(None if (r + c) % 7 == 0 else (0.0 if r < 3 and c > 8 else 0.9 + r / 40) for c in range(ROUNDS))
        for r in places
    )
    hover = tuple(tuple(f"removed: {NASTY[2]}" if v == 0 else "kept" for v in row) for row in values)
    return HeatMap(
        key="weights",
        title="Weights",
        caption="Blank: did not take part.",
        rows=rows,
        columns=tuple(str(c) for c in range(ROUNDS)),
        values=values,
        row_title="client",
        column_title="round",
        value_title="weight × n",
        low=0.0,
        high=1.2,
        hover=hover,
        flagged=tuple(places[:3]),
        orders={"by suspicion": tuple(places), "last first": tuple(reversed(places)), NASTY[0]: tuple(places)},
    )


def table(count: int = 40) -> Table:
    names = [NASTY[k] if k < len(NASTY) else f"client {k}" for k in range(count)]
    return Table(
        key="clients",
        title="Clients",
        columns=(
            Column(title="client", hint=NASTY[0]),
            Column(title="suspicion", unit=Unit.PERCENT),
            Column(title="sent", unit=Unit.BYTES),
            Column(title="seconds", unit=Unit.SECONDS),
            Column(title="node"),
        ),
        rows=tuple(
            (name, None if k % 11 == 5 else (k * 7 % count) / count, 1234 * 10**k % 10**9, k / 7, 2**63 + k)
            for k, name in enumerate(names)
        ),
        flagged=(0, 3),
        shown=12,
    )


def bars() -> Bars:
    return Bars(
        key="labels",
        title="Labels of every client",
        categories=NASTY,
        parts={str(digit): tuple(float((k * digit) % 7) for k in range(len(NASTY))) for digit in range(10)},
        x_title="client",
        y_title="points",
        flagged=(1,),
    )


def panels() -> tuple[Panel, ...]:
    """Return one panel of every kind, and those that have nothing to show."""
    return (
        Text(key="verdict", title="Verdict", paragraphs=(f"It learned. {NASTY[0]}", NASTY[1]), tone=Tone.GOOD),
        Text(key="warning", title="Warning", paragraphs=NASTY, tone=Tone.WARNING),
        curves(),
        traffic(),
        heat_map(),
        bars(),
        table(),
        Table(key="none", title="No rows", columns=(Column(title="a"),), rows=()),
        Lines(key="nothing", title="Nothing", series=(), x_title="round", y_title="loss"),
        HeatMap(
            key="grid",
            title="Worst case",
            rows=("rage", "krum"),
            columns=("alie", "ipm", NASTY[0]),
            values=((0.91, 0.88, None), (0.1, 0.4, 0.5)),
            row_title="rule",
            column_title="attack",
            value_title="accuracy",
            unit=Unit.PERCENT,
            written=True,
        ),
        Code(key="again", title="Again", text=f"steadfed run config.toml\n# {NASTY[1]}"),
    )


def nasty_report() -> Report:
    everything = panels()
    return Report(
        title=f"Report {NASTY[0]}",
        subtitle=NASTY[1],
        headlines=(
            Headline(title="final accuracy", value="91.2 %", note=NASTY[0], tone=Tone.GOOD),
            Headline(title="Byzantine rows kept", value="12 of 1,600", note="0.8 %"),
            Headline(title="honest rows removed", value="301 of 6,400", note=NASTY[1], tone=Tone.WARNING),
        ),
        sections=(
            Section(key="first", title=f"Learning {NASTY[2]}", intro=NASTY[0], panels=everything[:4]),
            Section(key="second", title="Clients", panels=everything[4:8]),
            Section(key="third", title="The rest", panels=everything[8:]),
        ),
        made_with={"steadfed": "0.1.0", NASTY[0]: NASTY[1]},
    )
