"""An incident report: what happened in a run, as a statement that somebody who was not there can check.

    RunHistory, lines of rounds.jsonl ──► statement ──► FILE.json, signed or not ──► panels ──► FILE.html

The page is made from the statement alone, and holds the file it was made from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from steadfed import __version__
from steadfed._core.digests import sha256
from steadfed._core.durable import replace_file
from steadfed._core.parsing import parse_json
from steadfed._core.signatures import Envelope, SigningKey
from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.reports._render.html import render
from steadfed.reports._sections.incident import incident_page
from steadfed.server._chain import Chain, hash_of_line
from steadfed.server._folder import RunFolder
from steadfed.server._history import Event, RunHistory, events_of
from steadfed.server._history.files import ROUNDS, new_lines
from steadfed.server._record import finite_or_none
from steadfed.server._signatures import INCIDENT_TYPE, SERVER_KEY, check_signed, envelopes, key_in

LARGEST = 16 << 20
"""Bytes that a statement may take."""
NOT_PROVED = (
    (
        "Removal is evidence, not proof of intent: an honest client with unlike data looks like an attacker to every "
        "rule that does not see the data."
    ),
    "A name stands for a key, or for an id of Flower if nodes have no keys; who sits behind it is not proved.",
    "That a client was silent does not say why: it, its machine, the network or somebody who cut it off.",
    (
        "The records are the server's. A signature proves that the holder of the server's key made this report and "
        "that it was not changed since; not that the server told the truth, nor when it was made."
    ),
    (
        "What a client sent is named by a hash, if at all. The updates are not kept, so weights and scores cannot be "
        "computed again from this report."
    ),
    "Rounds in which nothing happened are left out, so not all hashes of lines stand here.",
)
"""What everybody who reads such a report should know."""


def write_incident(
    history: RunHistory, place: Path, *, client: str | None = None, key: Path | None = None
) -> tuple[Path, Path]:
    """Write the report of a run as JSON and as a page beside it, and return both places.

    Args:
        history: what the run tells.
        place: the file, FILE.json; the page is FILE.html.
        client: whom alone it is to be about, by the name or number in the records.
        key: the private key in a PEM file that it is signed with; not signed if left out.

    Raises:
        CorruptRunError: a line is not the one that was signed.
        ParameterError: the place is no .json, the key cannot be used, or there is too much to tell.
        RunError: it cannot be written, or the extra that makes pages is not installed.
    """
    if place.suffix != ".json":
        raise ParameterError(f"--export takes the name of a JSON file, such as incident.json, got {str(place)!r}")
    signer = None if key is None else SigningKey.read(key)
    statement = statement_of(history, client=client)
    text = _json(statement)
    if len(text) > LARGEST:
        raise ParameterError(
            f"the report would take {len(text) >> 20} MB, and may take {LARGEST >> 20}; choose a client with --client"
        )
    file = text if signer is None else signer.seal(INCIDENT_TYPE, text.encode()).to_json() + "\n"
    page = render(incident_page(statement, file, keyid=None if signer is None else signer.public.keyid))
    places = place, place.with_suffix(".html")
    try:
        for path, content in zip(places, (file, page), strict=True):
            replace_file(path, content.encode())
    except OSError as error:
        raise RunError(f"cannot write the incident report {str(place)!r}: {error.strerror}") from None
    return places


def statement_of(history: RunHistory, *, client: str | None = None) -> dict[str, Any]:
    """Return what there is to state of a run: plain values, ready for JSON."""
    meaning, rule = history.score_meaning, history.raw.get("rule")
    signed = _envelopes(history)
    digest = hashlib.sha256()
    root = None if history.config_text is None else sha256(history.config_text.encode())
    chain = Chain(history.path / ROUNDS, root)
    rounds: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for number, line in enumerate(islice(new_lines(history.path / ROUNDS, 0, 0), history.rounds_played)):
        digest.update(line)
        envelope = next(signed, None)
        record = chain.follow(line)
        found = [event for event in events_of([record], rule) if _concerns(event, client)]
        if found:
            rounds.append(_round(number, line.removesuffix(b"\n"), envelope))
            events += [event.as_dict() for event in found]
    conducts = [each for each in history.conduct if client is None or str(each.client) == client]
    return {
        "kind": "steadfed incident report",
        "version": 1,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "made_with": {"steadfed": __version__},
        "run": {
            "name": history.name,
            "deployment": history.deployed,
            "state": str(history.state),
            "rounds_planned": history.rounds_planned,
            "rounds_played": history.rounds_played,
            "rounds_counted_from": 0,
            "config_sha256": root,
            "rounds_sha256": digest.hexdigest(),
        },
        "about": client,
        "outcome": history.outcome.as_dict(),
        "clients": [each.as_dict(meaning) for each in conducts],
        "score": {
            "unit": meaning.unit.format("…"),
            "meaning": meaning.sentence.format("…"),
            "squared": meaning.squared,
        },
        "events": events,
        "rounds": rounds,
        "configuration": history.config_text,
        "versions": history.provenance,
        "not_proved": list(NOT_PROVED),
    }


def _concerns(event: Event, client: str | None) -> bool:
    """Whether an event is to be told: all, or what happened to a client."""
    return client is None or (event.client is not None and str(event.client) == client)


def _round(number: int, line: bytes, envelope: Envelope | None) -> dict[str, Any]:
    """Return a round as it is written down, with what it takes to find it again: its hash, and its envelope."""
    found: dict[str, Any] = {"round": number, "line_sha256": hash_of_line(line)}
    if envelope is not None:
        found["envelope"] = json.loads(envelope.to_json())
    return {**found, "record": finite_or_none(parse_json(line))}


def _envelopes(history: RunHistory) -> Iterator[Envelope]:
    """Yield the signed lines of a run, whose signatures fit the key that its configuration names; none if it has none.

    Raises:
        CorruptRunError: one does not fit.
    """
    named, folder = history.provenance.get(SERVER_KEY), RunFolder(history.path)
    if named is None:
        return
    key = key_in(folder)
    if key.keyid != named:
        raise CorruptRunError(f"{folder.public_key} is not the key that config.toml names: it was swapped")
    check_signed(folder, key)
    yield from envelopes(folder.rounds, folder.signatures)


def _json(statement: Mapping[str, Any]) -> str:
    """Return a statement as text in which every letter shows."""
    text = json.dumps(statement, allow_nan=False, indent=1)
    return text.replace("\x7f", "\\u007f") + "\n"
