"""What came of a run, in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.server.record import RoundRecord


def summarised(records: Iterable[RoundRecord], *, deployed: bool = False) -> dict[str, Any]:
    """Return the last losses and accuracies, the best accuracy, and how well the rule told clients apart.

    Precision: which share of the removals hit Byzantine clients. Recall: which share of the Byzantine updates was
    removed. Both are null if there was nothing to count, or if the run was a deployment, which does not know.
    """
    last: dict[str, Any] = {}
    best: dict[str, Any] = {"test_accuracy": None, "round": None}
    names = ("rounds", "skipped", "promise_broken", "erased", "received", "byzantine", "removed", "caught")
    counts = dict.fromkeys(names, 0)
    seconds: dict[str, float] = {}
    for record in records:
        scores = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
        seen = {name: getattr(record, name) for name in scores}
        if any(score is not None for score in seen.values()):  # a loss that is not finite is None as well
            last = seen
        if record.test_accuracy is not None and (best["round"] is None or record.test_accuracy > best["test_accuracy"]):
            best = {"test_accuracy": record.test_accuracy, "round": record.round}
        liars, removed = set(record.byzantine), set(record.removed)
        counts["rounds"] += 1
        counts["skipped"] += record.skipped
        counts["promise_broken"] += record.promise_broken
        counts["erased"] += len(record.erased)
        counts["received"] += len(record.received)
        counts["byzantine"] += len(liars.intersection(record.received))
        counts["removed"] += len(removed)
        counts["caught"] += len(removed & liars)
        for name, value in record.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + value
    return {
        "rounds": counts["rounds"],
        "last": last,
        "best": best,
        "rounds_skipped": counts["skipped"],
        "rounds_promise_broken": counts["promise_broken"],
        "updates_erased": counts["erased"],
        "updates_received": counts["received"],
        "updates_byzantine": counts["byzantine"],
        "updates_removed": counts["removed"],
        "updates_caught": counts["caught"],
        "precision": counts["caught"] / counts["removed"] if counts["removed"] and not deployed else None,
        "recall": counts["caught"] / counts["byzantine"] if counts["byzantine"] and not deployed else None,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }
