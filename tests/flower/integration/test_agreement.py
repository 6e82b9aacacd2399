"""The same seeds, data and attack in the simulator and on the real engine; and what reads a run reads a deployment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.cli.commands import run as command
from tests.flower.integration.app.drilled.digits import twin
from tests.flower.integration.app.drilled.numbers import LIAR
from tests.flower.integration.conftest import Played
from tests.flower.integration.drills import FAULTS, USUAL

from steadfed.runs import Run
from steadfed.server._record import Client, RoundRecord

pytestmark = pytest.mark.federation
AGREEMENT = 1e-5
"""A number of the model differs by at most so much."""


def simulated(folder: Path, rounds: int) -> list[RoundRecord]:
    """Play the same in the simulator."""
    return list(Run.start(twin(rounds), folder).play())


def weights(record: RoundRecord) -> dict[Client, float]:
    """Return the weight of every client; the simulator has another order."""
    return dict(zip(record.received, record.weights, strict=True))


def test_a_deployment_and_a_simulation_of_it_give_the_same_model(
    tmp_path: Path, played: Callable[[str], Played]
) -> None:
    deployed = played("digits")
    assert deployed.facts["status"] == "finished:completed", deployed.facts
    records = deployed.records()
    expected = simulated(tmp_path / "run", len(records))
    file = "model.safetensors"
    found, wanted = (load_file(folder / file) for folder in (deployed.run.path, tmp_path / "run"))
    assert set(found) == set(wanted)
    for name, values in wanted.items():
        torch.testing.assert_close(found[name], values, rtol=0.0, atol=AGREEMENT)
    for record, other in zip(records, expected, strict=True):
        assert (record.removed, record.stop) == (other.removed, other.stop) == ((LIAR,), other.stop)
        assert weights(record) == pytest.approx(weights(other), abs=AGREEMENT)


def test_what_reads_a_run_reads_a_deployment(played: Callable[[str], Played]) -> None:
    folder = str(played("digits").run.path)
    assert "complete, 2 rounds" in command("show", folder)
    events = command("audit", folder).splitlines()
    assert [line.split()[:4] for line in events if "removed" in line] == [
        ["node", f"{LIAR}:", "removed", "in"],  # people come first
        *(["round", str(number), str(LIAR), "removed"] for number in range(2)),
    ]
    certified = json.loads(command("certify", folder, "--json"))
    assert not certified["contradicted"]
    assert {verdict["outcome"] for verdict in certified["verdicts"]} >= {"held"}


def test_a_deployment_without_a_twin_is_judged_by_its_records(played: Callable[[str], Played]) -> None:
    folder = str(played("drills-0").run.path)
    audited = " ".join(command("audit", folder).split())
    for round, lie in enumerate(USUAL):
        if lie in FAULTS:
            assert f"round {round} {LIAR} malformed {FAULTS[lie]}: " in audited
    certified = json.loads(command("certify", folder, "--json"))
    assert (certified["played"], certified["skipped"], certified["contradicted"]) == (len(USUAL), 0, False)
