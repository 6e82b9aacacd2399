"""`holdfast gauntlet`: every rule against every attack, with a ranked table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from holdfast.errors import ParameterError, find

if TYPE_CHECKING:
    from holdfast.sweeps.matrices import Grid, RankedRule, Record

WIDTH_OF_FILES = 140
"""Columns of output that goes into a file or a pipe."""
WIDE = 100
"""Columns of a terminal from which all of the ranking fits."""
MOST_DUELS = 12
"""Lines of that list."""


def gauntlet(
    preset: Annotated[str, typer.Option(help="The grid to start from: quick (a minute) or full (hours).")] = "quick",
    rules: Annotated[
        str | None, typer.Option(help="Rules, separated by commas, such as rage,nnm+krum; `all` for the full list.")
    ] = None,
    attacks: Annotated[
        str | None, typer.Option(help="Attacks, likewise, such as alie,optimal+ipm; `all` for the full list.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(help="Of iso,power,clusters,heavy,rare; file:PATH.npy for recorded honest rows.")
    ] = None,
    cohort_sizes: Annotated[str | None, typer.Option(help="Numbers of clients K, separated by commas.")] = None,
    dims: Annotated[str | None, typer.Option(help="Dimensions d, separated by commas.")] = None,
    byzantine_fractions: Annotated[str | None, typer.Option(help="Shares ε below 0.5, by commas; f = ⌊εK⌋.")] = None,
    num_seeds: Annotated[int | None, typer.Option(help="How many draws of every cell.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to use.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Write every record to this JSON Lines file; what it holds is not run again."),
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Run nothing; rank the records of this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the standings as JSON instead of tables.")] = False,
) -> None:
    """Try every rule against every attack on matrices, without training, and rank the rules by their worst case.

    The error is the distance of the update to the mean of the honest clients in units of σ₀ √ε: σ₀ is the largest
    standard deviation of honest rows in any direction, ε the share of Byzantine clients.

    `holdfast list rules` and `holdfast list attacks` name them all; rage-known and rage-exact are told the true σ₀.
    """
    from holdfast.sweeps.matrices import read_records, run

    if show is not None:
        _report(read_records(show), show, as_json=as_json)
        return
    changes = {
        "rules": _names(rules),
        "attacks": _names(attacks),
        "models": _names(models),
        "cohort_sizes": _numbers("cohort-sizes", cohort_sizes, int),
        "dims": _numbers("dims", dims, int),
        "byzantine_fractions": _numbers("byzantine-fractions", byzantine_fractions, float),
        "num_seeds": num_seeds,
    }
    grid = _grid(preset, {key: value for key, value in changes.items() if value is not None})
    grid.check()
    cells = list(grid.cells())
    records: list[Record] = []
    with Progress(
        TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:  # fmt: skip
        task = progress.add_task("cells", total=len(cells))
        for done in run(grid, seed=seed, out=out, jobs=jobs):
            records += done
            progress.advance(task)
    _report(records, out, as_json=as_json)


def _report(records: Sequence[Record], out: Path | None, *, as_json: bool) -> None:
    """Print the ranking."""
    from holdfast.sweeps.matrices import ranking

    ranked = ranking(records)
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(each) for each in ranked]))
        return
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH_OF_FILES
    console.print(_ranking(ranked, console.width))
    _show_duels(console, records)
    if out is not None:
        console.print(f"{len(records)} records in {out}.")


def _grid(preset: str, changes: dict[str, Any]) -> Grid:
    from holdfast.sweeps.matrices import GRIDS, Grid

    if changes.get("attacks") == ("all",):
        changes["attacks"] = GRIDS["full"].attacks
    if changes.get("rules") == ("all",):
        changes["rules"] = GRIDS["full"].rules
    return Grid(**{**dict(find("preset", preset, GRIDS)), **changes})


def _ranking(ranked: Sequence[RankedRule], width: int) -> Table:
    """Return the table of worst cases, the best rule first; a narrow one is without the mean and the time."""
    from holdfast.sweeps.ranking import SUBJECT

    dims = sorted({dim for each in ranked for dim in each.worst_by_dim})
    table = Table(title="worst error over all attacks, in units of σ₀√ε; best first")
    table.add_column("rule", overflow="fold")
    rest = ("mean", "ms") if width >= WIDE else ()
    for heading in ("worst", *(f"d={dim:,}" for dim in dims), "honest\nlost", "forged\nkept", *rest):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("its worst attack", overflow="fold")
    for each in ranked:
        more = (_number(each.mean_error), _number(1e3 * each.seconds, 1)) if rest else ()
        table.add_row(
            each.rule,
            _number(each.worst_error),
            *(_number(each.worst_by_dim.get(dim)) for dim in dims),
            _percent(each.honest_weight_lost),
            _percent(each.byzantine_weight),
            *more,
            _where(each),
            style="bold" if each.rule == SUBJECT else None,
        )
    table.caption = (
        "honest lost: share of their weight that honest clients lose where nobody attacks (attack none). forged kept: "
        "share of the update that comes from forged rows. refused: a rule that refused some matrices is ranked by the "
        "others."
    ) + (" mean: over all attacks. ms: one aggregation of the largest matrices." if rest else "")
    return table


def _show_duels(console: Console, records: Sequence[Record]) -> None:
    """Say where the subject is not the best."""
    from holdfast.sweeps.matrices import lost_duels
    from holdfast.sweeps.ranking import SUBJECT

    duels = lost_duels(records)
    cells = {(r.cohort_size, r.dim, r.num_byzantine, r.model) for r in records}
    rules = {record.rule for record in records}
    if SUBJECT not in rules or len(rules) == 1:
        return
    if not duels:
        console.print(f"{SUBJECT} has the smallest worst case of {len(rules)} rules in all settings ({len(cells)}).")
        return
    table = Table("K", "d", "f", "honest model", "best rule", "its worst", f"{SUBJECT}'s worst")
    table.title = f"{SUBJECT} is not the best in {len(duels)} of {len(cells)} settings"
    for each in sorted(duels, key=lambda duel: duel.difference.mean)[:MOST_DUELS]:
        setting = (f"{value:,}" if isinstance(value, int) else str(value) for _, value in each.setting)
        table.add_row(*setting, each.other.rule, _number(-each.other.value.mean), _number(-each.own.value.mean))
    if len(duels) > MOST_DUELS:
        table.caption = f"the {MOST_DUELS} largest differences"
    console.print(table)


def _where(ranked: RankedRule) -> str:
    worst = ranked.worst
    if worst is None:
        return "refused every matrix"
    return f"{worst.attack} on {worst.model}" + (f" ({ranked.num_refused} refused)" if ranked.num_refused else "")


def _number(value: float | None, digits: int = 2) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.{digits}f}" if value < 1e4 else f"{value:.0e}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def _numbers(option: str, text: str | None, kind: type[int | float]) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise ParameterError(f"--{option} takes {what} separated by commas, got {text!r}") from None
