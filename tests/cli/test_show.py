"""`steadfed show`, as a user meets it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.commands import refused, run, small_config
from tests.deployments import deployment
from tests.reports.made import folder, four
from tests.shared import session_folder, shared_folder

from steadfed._cli.show import Order, client_panel
from steadfed.reports._sections.round import round_table
from steadfed.reports.panels import Value
from steadfed.runs import Run, read_config
from steadfed.server._history import open_run
from steadfed.server._record import DroppedReply, RoundRecord
from steadfed.simulation import RandomK


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of a run that is complete, one for all tests: do not change it."""

    def make(path: Path) -> None:
        for _ in Run.start(read_config(small_config(tmp_path_factory.mktemp("config"))), path).play():
            pass

    with shared_folder(session_folder(tmp_path_factory), "small", make) as path:
        yield path


@pytest.fixture
def complete(small_run: Path, tmp_path: Path) -> Path:
    """Return the folder of a run that is complete; a test may change it."""
    return Path(shutil.copytree(small_run, tmp_path / "runs" / "complete"))


def test_show_has_the_summary_and_the_clients_who_were_removed_most(complete: Path) -> None:
    output = run("show", str(complete), "--limit", "2")
    for word in ("complete, 6 rounds", "iid(num_clients=12)", "softmax-regression", "kept (0.0 %)", "2 of 12 rows"):
        assert word in output
    assert all(name in output for name in ("client 0", "client 5"))
    assert "client 1" not in output
    lines = client_lines(complete, Order.REMOVED)[:2]
    assert {line["client"] for line in lines} == {"client 0", "client 5"}
    assert all(line["asked"] == line["times"] == line["judged"] for line in lines)
    assert {line["Byzantine"] for line in lines} == {"yes"}


def client_lines(path: Path, order: Order) -> list[dict[str, Value]]:
    """Return the lines of the table of clients by the titles of its columns."""
    table = client_panel(open_run(path), order, None)
    return [dict(zip((column.title for column in table.columns), row, strict=True)) for row in table.rows]


@pytest.mark.parametrize("order", ["removed", "weight", "rank", "client"])
def test_clients_are_sorted_as_asked(complete: Path, order: str) -> None:
    output = run("show", str(complete), "--clients", "--sort", order)
    clients = [int(name) for name in re.findall(r"^│ client (\d+)", output, re.MULTILINE)]
    assert [f"client {number}" for number in clients] == [
        line["client"] for line in client_lines(complete, Order(order))
    ]
    assert sorted(clients) == list(range(12))
    if order == "client":
        assert clients == sorted(clients)
    else:
        assert set(clients[:2]) == {0, 5}


def test_json_holds_everything(complete: Path) -> None:
    shown = json.loads(run("show", str(complete), "--json"))
    assert (shown["state"], shown["rounds"], shown["summary"]["rounds"]) == ("complete", 6, 6)
    assert [client["client"] for client in shown["clients"]] == list(range(12))
    tally = shown["summary"]["tally"]
    assert (tally["byzantine_kept"], tally["honest_removed"]) == (0, 0)
    assert shown["summary"].items() <= json.loads((complete / "summary.json").read_text()).items()
    assert shown["config"]["rule"]["name"] == "rage"
    assert f"in round {shown['summary']['best']['round']})" in " ".join(run("show", str(complete)).split())


def test_runs_that_are_not_complete_say_so(tmp_path: Path) -> None:
    config = read_config(small_config(tmp_path))
    empty = Run.start(config, tmp_path / "empty").folder
    assert "not begun; continue with: steadfed resume" in " ".join(run("show", str(empty.path)).split())
    half = Run.start(config, tmp_path / "half")
    rounds = half.play()
    next(rounds)
    assert "running, 1 of 6 rounds" in run("show", str(half.folder.path))
    del rounds
    assert "interrupted after 1 of 6 rounds" in run("show", str(half.folder.path))
    with (half.folder.path / "rounds.jsonl").open("ab") as file:
        file.write(b'{"round": 1, "ste')
    assert "interrupted after 1 of 6 rounds" in run("show", str(half.folder.path))


def test_several_runs_stand_side_by_side(complete: Path, tmp_path: Path) -> None:
    config = read_config(small_config(tmp_path), ["rule=median"])
    next(Run.start(config, complete.parent / "other").play())
    output = run("show", str(complete.parent))
    rows = {line.split("│")[1].strip(): line for line in output.splitlines() if line.startswith("│")}
    assert set(rows) == {"complete", "other"}
    assert "median" in rows["other"]
    assert ["1", "6"] == [cell.strip() for cell in rows["other"].split("│")][-8:-6]
    assert "0.0 %" in rows["complete"]
    assert [each["state"] for each in json.loads(run("show", str(complete.parent), "--json"))] == [
        "complete",
        "interrupted",
    ]


def test_show_refuses_what_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is no run in" in refused(capsys, monkeypatch, "show", str(tmp_path))
    assert "does not exist" in refused(capsys, monkeypatch, "show", str(tmp_path / "nowhere"))


def test_a_complete_run_that_lost_rounds_is_an_error_that_says_how_many(
    complete: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (complete / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (complete / "rounds.jsonl").write_bytes(b"".join(lines[:2]))
    for command in ("show", "resume"):
        assert "rounds.jsonl holds 2 of 6 rounds" in refused(capsys, monkeypatch, command, str(complete))
    (complete / "summary.json").unlink()
    assert "complete, 6 rounds" in run("resume", str(complete), "--jobs", "1")


def test_a_deployment_is_shown_without_claims_that_nobody_can_make(tmp_path: Path) -> None:
    output = run("show", str(deployment(tmp_path / "run").path), "--clients")
    flat = " ".join(output.replace("│", " ").split())
    for words in (
        "complete, 5 rounds",
        "remote(num_clients=8)",
        "faults",
        "shape 4×",
        "1 round: round 2, nobody answered",
        "train-loss 0.2",
        "suspicion",
        "malformed",
        "hospital-a",
    ):
        assert words in flat
    assert "honest" not in flat
    assert "adversary" not in flat


def test_an_interrupted_deployment_is_for_its_server_app_to_continue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(deployment(tmp_path / "run", rounds=2).path)
    flat = " ".join(run("show", path).replace("│", " ").split())
    assert "interrupted after 2 of 5 rounds; start its server app again with this folder" in flat
    assert "steadfed resume" not in flat
    assert "Start its server app again" in refused(capsys, monkeypatch, "resume", path)


@pytest.mark.parametrize("command", ["run", "check"])
def test_the_configuration_of_a_deployment_cannot_be_simulated(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = deployment(tmp_path / "run").path / "config.toml"
    monkeypatch.chdir(tmp_path)
    assert "with its clients, none is here" in refused(capsys, monkeypatch, command, str(config))


def test_json_of_a_deployment_has_its_faults(tmp_path: Path) -> None:
    shown = json.loads(run("show", str(deployment(tmp_path / "run").path), "--json"))
    assert shown["faults"] == {"shape": 4, "silent": 12, "not asked": 4}
    assert shown["skips"] == [{"round": 2, "reason": "nobody answered, so there is nothing to aggregate"}]
    assert shown["clients"][0]["faults"] == {"not asked": 4}
    tally = shown["summary"]["tally"]
    assert tally["byzantine"] is tally["byzantine_kept"] is tally["precision"] is tally["recall"] is None
    assert (tally["removed"], tally["judged"], tally["malformed"], tally["unasked"]) == (8, 28, 4, 4)


def test_a_round_says_what_became_of_every_reply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(deployment(tmp_path / "run").path)
    output = run("show", path, "--round", "0")
    rows = {line.split("│")[1].strip(): line for line in output.splitlines() if line.startswith("│")}
    assert "malformed" in rows["hospital-b"]
    assert "absent" in rows["hospital-c"]
    assert "removed" in rows["hospital-a"]
    assert "kept" in rows["hospital-h"]
    assert "unasked" in output
    assert "skipped, the model is left as it was" in run("show", path, "--round", "2")
    assert json.loads(run("show", path, "--round", "0", "--json"))["round"] == 0
    assert "has 5 rounds, counted from 0; got --round 9" in refused(capsys, monkeypatch, "show", path, "--round", "9")
    assert "of one run, got 2 folders" in refused(capsys, monkeypatch, "show", path, path, "--round", "0")


def test_rounds_that_differ_in_steps_say_how_many(tmp_path: Path) -> None:
    path = small_config(tmp_path, "local_steps = [1, 4]\n")
    run("run", str(path), "--out", str(tmp_path / "run"), "-q", "--set", "rounds=3")
    assert "H = 1 to 4" in run("show", str(tmp_path / "run"))
    titles = [run("show", str(tmp_path / "run"), "--round", str(number)) for number in range(3)]
    assert [f"Round {number}, H = " in title for number, title in enumerate(titles)] == [True] * 3
    assert all(f"H = {steps}:" in title for steps, title in zip((1, 4, 1), titles, strict=True))


def test_a_run_says_that_only_some_coordinates_are_sent(tmp_path: Path) -> None:
    folder(tmp_path / "some", [four(number) for number in range(4)], compression=RandomK(coordinates=0.25))
    folder(tmp_path / "all", [four(number) for number in range(4)])
    assert "only the same 25 % of the coordinates from every client" in run("show", str(tmp_path / "some"))
    assert "coordinates" not in run("show", str(tmp_path / "all"))


def test_a_round_says_what_a_rule_measured_that_stops_by_displacement() -> None:
    anchor = {"spread": 0.25, "weight_removed": 8.0, "displacement": 1720.0, "attributable": 2.0, "share": 0.5}
    guard = {"reason": "f = 4 explains the updates", "alarmed": False}
    bare = RoundRecord(round=0, step=1, lr=0.1, cohort=("a",), received=("a",))
    said = round_table(bare.model_copy(update={"anchor": anchor, "guard": guard})).caption
    assert said == (
        "safest updates: variance λ_a = 0.25 in any direction after a weight of 8 was taken; the plain mean lies t "
        "= 1720 √(λ_a f/n) from theirs, 2 of it by f updates; cut to 50.0 %; guard: f = 4 explains the updates"
    )
    old = bare.model_copy(update={"anchor": {"spread": 0.25}, "guard": {"reason": "no", "alarmed": True}})
    assert round_table(old).caption == "safest updates: variance λ_a = 0.25 in any direction"
    assert round_table(bare).caption == ""


def test_a_skipped_round_has_a_word_for_everybody() -> None:
    drops = (
        DroppedReply(client="a", fault="shape"),
        DroppedReply(client="z", fault="not asked"),
        DroppedReply(client="c", fault="repeated", detail="twice"),
    )
    rows = {"cohort": ("a", "b", "c", "d"), "received": ("a", "c", "d"), "unusable": ("a",)}
    record = RoundRecord(round=0, step=1, lr=0.1, skipped=True, reason="why", drops=drops, **rows)
    table = round_table(record)
    words = {str(row[0]): row[3] for row in table.rows}
    assert words == {"a": "malformed", "b": "absent", "c": "skipped", "d": "skipped", "z": "unasked"}
    assert table.rows[2][4] == "repeated: twice"


def test_the_usual_order_is_that_of_the_column_removed(tmp_path: Path) -> None:
    drops = (DroppedReply(client=2, fault="shape"),)
    rounds = [four(0), four(1), four(2, skipped=True, kept=(), weights=(), scores=(), drops=drops)]
    lines = client_lines(folder(tmp_path / "run", rounds).path, Order.REMOVED)
    assert [line["client"] for line in lines] == ["client 3", "client 0", "client 2", "client 1"]
    shares = [line["removed"] for line in lines]
    assert shares == [1.0, 0.5, pytest.approx(1 / 3), 0.0]


def test_deployments_and_simulated_runs_stand_side_by_side(complete: Path) -> None:
    deployment(complete.parent / "deployed")
    output = run("show", str(complete.parent))
    rows = {line.split("│")[1].strip(): line for line in output.splitlines() if line.startswith("│")}
    assert "%" not in rows["deployed"]
    assert "rage" in rows["deployed"]
