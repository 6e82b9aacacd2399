"""Whether a run is a success, judged in one place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.deployments import NAMES, deployment

from steadfed.server._history import Rounds, open_run, outcome_of
from steadfed.server._record import DroppedReply, RoundRecord

CLINICS = ("Erfurt", "Jena", "Gera", "Ulm", "Bonn")


def a_round(number: int, silent: tuple[str, ...] = (), *, skipped: bool = False, **facts: Any) -> RoundRecord:
    here = tuple(name for name in CLINICS if name not in silent)
    kept = {} if skipped else {"kept": here, "weights": (1 / len(here),) * len(here), "certificate": {"mode": "auto"}}
    given = {"num_byzantine": 1 if here else None, "received": here, "absent": silent, **kept, **facts}
    return RoundRecord(round=number, step=number + 1, lr=0.1, cohort=CLINICS, skipped=skipped, **given)


def test_rounds_in_which_everybody_replied_are_a_success() -> None:
    found = outcome_of(Rounds.of([a_round(0), a_round(1, ("Jena",))], deployed=True))
    assert found.success
    assert found.culprits == {}
    assert found.as_dict()["success"] is True


def test_a_run_that_skipped_every_round_is_none_and_names_who_was_missing() -> None:
    bad = (DroppedReply(client="Ulm", fault="shape"),)
    rounds = [a_round(0, ("Erfurt",), skipped=True, reason="too few", drops=bad), a_round(1, ("Erfurt",), skipped=True)]
    for deployed in (True, False):
        found = outcome_of(Rounds.of(rounds, deployed=deployed))
        assert found.reasons == ("all 2 rounds were skipped, so the model is the one it began with: too few",)
        assert found.culprits == {"Erfurt": 2, "Ulm": 1}


def test_one_round_with_more_silent_clients_than_assumed_is_enough_in_a_deployment_only() -> None:
    rounds = [a_round(0), a_round(1, ("Jena", "Erfurt")), a_round(2, ("Erfurt",)), a_round(3, ("Gera", "Erfurt"))]
    found = outcome_of(Rounds.of(rounds, deployed=True))
    assert not found.success
    assert (found.rounds, found.skipped, found.silenced) == (4, 0, 2)
    assert found.reasons == (
        "in 2 of 4 rounds more clients were silent than are assumed to be Byzantine: Erfurt (2×), Jena (1×), Gera (1×)",
    )
    assert outcome_of(Rounds.of(rounds)).success


def test_a_run_that_has_not_begun_is_not_judged() -> None:
    assert outcome_of(Rounds(deployed=True)).success


def test_a_history_has_the_judgement_ready_for_json(tmp_path: Path) -> None:
    table = json.loads(json.dumps(open_run(deployment(tmp_path / "run").path).outcome.as_dict(), allow_nan=False))
    assert (table["success"], table["silenced"], table["skipped"]) == (False, 1, 1)
    assert [each["client"] for each in table["culprits"]] == list(NAMES)
