"""`steadfed gauntlet`: every rule against every attack, with a ranked table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steadfed._cli.progress import RunProgress, progress_display
from steadfed._core.lookup import find
from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from steadfed.sweeps.matrices import GauntletGrid, GauntletRecord


def gauntlet(
    preset: Annotated[str, typer.Option(help="The grid to start from: quick (a minute) or full (hours).")] = "quick",
    rules: Annotated[
        str | None, typer.Option(help="Rules, separated by commas, such as rage,nnm+krum; `all` for the full list.")
    ] = None,
    attacks: Annotated[
        str | None, typer.Option(help="Attacks, likewise, such as alie,optimal+ipm; `all` for the full list.")
    ] = None,
    populations: Annotated[
        str | None,
        typer.Option(
            help="Likewise: iso, power, clusters, heavy, rare; idle, converged; file:PATH.npy for recorded updates."
        ),
    ] = None,
    cohort_sizes: Annotated[str | None, typer.Option(help="Numbers of clients K, separated by commas.")] = None,
    dims: Annotated[str | None, typer.Option(help="Dimensions d, separated by commas.")] = None,
    byzantine_fractions: Annotated[str | None, typer.Option(help="Shares ε below 0.5, by commas; f = ⌊εK⌋.")] = None,
    num_seeds: Annotated[int | None, typer.Option(help="How many draws of every matrix.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to use.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Write every record to this JSON Lines file; what it holds is not run again."),
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Run nothing; rank the records of this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ranking as JSON instead of tables.")] = False,
) -> None:
    """Try every rule against every attack on matrices, without training, and rank the rules by their worst case.

    The error is the distance of the update to the mean of the honest clients in units of σ₀ √ε: σ₀ is the largest
    standard deviation of honest updates in any direction, ε the share of Byzantine clients.

    `steadfed list rules` and `steadfed list attacks` name them all; rage-known, rage-exact and rage-lazy know the
    true σ₀. One of your own is named by its import path, as in nnm+my_rules:median: its code is executed, and results
    of other code are not taken.
    """
    from steadfed.sweeps.matrices import read_records, run

    if show is not None:
        _report(read_records(show), show, as_json=as_json)
        return
    changes = {
        "rules": _names(rules),
        "attacks": _names(attacks),
        "populations": _names(populations),
        "cohort_sizes": _numbers("cohort-sizes", cohort_sizes, int),
        "dims": _numbers("dims", dims, int),
        "byzantine_fractions": _numbers("byzantine-fractions", byzantine_fractions, float),
        "num_seeds": num_seeds,
    }
    grid = _grid(preset, {key: value for key, value in changes.items() if value is not None})
    grid.check()
    number = sum(1 for _ in grid.matrices())
    records: list[GauntletRecord] = []
    with progress_display({"": RunProgress(number, noun="matrix", several="matrices")}) as watch:
        for place, done in enumerate(run(grid, seed=seed, out=out, jobs=jobs), 1):
            records += done
            watch.count("", place, number)
    _report(records, out, as_json=as_json)


def _report(records: Sequence[GauntletRecord], out: Path | None, *, as_json: bool) -> None:
    """Print the ranking."""
    from steadfed.sweeps.matrices import ranking

    ranked = ranking(records)
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(each) for each in ranked]))
        return
    from steadfed.reports._gauntlet import gauntlet_duels, gauntlet_ranking
    from steadfed.reports._render import terminal

    terminal.show(gauntlet_ranking(ranked), *gauntlet_duels(records))
    if out is not None:
        typer.echo(f"{len(records)} records in {out}.")


def _grid(preset: str, changes: dict[str, Any]) -> GauntletGrid:
    from steadfed.sweeps.matrices import GRIDS, GauntletGrid

    if changes.get("attacks") == ("all",):
        changes["attacks"] = GRIDS["full"].attacks
    if changes.get("rules") == ("all",):
        changes["rules"] = GRIDS["full"].rules
    return GauntletGrid(**{**dict(find("preset", preset, GRIDS)), **changes})


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
