"""Incident reports: a statement that somebody who was not there can check, and a page made from it alone."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.deployments import AWAY, BROKEN, LIAR, NASTY, deployment
from tests.histories import KEY, signed_run
from tests.rewriting import rewrite

from steadfed._core.signatures import Envelope, SigningKey
from steadfed.errors import CorruptRunError, ParameterError, RunError, SignatureError
from steadfed.reports import _incident as incident
from steadfed.reports._incident import NOT_PROVED, statement_of, write_incident
from steadfed.reports._sections.incident import incident_page
from steadfed.reports.panels import Table
from steadfed.server._folder import RunFolder
from steadfed.server._history import RunHistory, open_run
from steadfed.server._record import RoundRecord
from steadfed.server._signatures import INCIDENT_TYPE, ROUND_TYPE
from steadfed.server._statements import verify_statement

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a deployment; do not change it."""
    return deployment(tmp_path_factory.mktemp("incident") / "run").path


@pytest.fixture(scope="module")
def history(folder: Path) -> RunHistory:
    """Return its history."""
    return open_run(folder)


@pytest.fixture(scope="module")
def statement(history: RunHistory) -> dict[str, Any]:
    """Return what is stated of it."""
    found: dict[str, Any] = json.loads(json.dumps(statement_of(history), allow_nan=False))
    return found


def panels(page: Path) -> dict[str, Any]:
    """Return the panels that a page shows, by their keys."""
    found = re.search(r'id="steadfed-report">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return {panel["key"]: panel for panel in json.loads(found[1])}


def test_it_says_who_when_why_and_on_what_evidence(statement: dict[str, Any]) -> None:
    assert [each["client"] for each in statement["clients"]][:3] == [LIAR, BROKEN, AWAY]
    assert "standard deviations" in statement["clients"][0]["words"]
    assert statement["outcome"]["success"] is False
    removal = next(event for event in statement["events"] if event.get("client") == LIAR)
    assert {"round": 0, "what": "removed", "weight": 0.0}.items() <= removal.items()
    record = statement["rounds"][0]["record"]
    assert record["received"].index(LIAR) == 0
    assert record["weights"][0] == 0.0
    assert record["scores"][0] == removal["score"]
    assert statement["score"] == {
        "unit": "… standard deviations",
        "meaning": "its update lay … standard deviations from the others along one direction",
        "squared": True,
    }
    assert statement["versions"]["flwr"] == "1.41.0"
    assert statement["not_proved"] == list(NOT_PROVED)


def test_its_hashes_are_those_of_the_files(statement: dict[str, Any], folder: Path) -> None:
    content = (folder / "rounds.jsonl").read_bytes()
    assert statement["run"]["rounds_sha256"] == hashlib.sha256(content).hexdigest()
    assert statement["run"]["config_sha256"] == hashlib.sha256((folder / "config.toml").read_bytes()).hexdigest()
    assert statement["configuration"] == (folder / "config.toml").read_text()
    for each, line in zip(statement["rounds"], content.splitlines(), strict=True):
        assert each["line_sha256"] == hashlib.sha256(line).hexdigest()
        assert each["record"] == json.loads(line)
        assert "envelope" not in each


def test_rounds_in_which_nothing_happened_are_left_out(tmp_path: Path) -> None:
    quiet = {"cohort": ("a",), "received": ("a",), "weights": (1.0,), "kept": ("a",)}
    folder = deployment(tmp_path / "run", rounds=1)
    folder.append(RoundRecord(round=1, step=2, lr=0.1, **quiet))
    found = statement_of(open_run(folder.path))
    assert [each["round"] for each in found["rounds"]] == [0]
    assert found["run"]["rounds_played"] == 2


def test_one_client_alone_can_be_reported(history: RunHistory) -> None:
    found = statement_of(history, client=BROKEN)
    assert {event["client"] for event in found["events"]} == {BROKEN}
    assert [each["client"] for each in found["clients"]] == [BROKEN]
    assert found["about"] == BROKEN


def test_signed_lines_are_envelopes_that_open_and_others_are_refused(tmp_path: Path) -> None:
    place = signed_run(tmp_path / "run").path
    rounds = statement_of(open_run(place))["rounds"]
    for each in rounds:
        opened = Envelope.from_json(json.dumps(each["envelope"])).open(KEY.public, ROUND_TYPE)
        assert json.loads(opened) == each["record"]
    assert len(rounds) == 3
    records = list(RunFolder.open(place).records())
    rewrite(place, [*records[:2], records[2].model_copy(update={"lr": 7.0})])
    with pytest.raises(CorruptRunError, match=r"line 3 of .* is not the one that the server signed"):
        statement_of(open_run(place))


def test_numbers_that_json_does_not_have_are_left_out_of_a_report(tmp_path: Path) -> None:
    place = deployment(tmp_path / "run", rounds=1).path
    line = re.sub(rb'"spread":[0-9.e+-]+', b'"spread":1e999', (place / "rounds.jsonl").read_bytes(), count=1)
    assert b"1e999" in line
    (place / "rounds.jsonl").write_bytes(line)
    for file in (*(place / "checkpoints").iterdir(), place / "summary.json"):
        file.unlink(missing_ok=True)
    file, _ = write_incident(RunHistory(place), tmp_path / "incident.json")
    assert json.loads(file.read_text())["rounds"][0]["record"]["spread"] is None


def test_a_signed_report_is_checked_with_the_rounds_that_it_tells(tmp_path: Path) -> None:
    place = signed_run(tmp_path / "run").path
    (tmp_path / "key.pem").write_bytes(KEY.to_pem())
    file, _ = write_incident(open_run(place), tmp_path / "incident.json", key=tmp_path / "key.pem")
    found = verify_statement(file, KEY.public)
    assert (found.broken, found.wholly_signed, len(found.records)) == (False, True, 3)
    assert "3 of 3 rounds in it are told as their lines were signed" in found.findings[1].words
    statement = json.loads(Envelope.from_json(file.read_text()).payload)
    statement["rounds"][1]["record"]["weights"][0] = 0.5
    file.write_text(KEY.seal(INCIDENT_TYPE, json.dumps(statement).encode()).to_json())
    assert "told otherwise than its signed line says" in verify_statement(file, KEY.public).findings[1].words
    del statement["rounds"][1]["envelope"]
    file.write_text(KEY.seal(INCIDENT_TYPE, json.dumps(statement).encode()).to_json())
    assert "all that vouches for them" in verify_statement(file, KEY.public).findings[2].words
    for wrong in (b"[]", b"{", b'{"run": {}, "rounds": [5]}', b'{"run": {}, "rounds": [{"record": {}}]}'):
        file.write_text(KEY.seal(INCIDENT_TYPE, wrong).to_json())
        assert verify_statement(file, KEY.public).broken
    assert verify_statement(file, SigningKey.generate().public).broken


def test_a_signed_report_is_an_envelope_and_the_page_holds_it_whole(history: RunHistory, tmp_path: Path) -> None:
    key = SigningKey.generate()
    (tmp_path / "key.pem").write_bytes(key.to_pem())
    file, page = write_incident(history, tmp_path / "incident.json", key=tmp_path / "key.pem")
    envelope = Envelope.from_json(file.read_text())
    assert json.loads(envelope.open(key.public, INCIDENT_TYPE))["run"]["name"] == history.name
    with pytest.raises(SignatureError, match="not signed with the key that is trusted"):
        envelope.open(SigningKey.generate().public, INCIDENT_TYPE)
    assert panels(page)["file"]["text"] == file.read_text()
    assert key.public.keyid in panels(page)["how"]["paragraphs"][0]


def test_the_page_of_an_unsigned_report_holds_its_json_and_says_so(history: RunHistory, tmp_path: Path) -> None:
    file, page = write_incident(history, tmp_path / "incident.json")
    shown = panels(page)
    assert shown["file"]["text"] == file.read_text()
    assert "It is not signed" in shown["how"]["paragraphs"][0]
    assert shown["not-proved"]["paragraphs"] == list(NOT_PROVED)
    assert any(LIAR in paragraph for paragraph in shown["people"]["paragraphs"])
    titles = [column["title"] for column in shown["events"]["columns"]]
    assert titles == ["round", "who", "what", "why", "weight", "score"]
    for outside in ("http://", "https://", "src="):
        assert outside not in page.read_text(encoding="utf-8").replace("http-equiv", "")


def test_names_from_the_network_are_text(history: RunHistory, tmp_path: Path) -> None:
    file, page = write_incident(history, tmp_path / "incident.json")
    for path in (file, page):
        text = path.read_text(encoding="utf-8")
        assert all(letter.isprintable() or letter in "\n\t" for letter in text)
    assert any("[red]x\\x1b[2J\\u202e" in row for row in panels(page)["events"]["rows"])
    assert NASTY in {event.get("client") for event in json.loads(file.read_text())["events"]}


def test_fields_that_newer_records_have_are_shown(history: RunHistory) -> None:
    statement = statement_of(history, client=LIAR)
    for each in statement["rounds"]:
        newer = {"finished": "2026-11-19T04:00:00Z", "model_after": "ab" * 32, "reply_digests": ["cd" * 32]}
        each["record"] |= newer
    page = incident_page(statement, "{}", keyid=None)
    tables = {panel.key: panel for section in page.sections for panel in section.panels}
    events, rounds = tables["events"], tables["rounds-table"]
    assert isinstance(events, Table)
    assert isinstance(rounds, Table)
    assert events.rows[0][1] == "2026-11-19T04:00:00Z"
    assert events.rows[0][-1] == "cdcdcdcdcd…"
    assert "ababababab…" in rounds.rows[0]


def test_too_much_to_tell_and_no_place_to_write_are_refused(
    history: RunHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunError, match="cannot write the incident report"):
        write_incident(history, tmp_path / "nowhere" / "incident.json")
    monkeypatch.setattr(incident, "LARGEST", 100)
    with pytest.raises(ParameterError, match="choose a client with --client"):
        write_incident(history, tmp_path / "incident.json")
    assert list(tmp_path.iterdir()) == []
