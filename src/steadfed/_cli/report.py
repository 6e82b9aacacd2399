"""`steadfed report`: what happened, as a page that one rather looks at than reads; or as figures and tables."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from steadfed._cli.run import NoCode
from steadfed._core.wording import harmless
from steadfed.errors import ParameterError
from steadfed.reports._report import Format, check_installed, gather, look_of, usual_place, write

SILENCE = 10.0
"""Seconds after which a line says what is being done, where there is no terminal."""


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="The folder of a run, complete or not; of several, such as runs/demo-1; or of a comparison.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="The page, or the folder of figures or tables; in the folder of the run if left out, in the current "
            "one if several are given.",
        ),
    ] = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="html: one page. pdf, svg, png: a figure of every plot. latex: every table and map of numbers, with "
            "booktabs. csv: all the numbers of each.",
        ),
    ] = Format.HTML,
    width: Annotated[
        str | None,
        typer.Option(
            metavar="single|double|MM",
            help="Of figures: a column of a paper (85 mm), both (178 mm), or from 40 to 400 mm. Of LaTeX's tables: a "
            "column, or table* over both with all columns and intervals. Single if left out.",
        ),
    ] = None,
    font_size: Annotated[
        float | None,
        typer.Option(metavar="PT", help="Of the letters of figures and tables, from 4 to 24; 8 if left out."),
    ] = None,
    style: Annotated[
        str | None, typer.Option(metavar="light|dark", help="Of figures: on white, or on a dark slide.")
    ] = None,
    guarantee: Annotated[
        bool,
        typer.Option(
            "--guarantee/--no-guarantee",
            help="Whether to say which theorems apply and what they guarantee; it takes some seconds a run to measure.",
        ),
    ] = True,
    no_code: NoCode = False,
    open_: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
) -> None:
    """Write a report of a run, or of several side by side, and print where it is.

    The page is one file that needs no network: did it learn, who was trusted, who was removed and why, how many
    of them were false positives, what is proved, how to do it again. Empty, interrupted and damaged runs have a report,
    too; it says what is missing.

    Loads the data of a run to show who holds which points, and builds its model for the guarantee: code that its
    configuration names, its attack included (import, torch-dataset), is executed, data that it names are downloaded.
    With --no-code neither happens. The report of a comparison does neither in any case.

    Exit code 0, or 2 if there is no run, or the report cannot be written.
    """
    if open_ and format_ is not Format.HTML:
        raise ParameterError(f"--open shows the page, got --format {format_.value}; leave one of them out")
    look = look_of(format_, width=width, font_size=font_size, style=style, dashes="--")
    check_installed(format_)
    place = out if out is not None else usual_place(paths, format_)
    with _status() as notify:
        found = gather(paths, guarantee=guarantee, code=not no_code, whole=format_ is Format.CSV, notify=notify)
        written = write(found, format_, place, look)
    for path in written:
        typer.echo(path)
    if open_:
        webbrowser.open(written[0].resolve().as_uri())


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """Yield what says what is being done: in a line that changes in a terminal, in lines now and then elsewhere."""
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    said = time.monotonic()

    def line(text: str) -> None:
        nonlocal said
        if time.monotonic() - said >= SILENCE:
            said = time.monotonic()
            console.print(harmless(text))

    if not console.is_terminal:
        yield line
        return
    with console.status("looking at the runs") as status:
        yield lambda text: status.update(harmless(text))
