"""The words of "what one bad client does" mean what their definitions say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.flower.bad_client import CLIENTS, Scene, row, usual_distances
from benchmarks.flower.strategies import RAGE, competitors, quietly
from benchmarks.flower.tables import append, counts_table, entries, plain_row, row_of, worst
from benchmarks.flower.verdicts import Judgement, Outcome, Reference, Verdict, cell, judged

SENT = {"weight": np.zeros((2, 2), np.float32), "bias": np.zeros(2, np.float32)}
HONEST_MODELS = [
    {"weight": np.full((2, 2), value, np.float32), "bias": np.full(2, value, np.float32)} for value in (0.9, 1.1)
]
USUAL = 0.5
REFERENCE = Reference.of(SENT, HONEST_MODELS, USUAL)


def model(value: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {name: np.full(each.shape, value, np.float32) for name, each in SENT.items()} | changes


def verdict(found: Mapping[str, Any] | None, **metrics: Any) -> Verdict:
    return judged(Outcome(found, metrics), REFERENCE).verdict


def test_sigma_is_how_far_honest_clients_are_from_their_mean() -> None:
    assert REFERENCE.sigma == pytest.approx(0.1 * np.sqrt(6))
    assert REFERENCE.distance(HONEST_MODELS[0]) == pytest.approx(1.0)


def test_an_exception_ends_the_run_whatever_else_is_wrong() -> None:
    found = judged(Outcome(error="ValueError"), REFERENCE)
    assert (found.verdict, found.detail) == (Verdict.ENDS, "ValueError")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (model(), Verdict.FINE),
        (model(1.099), Verdict.FINE),
        (model(1.11), Verdict.MOVED),
        (model(1.99), Verdict.MOVED),
        (model(2.01), Verdict.POISONED),
        (model(np.nan), Verdict.NOT_FINITE),
        (model(np.inf), Verdict.NOT_FINITE),
        (model(bias=np.ones(3, np.float32)), Verdict.SHAPE),
        (model(extra=np.ones(1, np.float32)), Verdict.SHAPE),
        ({"weight": model()["weight"]}, Verdict.SHAPE),
        (model(bias=np.ones(2, np.float64)), Verdict.DTYPE),
        (model(bias=np.ones(2, np.complex64)), Verdict.DTYPE),
        (None, Verdict.STAYS),
    ],
)
def test_the_first_definition_that_holds_is_the_verdict(found: Mapping[str, Any] | None, expected: Verdict) -> None:
    assert verdict(found) is expected


def test_arrays_in_another_order_are_the_same_model() -> None:
    values = {"bias": np.full(2, 0.9, np.float32), "weight": np.full((2, 2), 1.1, np.float32)}
    assert judged(Outcome(values), REFERENCE).distance == pytest.approx(1.0)


def test_metrics_that_are_not_finite_are_told_when_the_model_is_fine() -> None:
    assert verdict(model(), loss=float("nan")) is Verdict.METRICS
    assert verdict(model(), losses=[1.0, float("inf")]) is Verdict.METRICS
    assert verdict(model(2.01), loss=float("nan")) is Verdict.POISONED


def test_a_cell_counts_positions_only_where_they_differ() -> None:
    fine, ends = Judgement(Verdict.FINE, 0.1), Judgement(Verdict.ENDS, detail="TypeError")
    assert cell([fine, fine]) == "fine"
    assert cell([fine, ends, fine]) == "run ends 1 of 3 (TypeError), fine 2 of 3"
    assert cell([Judgement(Verdict.MOVED, 0.62), Judgement(Verdict.MOVED, 0.64)]) == "moved (0.6 σ)"
    assert cell([Judgement(Verdict.POISONED, 108.4), Judgement(Verdict.POISONED, 2.1e29)]) == (
        "poisoned (108 to 2e+29 σ)"
    )
    assert worst([fine, ends]) is Verdict.ENDS


def test_what_is_written_can_be_read_again_and_a_line_that_was_cut_off_is_missing(tmp_path: Path) -> None:
    found = {RAGE: [Judgement(Verdict.FINE, 0.25), Judgement(Verdict.ENDS, detail="KeyError")]}
    path = tmp_path / "records.jsonl"
    assert entries(path) == []
    append(path, {"reply": "lie", "verdicts": plain_row(found)})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"reply": "cut o')
    assert [row_of(entry["verdicts"]) for entry in entries(path)] == [found]


def test_a_reply_counts_once_for_each_strategy_at_its_worst_position() -> None:
    found = {"lie": {RAGE: [Judgement(Verdict.FINE, 0.25), Judgement(Verdict.ENDS, detail="KeyError")]}}
    counts = [each.strip() for each in counts_table(found, [RAGE]).splitlines()[-1].split("|")[2:-1]]
    assert counts == ["1", *["·"] * (len(Verdict) - 1)]


def test_one_bad_client_does_to_flower_what_the_table_says_and_nothing_to_steadfed() -> None:
    scene = Scene()
    makers = {name: make for name, make in competitors(CLIENTS, 1).items() if name in {"FedAvg", "Krum", RAGE}}
    with quietly():
        usual = usual_distances(scene, makers)
        found = {name: row(scene, name, makers, usual) for name in ("one-nan", "wrong-shape")}
    assert cell(found["one-nan"]["FedAvg"]) == "not finite"
    assert worst(found["wrong-shape"]["Krum"]) is Verdict.ENDS
    assert {worst(found[name][RAGE]) for name in found} == {Verdict.FINE}
