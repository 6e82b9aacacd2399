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

from holdfast.records.round import RoundRecord
from holdfast.runs import Run

pytestmark = pytest.mark.federation
AGREEMENT = 1e-5
"""A number of the model differs by at most so much."""


def simulated(folder: Path, rounds: int) -> list[RoundRecord]:
    """Play the same in the simulator."""
    return list(Run.start(twin(rounds), folder).play())


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
        assert (record.received, record.kept, record.stop) == (other.received, other.kept, other.stop)
        assert record.weights == pytest.approx(other.weights, abs=1e-5)
        assert LIAR in record.removed


def test_what_reads_a_run_reads_a_deployment(played: Callable[[str], Played]) -> None:
    folder = str(played("digits").run.path)
    shown, audited = command("show", folder), command("audit", folder)
    assert "3 rounds" in shown or "rounds" in shown
    assert str(LIAR) in audited
    certified = json.loads(command("certify", folder, "--json"))
    assert certified


def test_a_deployment_without_a_twin_is_certified_by_its_records(played: Callable[[str], Played]) -> None:
    folder = str(played("drills-0").run.path)
    audited = command("audit", folder)
    assert "not finite" in audited
    assert json.loads(command("certify", folder, "--json"))
