from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.deployments import AWAY, BROKEN, LIAR, NASTY, deployment

from steadfed._core.rng import stream
from steadfed.server._history import ClientSummary, Rounds, suspects
from steadfed.server._history.clients import mid_ranks
from steadfed.server._history.suspicion import wilson_lower_bound
from steadfed.server._record import Client, Deviation, DroppedReply, RoundRecord


def client_table(records: Iterable[RoundRecord]) -> list[ClientSummary]:
    return Rounds.of(records).clients


def test_a_small_run_worked_by_hand() -> None:
    first = RoundRecord(
        round=0,
        step=1,
        lr=0.1,
        cohort=(2, 10, "b", "a"),
        byzantine=("b",),
        absent=("a",),
        received=(10, 2, "b"),
        weights=(0.5, 0.5, 0.0),
        scores=(1.0, 1.0, 9.0),
        kept=(10, 2),
    )
    second = RoundRecord(
        round=1,
        step=2,
        lr=0.1,
        cohort=(10, "b"),
        received=(10, "b"),
        weights=(1.0, 0.0),
        scores=(4.0, None),
        unusable=("b",),
        kept=(10,),
    )
    skipped = RoundRecord(round=2, step=3, lr=0.1, cohort=(2,), received=(2,), skipped=True)
    nothing: dict[str, Any] = {"absent": 0, "unusable": 0, "removed": 0, "byzantine": 0}
    twice: dict[str, Any] = {"judged": 2, "against": 0}
    assert client_table([first, second, skipped]) == [
        ClientSummary(client=2, asked=2, received=2, mean_weight=1.5, mean_rank=1 / 3, judged=1, **nothing),
        ClientSummary(
            client=10, asked=2, received=2, mean_weight=1.75, mean_rank=(1 / 3 + 1 / 2) / 2, **nothing, **twice
        ),
        ClientSummary(client="a", asked=1, received=0, mean_weight=None, mean_rank=None, **{**nothing, "absent": 1}),
        ClientSummary(
            client="b",
            asked=2,
            received=2,
            absent=0,
            unusable=1,
            removed=2,
            mean_weight=0.0,
            mean_rank=5 / 6,
            byzantine=1,
            judged=2,
            against=2,
            byzantine_judged=1,
            byzantine_against=1,
            faults={"unusable": 1},
        ),
    ]


def test_what_was_judged_is_split_into_honest_and_byzantine_rounds() -> None:
    counts: dict[str, Any] = dict.fromkeys(("absent", "unusable", "removed", "byzantine"), 0)
    counts |= {"judged": 5, "against": 3, "byzantine_judged": 3, "byzantine_against": 2}
    line = ClientSummary(client=1, asked=5, received=5, mean_weight=None, mean_rank=None, **counts)
    assert (line.honest_judged, line.honest_against, line.removed_rate) == (2, 1, 0.6)
    assert replace(line, judged=0, against=0).removed_rate is None


def test_no_rounds_no_clients() -> None:
    assert client_table([]) == []


def test_a_number_and_its_name_are_two_clients() -> None:
    assert [line.client for line in client_table([RoundRecord(round=0, step=1, lr=0.1, cohort=("1", 1))])] == [1, "1"]


def slow_mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def slow_table(records: list[RoundRecord]) -> dict[Client, tuple[int, int, float | None, float | None]]:
    """Return times asked, times removed, mean weight and mean rank, counted client by client."""
    table = {}
    for client in {client for record in records for client in record.cohort}:
        rows = [(record, record.received.index(client)) for record in records if client in record.received]
        shares = [record.weights[row] * len(record.received) for record, row in rows]
        ranks = []
        for record, row in rows:
            known = [score for score in record.scores if score is not None]
            own = record.scores[row]
            if own is not None:
                ranks.append(sum((score < own) + (score == own) / 2 for score in known) / len(known))
        asked = sum(client in record.cohort for record in records)
        table[client] = (asked, shares.count(0.0), slow_mean(shares), slow_mean(ranks))
    return table


def random_record(number: int) -> RoundRecord:
    generator = stream(5, "records", number)
    cohort = tuple(generator.permutation(12)[:7].tolist())
    received = cohort[: int(generator.integers(0, 8))]
    weights = tuple(generator.integers(0, 3, len(received)).astype(float).tolist())
    scores = tuple(None if score == 3 else float(score) for score in generator.integers(0, 4, len(received)).tolist())
    kept = tuple(client for client, weight in zip(received, weights, strict=True) if weight)
    return RoundRecord(
        round=number, step=number, lr=1, cohort=cohort, received=received, weights=weights, scores=scores, kept=kept
    )


def test_the_fast_table_is_the_slow_one() -> None:
    records = [random_record(number) for number in range(60)]
    expected = slow_table(records)
    for line in client_table(records):
        asked, removed, mean_weight, mean_rank = expected.pop(line.client)
        assert (line.asked, line.removed) == (asked, removed)
        assert line.mean_weight == pytest.approx(mean_weight)
        assert line.mean_rank == pytest.approx(mean_rank)
    assert not expected


def test_ranks_of_nothing_are_nothing() -> None:
    assert mid_ranks(np.empty(0, dtype=np.int64), np.empty(0)).shape == (0,)


def test_malformed_replies_absences_and_strays_of_a_deployment(tmp_path: Path) -> None:
    table = {line.client: line for line in client_table(deployment(tmp_path / "run").records())}
    liar, broken, away, nasty = (table[name] for name in (LIAR, BROKEN, AWAY, NASTY))
    assert (liar.removed, liar.malformed, liar.judged, liar.against, dict(liar.faults)) == (4, 0, 4, 4, {"silent": 1})
    assert (broken.removed, broken.malformed, broken.unusable, broken.judged, broken.against) == (4, 4, 0, 4, 4)
    assert broken.faults == {"shape": 4, "silent": 1}
    assert (away.absent, away.judged, away.suspicion) == (5, 0, None)
    assert (nasty.asked, nasty.against, nasty.suspicion, nasty.faults) == (0, 0, None, {"not asked": 4})


def test_the_layers_of_a_client_are_the_mean_of_what_its_rounds_say() -> None:
    def record(number: int, **layers: float) -> RoundRecord:
        rows = {"received": ("a", "b"), "weights": (0.0, 1.0), "scores": (2.0, 1.0), "kept": ("b",)}
        said = (Deviation(client="a", layers=layers),) if layers else ()
        return RoundRecord(round=number, step=1, lr=1, cohort=("a", "b"), deviations=said, **rows)

    a, b = client_table([record(0, body=0.6, head=0.4), record(1, head=0.9), record(2)])
    assert list(a.layers) == ["head", "body"]
    assert a.layers == pytest.approx({"head": 0.65, "body": 0.3})
    assert b.layers == {}
    assert a.as_dict()["layers"] == a.layers


def test_suspicion_needs_more_than_one_removal(tmp_path: Path) -> None:
    once = RoundRecord(round=0, step=1, lr=0.1, cohort=("a", "b"), received=("a", "b"), weights=(1.0, 0.0), kept=("a",))
    after_one = client_table([once])[1].suspicion
    after_ten = client_table([once] * 10)[1].suspicion
    assert after_one == pytest.approx(wilson_lower_bound(1, 1))
    assert after_one is not None
    assert after_ten is not None
    assert (after_one < 0.3, after_ten > 0.7) == (True, True)
    assert client_table([once])[0].suspicion == 0.0


def test_a_malformed_reply_in_a_skipped_round_counts_once() -> None:
    drop = DroppedReply(client="a", fault="shape")
    skipped = RoundRecord(round=0, step=1, lr=0.1, cohort=("a",), received=("a",), drops=(drop,), skipped=True)
    weighed = skipped.model_copy(update={"skipped": False, "weights": (0.0,)})
    bare = skipped.model_copy(update={"received": ()})
    for record in (skipped, weighed, bare):
        line = client_table([record])[0]
        assert (line.malformed, line.judged, line.against) == (1, 1, 1)


def test_suspects_come_first_and_ties_go_by_rank(tmp_path: Path) -> None:
    order = [line.client for line in suspects(client_table(deployment(tmp_path / "run").records()))]
    assert set(order[:2]) == {LIAR, BROKEN}
    record = RoundRecord(
        round=0, step=1, lr=0.1, cohort=(1, 2), received=(1, 2), weights=(0.5, 0.5), scores=(1.0, 2.0), kept=(1, 2)
    )
    assert [line.client for line in suspects(client_table([record]))] == [2, 1]


def test_a_summary_is_plain_json(tmp_path: Path) -> None:
    for line in client_table(deployment(tmp_path / "run").records()):
        assert json.loads(json.dumps(line.as_dict()))["suspicion"] == line.suspicion


def test_unusable_updates_are_among_the_faults_beside_dropped_replies() -> None:
    drops = (DroppedReply(client="a", fault="shape"),)
    both = {"cohort": ("a", "b"), "received": ("a", "b")}
    records = [
        RoundRecord(round=0, step=1, lr=0.1, drops=drops, unusable=("a",), kept=("b",), weights=(0.0, 1.0), **both),
        RoundRecord(round=1, step=2, lr=0.1, unusable=("a", "b"), skipped=True, **both),
    ]
    rounds = Rounds.of(records)
    assert rounds.fault_counts == {"shape": 1, "unusable": 2}
    assert [line.faults for line in rounds.clients] == [{"shape": 1, "unusable": 1}, {"unusable": 1}]
