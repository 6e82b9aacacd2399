"""`steadfed audit`, as an operator meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.certification.small import convex, played
from tests.cli.commands import refused, run
from tests.deployments import AWAY, BROKEN, LIAR, NASTY, configured, deployment, played_round, remote_config

from steadfed._core.signatures import Envelope, SigningKey
from steadfed.attacks import FixedMembers, Ones
from steadfed.reports._sections.clients import suspicion_table
from steadfed.server._folder import RunFolder
from steadfed.server._history import open_run
from steadfed.server._record import DroppedReply
from steadfed.server._signatures import INCIDENT_TYPE


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a deployment; do not change it."""
    return deployment(tmp_path_factory.mktemp("audit") / "run").path


def test_every_event_is_a_line(path: Path) -> None:
    lines = run("audit", str(path)).splitlines()
    assert f"round 0  {BROKEN}  malformed  shape: 'weight' must be (3, 2), got (2, 3)" in lines
    assert f"round 0  {AWAY}  absent  silent: no reply within 60 s" in lines
    assert "round 2  the round  skipped  nobody answered, so there is nothing to aggregate" in lines
    assert any(line.startswith(f"round 4  {LIAR}  removed  its update lay ") for line in lines)


def test_people_come_before_events_and_the_worst_first(path: Path) -> None:
    people, _, events = run("audit", str(path)).partition("\n\n")
    reason, worst, second, third, *_ = people.splitlines()
    assert reason.startswith("no success: in 1 of 5 rounds more clients were silent than are assumed to be Byzantine: ")
    assert worst.startswith(f"node {LIAR}: removed in 4 of 5 rounds, its update lay 1")
    assert " standard deviations from the others along one direction" in worst
    assert second == f"node {BROKEN}: malformed in 4 of 5 rounds (shape); silent in 1 of 5 rounds"
    assert third == f"node {AWAY}: silent in 5 of 5 rounds"
    assert all(line.startswith("round ") for line in events.splitlines())


def test_too_much_silence_is_an_event_of_the_round(path: Path) -> None:
    lines = run("audit", str(path)).splitlines()
    assert any(line.startswith("round 2  the round  too many silent  8 of 8 were silent: ") for line in lines)
    assert any(
        line.startswith(f"round 0  the round  few replies  1 of 8 were silent: {AWAY}; f/n = 2/7") for line in lines
    )


def test_names_and_details_from_the_network_do_nothing_to_the_terminal(path: Path) -> None:
    for output in (run("audit", str(path)), run("audit", str(path), "--table"), run("show", str(path), "--clients")):
        assert all(letter.isprintable() for letter in output.replace("\n", ""))
        assert "[red]x\\x1b[2J\\u202e" in output
    assert "[bold]to a message of round 0[/bold]" in run("audit", str(path))


def test_long_details_are_cut_except_in_json(tmp_path: Path) -> None:
    drop = DroppedReply(client="n" * 500, fault="garbage", detail="x" * 5_000)
    folder = RunFolder.create(tmp_path / "run", configured(remote_config()))
    folder.append(played_round(remote_config(), 0).model_copy(update={"drops": (drop,)}))
    line = next(line for line in run("audit", str(folder.path)).splitlines() if "garbage" in line)
    assert len(line) < 300
    assert "…" in line
    assert "x" * 5_000 in run("audit", str(folder.path), "--json")


def test_one_client_can_be_followed(path: Path) -> None:
    people, _, events = run("audit", str(path), "--client", BROKEN).partition("\n\n")
    assert len(events.splitlines()) == 5
    assert all(BROKEN in line for line in [*people.splitlines(), *events.splitlines()])
    assert LIAR not in people.splitlines()[-1]
    assert "not asked" in run("audit", str(path), "--client", NASTY)


def test_json_is_one_object_per_line(path: Path) -> None:
    events = [json.loads(line) for line in run("audit", str(path), "--json").splitlines()]
    assert {"round": 0, "client": BROKEN, "what": "malformed", "fault": "shape"}.items() <= next(
        event for event in events if event.get("client") == BROKEN
    ).items()
    assert NASTY in {event.get("client") for event in events}
    lines = [json.loads(line) for line in run("audit", str(path), "--table", "--json").splitlines()]
    assert {lines[0]["client"], lines[1]["client"]} == {LIAR, BROKEN}
    assert lines[0]["suspicion"] == pytest.approx(0.5965, abs=1e-3)


def test_the_table_has_the_suspicious_first_and_says_what_the_figure_is(path: Path) -> None:
    output = run("audit", str(path), "--table")
    rows = [line.split("│")[1].strip() for line in output.splitlines() if line.startswith("│")]
    assert set(rows[:2]) == {LIAR, BROKEN}
    faults = [row[-1] for row in suspicion_table(open_run(path)).rows]
    assert "shape 4×, silent" in faults
    assert "shape 4×" in output
    assert "95 % confidence (Wilson" in " ".join(output.split())


def test_an_unknown_client_is_refused_with_the_nearest(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused(capsys, monkeypatch, "audit", str(path), "--client", "hospitl-b")
    assert "no client 'hospitl-b'" in told
    assert "did you mean 'hospital-b'?" in told
    assert "\x1b" not in told


def test_what_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not exist" in refused(capsys, monkeypatch, "audit", str(tmp_path / "nowhere"))


def test_simulated_runs_have_a_log_too(tmp_path: Path) -> None:
    folder = played(tmp_path / "run", convex(attack=Ones(value=50.0), byzantine=FixedMembers(clients=(0, 1))), rounds=2)
    output = run("audit", str(folder))
    assert "removed  its update lay " in output
    assert output.startswith("client ")
    assert "Suspicion of each client" in run("audit", str(folder), "--table")


def test_an_export_says_where_it_is_and_is_signed_if_a_key_is_given(path: Path, tmp_path: Path) -> None:
    place, key = tmp_path / "incident.json", SigningKey.generate()
    written = run("audit", str(path), "--export", str(place)).splitlines()
    assert written == [str(place), str(tmp_path / "incident.html")]
    assert json.loads(place.read_text())["kind"] == "steadfed incident report"
    (tmp_path / "key.pem").write_bytes(key.to_pem())
    run("audit", str(path), "--export", str(place), "--key", str(tmp_path / "key.pem"))
    statement = json.loads(Envelope.from_json(place.read_text()).open(key.public, INCIDENT_TYPE))
    assert statement["clients"][0]["client"] == LIAR


def test_a_key_without_an_export_and_a_report_that_is_no_json_are_refused(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused(capsys, monkeypatch, "audit", str(path), "--key", "k.pem")
    assert "--key signs a report, got 'k.pem' without --export" in told
    told = refused(capsys, monkeypatch, "audit", str(path), "--export", str(tmp_path / "incident.html"))
    assert "--export takes the name of a JSON file, such as incident.json, got" in told
    place = tmp_path / "incident.json"
    told = refused(capsys, monkeypatch, "audit", str(path), "--export", str(place), "--key", str(tmp_path / "none.pem"))
    assert "cannot read the key" in told
    assert not place.exists()
