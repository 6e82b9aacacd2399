"""`steadfed aggregate`: one matrix of updates on disk, with the evidence."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steadfed._core.wording import percent, ranges
from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from torch import Tensor

    from steadfed.aggregators import Aggregation, Aggregator, ServerView


def aggregate(
    file: Annotated[Path, typer.Argument(help="A .npy file with a K x d matrix: one row per client.")],
    rule: Annotated[
        str,
        typer.Option(help="The rule; `steadfed list rules` names them all. One of your own: module:function."),
    ] = "rage",
    byzantine_fraction: Annotated[
        float | None, typer.Option(help="Assumed share of Byzantine clients (rage and krum need this or the number).")
    ] = None,
    num_byzantine: Annotated[int | None, typer.Option(help="Assumed number of Byzantine clients.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any parameter of the rule (of nnm+krum: of krum), as KEY=VALUE; repeatable."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with a table [rule], instead of the above.")] = None,
    trusted_row: Annotated[
        Path | None, typer.Option(help="A .npy file with the server's own update, for fltrust.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="A .npy file with the current model, for rsa.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the update to this .npy file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evidence as JSON.")] = False,
) -> None:
    """Aggregate a matrix of updates on disk, which may be larger than memory, and show the evidence.

    Executes the code that --rule or CONFIG names by an import path, and nothing else. A function is given a copy of the
    matrix in memory.

    Exit code 0, or 1 if the data contradict what is assumed (assumption violated), or 2 if nothing could be aggregated.
    """
    bounds = {"byzantine_fraction": byzantine_fraction, "num_byzantine": num_byzantine}
    built = _rule(rule, {key: value for key, value in bounds.items() if value is not None}, set_ or [], config)
    result = built(_read(file, "matrix"), _view(trusted_row, model))
    if out is not None:
        _write(out, result)
    if as_json:
        typer.echo(json.dumps(result.evidence()))
    else:
        from steadfed.reports._render import terminal
        from steadfed.reports.panels import facts_table

        terminal.show(facts_table("evidence", str(built), _facts(result, out)))
    if result.assumption_violated:
        raise typer.Exit(1)


def _read(file: Path, what: str) -> Any:
    """Return what a .npy file holds, where it lies on disk."""
    from steadfed._core.recorded import recorded_array

    return recorded_array(file, f"{what} of floats")


def _view(trusted_row: Path | None, model: Path | None) -> ServerView:
    """Return what the server knows besides the rows."""
    import torch

    from steadfed.aggregators import ServerView

    def vector(file: Path | None) -> Tensor | None:
        return None if file is None else torch.tensor(_read(file, "vector"))

    return ServerView(trusted_row=vector(trusted_row), model=vector(model))


def _write(out: Path, result: Aggregation) -> None:
    """Write the update as .npy."""
    import numpy as np

    try:
        with out.open("wb") as target:
            np.save(target, result.update.numpy())
    except OSError as error:
        raise ParameterError(f"cannot write the update to {str(out)!r}: {error.strerror}") from None


def _rule(name: str, bounds: dict[str, Any], settings: list[str], config: Path | None) -> Aggregator:
    """Return the rule that the options describe."""
    from steadfed.aggregators import RULES
    from steadfed.runs._files import parse_assignment

    if config is not None:
        if bounds or settings or name != "rage":
            raise ParameterError(
                f"--config {str(config)!r} describes the whole rule; leave out the other options of the rule"
            )
        return RULES.from_table(_table(config))
    parameters = dict(parse_assignment(text) for text in settings)
    for key, value in bounds.items():
        if parameters.setdefault(key, value) != value:
            raise ParameterError(f"--{key.replace('_', '-')} {value} contradicts --set {key}={parameters[key]}")
    return RULES.build(name, **parameters)


def _table(config: Path) -> dict[str, Any]:
    """Return the one table [rule] of a TOML file."""
    from steadfed.runs._files import read_toml

    document = read_toml(config, "the rule in")
    table = document.get("rule")
    if set(document) != {"rule"} or not isinstance(table, dict):
        raise ParameterError(f"expected one table [rule] in {str(config)!r}, got the keys {sorted(document)}")
    return table


def _facts(result: Aggregation, out: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the evidence for people."""
    yield "clients", f"{len(result.kept)}, of which {result.num_byzantine} assumed Byzantine at the most"
    yield "stopped because", str(result.stop)
    yield "unusable updates", _listed((~result.usable).nonzero().flatten().tolist())
    if result.attributed:
        yield "removed clients", _listed(result.removed)
        yield "half their weight lost", _listed([i for i in result.distrusted if bool(result.kept[i])])
    if result.spread is not None:
        yield "spread of the kept updates", f"{result.spread:.6g} (largest variance in any direction)"
    if result.certificate is not None:
        bound = result.certificate.error_bound()
        failure = result.certificate.failure_probability
        said = "" if result.certificate.proved else f"; fails with probability {percent(failure)}"
        said = " (an estimate)" if failure == 1.0 else said
        yield "error at most", f"{bound:.6g} if the honest spread σ₀ is {result.certificate.assumed_sigma0:.6g}{said}"
        if math.isfinite(anyway := result.certificate.unconditional_bound()):
            most = result.certificate.num_byzantine
            yield "error at most, whatever σ₀ is", f"{anyway:.6g} if at most {most} usable updates are Byzantine"
        yield "data rule out any σ₀ below", f"{result.certificate.smallest_sigma0():.6g}"
    if result.anchor is not None:
        cut = f"; cut to {percent(result.anchor.share)}" if result.anchor.share < 1.0 else ""
        number = result.num_byzantine if result.certificate is None else result.certificate.num_byzantine
        few = f"of which {number} updates may account for {result.anchor.reach:.6g}{cut}"
        yield "distance to the safest mean", f"{result.anchor.distance:.6g}, {few}"
    if result.guard is not None:
        yield "guard", result.guard.reason
    if result.sketch is not None:
        seen = "" if result.sketch.fits else "; it did not fit, so the rows themselves were used"
        yield "sketch", f"{result.sketch.num_buckets:,} numbers for a row, secret {result.sketch.secret:x}{seen}"
    yield "steps, eigen-solves", f"{result.num_steps}, {result.num_eigensolves}"
    if out is not None:
        yield "update written to", str(out)


def _listed(clients: list[int]) -> str:
    return f"{len(clients)}: {ranges(clients)}" if clients else "none"
