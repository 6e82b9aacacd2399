"""What reads one signed statement that somebody handed on: a round, or an incident report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.fuzz.clients import federation_key
from tests.fuzz.folders import Scratch
from tests.fuzz.harness import Choices, Harness, Reader, promise

from steadfed.errors import ParameterError

_RECORD = {"round": 0, "step": 5, "lr": 0.1, "cohort": [1, 2], "received": [1], "weights": [1.0], "reason": "x"}


def _line() -> bytes:
    from steadfed.server._record import RoundRecord

    return RoundRecord.from_line(json.dumps(_RECORD)).to_line().encode().removesuffix(b"\n")


def _report(**changes: Any) -> bytes:
    """Return an incident report about one round, which is signed too."""
    from steadfed.server._chain import hash_of_line
    from steadfed.server._signatures import ROUND_TYPE

    line = _line()
    envelope = json.loads(federation_key().seal(ROUND_TYPE, line).to_json())
    told = {"round": 0, "line_sha256": hash_of_line(line), "record": json.loads(line), "envelope": envelope}
    return json.dumps({"run": {"name": "hospitals"}, "made": "2026", "rounds": [told | changes]}).encode()


def _statements() -> Iterator[bytes]:
    for kind, statement in ((0, _line()), (1, _report()), (1, _report(round=1)), (1, _report(record={"round": 0}))):
        yield bytes([kind]) + statement
    unsigned = json.loads(_report())
    del unsigned["rounds"][0]["envelope"]
    yield b"\1" + json.dumps(unsigned).encode()
    yield b"\1" + _report(record={"a": json.loads("[" * 800 + "]" * 800)})
    yield b"\1" + _report(envelope=json.loads("[" * 400 + "]" * 400))
    yield b'\1{"run": {}, "made": 1e999, "rounds": []}'
    yield b"\2" + federation_key().seal("application/json", b"{}").to_json().encode()


def _read_statements() -> Reader:
    from steadfed.server._signatures import INCIDENT_TYPE, ROUND_TYPE
    from steadfed.server._statements import verify_statement

    scratch, key = Scratch(), federation_key()
    signed = {_line()}

    def read(data: bytes) -> None:
        choices = Choices(data[:1])
        kind, statement = choices.below(3), data[1:]
        content = statement if kind == 2 else key.seal((ROUND_TYPE, INCIDENT_TYPE)[kind], statement).to_json().encode()
        found = verify_statement(scratch.file("statement.json", content), key.public)
        json.dumps(found.as_dict())
        told = [record.to_line().encode().removesuffix(b"\n") for record in found.records]
        proved = [each for each in found.findings if each.what == "rounds" and each.outcome.name == "PROVED"]
        promise(not proved or bool(signed & set(told)), "a round that nobody signed is proved")
        promise(kind != 2 or found.broken, "what nobody signed is whole")

    return read


STATEMENTS = (
    Harness(
        name="statement",
        reader=_read_statements,
        seeds=_statements,
        refusals=(ParameterError,),
        words=('"rounds":', '"record":', '"envelope":', '"line_sha256":', '"run":', '"made":', "[", "{", "1e999"),
        longest=8192,
    ),
)
