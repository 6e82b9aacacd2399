"""What came of a run, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from steadfed.server._history import Rounds, summary_of
from steadfed.server._record import RoundRecord


def summarised(records: list[RoundRecord]) -> dict[str, Any]:
    return summary_of(Rounds.of(records))


def record(number: int, **facts: Any) -> RoundRecord:
    return RoundRecord(round=number, step=number + 1, lr=0.1, **({"cohort": (0, 1, 2, 3)} | facts))


def test_a_summary_counts_what_the_records_say() -> None:
    records = [
        record(
            0,
            byzantine=(0,),
            received=(0, 1, 2, 3),
            kept=(1, 2, 3),
            test_accuracy=0.5,
            test_loss=1.0,
            seconds={"attack": 0.25, "local_steps": 1.0},
        ),
        record(
            1,
            byzantine=(0, 1),
            absent=(1,),
            received=(0, 2, 3),
            kept=(0, 3),
            assumption_violated=True,
            seconds={"attack": 0.5},
        ),
        record(2, absent=(0, 1, 2, 3), skipped=True, test_accuracy=0.5, test_loss=0.9, train_loss=0.8),
    ]
    assert summarised(records) == {
        "rounds": 3,
        "last": {"train_loss": 0.8, "train_accuracy": None, "test_loss": 0.9, "test_accuracy": 0.5},
        "best": {"test_accuracy": 0.5, "round": 0},
        "tally": {
            "rounds": 3,
            "skipped": 1,
            "assumption_violated": 1,
            "asked": 12,
            "received": 7,
            "absent": 5,
            "unusable": 0,
            "malformed": 0,
            "unasked": 0,
            "known_byzantine": 2,
            "judged": 7,
            "removed": 2,
            "byzantine": 2,
            "byzantine_removed": 1,
            "honest_reduced": 0,
            "kept": 5,
            "byzantine_kept": 1,
            "honest": 5,
            "honest_removed": 1,
            "removed_rate": 2 / 7,
            "precision": 0.5,
            "recall": 0.5,
            "byzantine_kept_rate": 0.5,
            "honest_removed_rate": 0.2,
            "byzantine_weight": None,
        },
        "seconds": {"attack": 0.75, "local_steps": 1.0},
    }


def test_nothing_to_count_is_none() -> None:
    summary = summarised([record(0, received=(0, 1), kept=(0, 1))])
    assert (summary["tally"]["precision"], summary["tally"]["recall"], summary["last"]) == (None, None, {})
    assert summarised([])["rounds"] == 0


def test_updates_of_a_skipped_round_are_not_removed_by_the_rule() -> None:
    tally = summarised([record(0, byzantine=(0,), received=(0, 1), skipped=True)])["tally"]
    assert (tally["removed"], tally["judged"], tally["byzantine"]) == (0, 0, 0)
    assert tally["precision"] is tally["recall"] is None


def test_a_run_that_diverged_does_not_show_its_last_good_loss_as_the_last() -> None:
    diverged = record(1, test_loss=float("nan"), train_loss=float("nan"), test_accuracy=0.1)
    last = summarised([record(0, test_loss=0.5, train_loss=0.5, test_accuracy=0.9), diverged])["last"]
    assert last == {"train_loss": None, "train_accuracy": None, "test_loss": None, "test_accuracy": 0.1}


@pytest.mark.parametrize("accuracies", [(0.0, 0.0), (0.3, 0.2), (0.3, 0.3)])
def test_the_best_round_is_the_first_with_the_highest_accuracy(accuracies: tuple[float, ...]) -> None:
    records = [record(number, test_accuracy=each) for number, each in enumerate(accuracies)]
    assert summarised(records)["best"] == {"test_accuracy": accuracies[0], "round": 0}
