"""`steadfed verify`: what the history of a run proves, checked offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from steadfed._core.signatures import VerificationKey
    from steadfed.server._record import RoundRecord
    from steadfed.server._verification import Verification


def verify(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="The folder of a run; or a file with one round that --export wrote, or with a signed incident report.",
        ),
    ],
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The server's public key (PEM), from somebody you trust. Without it signatures are checked with the "
            "key in the folder, which proves less.",
        ),
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", min=0, help="Show one round in full, counted from 0.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --round: write that round with its signature, to be checked alone."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, every hash in full.")] = False,
) -> None:
    """Check that the history of a run is what the run has written, and say what that proves.

    Looked at are the configuration, every line of the rounds (each holds the hash of the one before), their signatures,
    the states and models beside them, and the summary. For every round it says which model went out, whose replies
    came, who got no weight and why, and what the model became. Nothing is executed, repaired or sent, and neither the
    data nor the code of the run are needed.

    Without a signature nobody can tell a history from one that somebody made up as a whole. A signature proves that the
    server wrote a line, not that the line is true.

    Exit code 0: all is proved that can be, and the rest is named. 1: something is not what the run has written. 2:
    there is no such run, round or key.
    """
    from steadfed._core.signatures import VerificationKey

    trusted = None if key is None else VerificationKey.read(key)
    if export is not None:
        _export(path, round_, export)
    found = _verified(path, trusted)
    records = _chosen(found, round_)
    if as_json:
        typer.echo(json.dumps(found.as_dict() | {"rounds": [each.model_dump(mode="json") for each in records]}))
    else:
        _show(found, records, whole=round_ is not None or path.is_file())
    if found.broken:
        raise typer.Exit(1)


def _verified(path: Path, key: VerificationKey | None) -> Verification:
    from steadfed._cli.folders import require_run
    from steadfed.server._statements import verify_statement
    from steadfed.server._verification import verify_run

    if not path.is_file():
        return verify_run(require_run(path), key)
    if key is None:
        raise ParameterError(f"{str(path)!r} is a file with one statement, which proves nothing without --key FILE")
    return verify_statement(path, key)


def _export(path: Path, number: int | None, target: Path) -> None:
    from steadfed._core.durable import replace_file
    from steadfed.server._statements import export_round

    if number is None:
        raise ParameterError("--export writes one round; say which with --round N")
    content = export_round(path, number).to_json() + "\n"
    try:
        replace_file(target, content.encode())
    except OSError as error:
        raise ParameterError(f"cannot write {str(target)!r}: {error.strerror}") from None


def _chosen(found: Verification, number: int | None) -> list[RoundRecord]:
    """Return the rounds that are asked for.

    Raises:
        ParameterError: there is none, though nothing is damaged.
    """
    records = [record for record in found.records if number in {None, record.round}]
    if not records and number is not None and not found.broken:
        known = f"{len(found.records)} rounds, counted from 0"
        raise ParameterError(f"{str(found.path)!r} has {known}; got --round {number}")
    return records


def _show(found: Verification, records: list[RoundRecord], *, whole: bool) -> None:
    from steadfed.reports._render import terminal
    from steadfed.reports._sections.round import round_table
    from steadfed.reports._sections.verification import hashes_panel, rounds_panel, verdict_panels

    terminal.show(*verdict_panels(found))
    if not whole and records:
        terminal.show(rounds_panel(found))
    elif whole:
        terminal.show(*(panel for each in records for panel in (hashes_panel(each), round_table(each))))
