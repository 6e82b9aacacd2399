"""One run, seen by everybody who says a round's number: all count from 0, as the records do."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from rich.console import Console
from tests.cli.commands import refused, run as command
from tests.flower.federations import LR, NODES, honest, model, round_in
from tests.flower.grids import Clock, Reply, ScriptedGrid

from steadfed._cli.following import _People
from steadfed._cli.progress import ProgressLines, RunProgress
from steadfed.exports._figures import ExportedRun
from steadfed.flower._strategies import RageStrategy
from steadfed.reports._sections.clients import clients
from steadfed.reports.panels import HeatMap
from steadfed.server._folder import RunFolder
from steadfed.server._history import open_run

ROUNDS, BAD = 4, 2
"""How many rounds there are, and in which one Barcelona sends no model and the server says that it is best."""
NAMES = {node: "Barcelona" if node == NODES[0] else f"site-{place}" for place, node in enumerate(NODES)}


@pytest.fixture
def played(tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> tuple[Path, list[str]]:
    """Return the folder of the run, and what the server app logged."""

    def answer(node: int, message: Message) -> Reply:
        if node == NODES[0] and round_in(message) == BAD:
            return Message(RecordDict(), reply_to=message)
        return honest(node, message)

    def evaluate(server_round: int, _arrays: ArrayRecord) -> MetricRecord:
        return MetricRecord({"accuracy": 0.9 if server_round == BAD + 1 else 0.1, "loss": 1.0})

    strategy = RageStrategy(
        num_malicious_nodes=1,
        lr=LR,
        nodes=NAMES,
        num_train_nodes=len(NODES),
        fraction_evaluate=0.0,
        run_folder=tmp_path / "run",
    )
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(
            ScriptedGrid(answer, NODES, clock=clock), model(), num_rounds=ROUNDS, timeout=30, evaluate_fn=evaluate
        )
    return tmp_path / "run", [record.getMessage() for record in caplog.records]


def told_under_its_heading(lines: list[str]) -> list[str]:
    """Return the headings of the rounds in which the log speaks of Barcelona."""
    heading, found = "", []
    for line in lines:
        heading = line if line.startswith("[round") else heading
        found += [heading] if "malformed: Barcelona" in line else []
    return found


def test_everybody_says_the_same_number(
    played: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, logged = played
    history, records = open_run(folder), list(RunFolder.open(folder).records())
    (bad,) = (record.round for record in records if record.drops)
    assert bad == BAD

    # the server app's log
    assert told_under_its_heading(logged) == [f"[round {BAD}] 3 of 4"]

    # the live line
    screen = io.StringIO()
    lines = ProgressLines({"": RunProgress(ROUNDS, people=_People(folder))}, Console(file=screen, width=200))
    for record in records:
        lines.add_round("", record)
    assert re.findall(r"(\d) of 4 rounds.*round (\d): malformed: Barcelona", screen.getvalue()) == [("3", f"{BAD}")]

    # show, audit, verify, exports and error messages
    assert f"(best 90.0 % in round {BAD})" in command("show", str(folder))
    shown = command("show", str(folder), "--round", str(BAD))
    assert f"Round {BAD}: " in shown
    assert re.search(r"Barcelona .* malformed", shown)
    assert re.search(rf"round {BAD}  Barcelona  malformed", command("audit", str(folder)))
    (event,) = map(json.loads, command("audit", str(folder), "--json", "--client", "Barcelona").splitlines())
    assert event["round"] == BAD
    assert re.search(rf"│ {BAD} +│.*Barcelona", command("verify", str(folder)))
    exported = [each.number for each in ExportedRun(folder).rounds() if each.figures["clients/malformed"]]
    assert exported == [BAD]
    for verb in ("show", "verify"):
        assert "4 rounds, counted from 0; got --round 4" in refused(
            capsys, monkeypatch, verb, str(folder), "--round", str(ROUNDS)
        )

    # the report, the live page, notebooks
    assert history["malformed"].tolist() == [float(number == BAD) for number in range(ROUNDS)]
    maps = [panel for panel in clients([history]).panels if isinstance(panel, HeatMap)]
    assert maps
    for panel in maps:
        said = panel.hover[panel.rows.index("Barcelona")]
        assert [name for name, words in zip(panel.columns, said, strict=True) if "malformed" in words] == [f"{BAD}"]
