"""Files with one signed statement: a round that was handed on, or an incident report; each is checked alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from steadfed._core.parsing import parse_json
from steadfed._core.signatures import MOST_BYTES, Envelope, VerificationKey
from steadfed._core.wording import harmless, plural
from steadfed.errors import CorruptRunError, ParameterError, SignatureError
from steadfed.server._chain import hash_of_line
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord, finite_or_none
from steadfed.server._signatures import INCIDENT_TYPE, ROUND_TYPE, envelopes
from steadfed.server._verification import Finding, Proof, Verification, short

_LONGEST = 60
"""Letters of a text of the statement in a sentence."""


def verify_statement(path: str | os.PathLike[str], key: VerificationKey) -> Verification:
    """Check a file with one signed round, as `export_round` writes it, or with a signed incident report.

    Raises:
        ParameterError: the file cannot be read.
    """
    place = Path(path)
    try:
        with place.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ParameterError(f"cannot read {str(place)!r}: {error.strerror}") from None
    try:
        envelope = Envelope.from_json(content)
        if envelope.payload_type == INCIDENT_TYPE:
            return _incident(place, envelope.open(key, INCIDENT_TYPE), key)
        return _round(place, envelope.open(key, ROUND_TYPE), key)
    except (SignatureError, CorruptRunError, ParameterError, UnicodeDecodeError) as error:
        return Verification(place, (Finding("signature", Proof.BROKEN, str(error)),), ())


def export_round(path: str | os.PathLike[str], number: int) -> Envelope:
    """Return one round of a run with its signature: an envelope that is checked without the rest.

    Raises:
        ParameterError: there is no such round, or it is not signed.
        CorruptRunError: there is no run in the folder, or its signatures cannot be read.
    """
    folder = RunFolder.open(path)
    signed = envelopes(folder.rounds, folder.signatures) if folder.signatures.exists() else iter(())
    before = list(islice(signed, max(number, 0)))
    found = next(signed, None) if number >= 0 else None
    if found is None:
        total = len(before) + sum(1 for _ in signed)
        raise ParameterError(
            f"{str(folder.path)!r} holds {plural(total, 'signed round')}, counted from 0; got round {number}"
        )
    return found


def _round(place: Path, line: bytes, key: VerificationKey) -> Verification:
    record = RoundRecord.from_line(line.decode())
    words = (
        f"round {record.round} was written so by the server with the key {short(key.keyid)} that you gave; its line "
        f"has the SHA-256 {hash_of_line(line)}, which the line after it holds"
    )
    return Verification(place, (Finding("signature", Proof.PROVED, words),), (record,))


def _incident(place: Path, content: bytes, key: VerificationKey) -> Verification:
    """Return what an incident report proves whose own signature is good: it, and the rounds it is about."""
    statement = parse_json(content)
    run, rounds = (statement.get(name) if isinstance(statement, dict) else None for name in ("run", "rounds"))
    if not isinstance(run, dict) or not isinstance(rounds, list):
        raise CorruptRunError("the statement is no incident report of this version: it names no run, or no rounds")
    name, made = (harmless(each, limit=_LONGEST) for each in (run.get("name"), statement.get("made")))
    words = (
        f"the incident report on the run {name!r}, made {made} by its own words, was written so by the holder of the "
        f"key {short(key.keyid)} that you gave"
    )
    records: list[RoundRecord] = []
    findings = [Finding("signature", Proof.PROVED, words), *_rounds(rounds, key, records)]
    return Verification(place, tuple(findings), tuple(records))


def _rounds(rounds: list[Any], key: VerificationKey, records: list[RoundRecord]) -> Iterator[Finding]:
    """Yield what is proved of the rounds in a report, and add them to the records, up to the first that is broken."""
    signed = 0
    for place, told in enumerate(rounds):
        try:
            record, is_signed = _told(told, key)
        except (SignatureError, CorruptRunError, ParameterError, UnicodeDecodeError) as error:
            yield Finding("rounds", Proof.BROKEN, f"the round at place {place} of the report: {error}")
            return
        records.append(record)
        signed += is_signed
    if signed:
        each = f"{signed} of {plural(len(rounds), 'round')} in it are told as their lines were signed"
        yield Finding("rounds", Proof.PROVED, f"{each}, with the key {short(key.keyid)}")
    if rest := len(rounds) - signed:
        alone = f"{plural(rest, 'round')} in it: not signed with this key, line by line; the signature of the report"
        yield Finding("rounds", Proof.UNPROVED, f"{alone} is all that vouches for them")


def _told(told: Any, key: VerificationKey) -> tuple[RoundRecord, bool]:
    """Return the record of a round in a report, and whether its line is signed with the key."""
    if not isinstance(told, Mapping) or not isinstance(told.get("record"), Mapping):
        raise CorruptRunError("it holds no record")
    envelope = None if "envelope" not in told else Envelope.from_json(json.dumps(told["envelope"]))
    if envelope is None or envelope.keyid != key.keyid:
        return RoundRecord.from_line(json.dumps(told["record"])), False
    line = envelope.open(key, ROUND_TYPE)
    record = RoundRecord.from_line(line.decode())
    whole = (finite_or_none(parse_json(line)), hash_of_line(line), record.round)
    if whole != (told["record"], told.get("line_sha256"), told.get("round")):
        raise CorruptRunError("it is told otherwise than its signed line says")
    return record, True
