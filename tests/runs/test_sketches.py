"""Runs whose updates are seen through sketches: the same bytes again, and a secret in every record."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
import torch
from tests.same_results import same_results
from tests.simulation.small import classes, config

from steadfed._linalg import sketch
from steadfed.aggregators import Rage, ServerView
from steadfed.attacks import FractionMembers, HillClimb
from steadfed.runs import Run
from steadfed.server._decision import decide, decision_fields
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord
from steadfed.simulation import RunConfig

ROUNDS = 4


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models of 18 parameters be sketched: four buckets are too few for anything but bytes."""
    monkeypatch.setattr(sketch, "BUCKETS", 4)
    monkeypatch.setattr(sketch, "FEWEST_ROWS", {1: 2, 2: 2})
    monkeypatch.setattr(sketch, "CANCELLING", 1e9)


def sketching() -> RunConfig:
    """Return a run in which the rule sees sketches, and an attack that tries the rule on sketches of its own."""
    return config(
        rounds=ROUNDS,
        cohort_size=8,
        rule=Rage(byzantine_fraction=0.25, gram="fast"),
        attack=HillClimb(),
        byzantine=FractionMembers(fraction=0.2),
    )


def play(path: Path, rounds: int = ROUNDS, *, jobs: int = 1) -> RunFolder:
    run = Run.start(sketching(), path, dataset=classes(), jobs=jobs)
    rest = run.play()
    list(islice(rest, rounds))
    rest.close()
    return run.folder


def test_a_run_with_sketches_is_the_same_again_and_after_an_interruption(tmp_path: Path) -> None:
    first = play(tmp_path / "first", ROUNDS + 1)
    again = play(tmp_path / "again", ROUNDS + 1, jobs=2)
    assert same_results(first, again) == []
    stopped = play(tmp_path / "stopped", 2)
    list(Run.resume(stopped.path, dataset=classes()).play())
    assert same_results(first, stopped) == []


def test_every_round_has_a_secret_of_its_own_which_its_record_holds(tmp_path: Path) -> None:
    records = list(play(tmp_path / "run", ROUNDS + 1).records())
    told = [record.sketch for record in records]
    assert all(each is not None and each["num_buckets"] == 4 for each in told)
    assert len({each["secret"] for each in told if each is not None}) == ROUNDS


def test_a_deployment_draws_its_secret_from_the_system_and_writes_it_down() -> None:
    rows, rule = torch.randn(9, 40, generator=torch.Generator().manual_seed(1)), Rage(num_byzantine=2, gram="fast")
    clients = tuple(f"node-{number}" for number in range(9))
    outcomes = [decide(rows, clients, rule, ServerView(round=3)) for _ in range(2)]
    records = [
        RoundRecord(round=3, step=6, lr=0.1, cohort=clients, received=clients, **decision_fields(outcome, clients))
        for outcome in outcomes
    ]
    assert records[0].sketch is not None
    assert records[1].sketch is not None
    assert records[0].sketch["secret"] != records[1].sketch["secret"]
    replayed = decide(rows, clients, rule, ServerView(round=3, secret=int(records[0].sketch["secret"], 16)))
    assert decision_fields(replayed, clients) == decision_fields(outcomes[0], clients)
    assert RoundRecord.from_line(records[0].to_line()).sketch == records[0].sketch
