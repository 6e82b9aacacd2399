"""What clients say about themselves, made into one figure each; nothing of it moves the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from logging import WARNING

from flwr.app import MetricRecord, RecordDict
from flwr.supercore import log

from steadfed._core.wording import harmless
from steadfed.flower._metrics import LONGEST_NAME, MOST_METRICS, common_metrics
from steadfed.flower._orders import SECRET
from steadfed.metrics import METRICS
from steadfed.server._history import Tally
from steadfed.server._record import RoundRecord, finite_or_none

MetricsFn = Callable[[list[RecordDict], str], MetricRecord]
"""FedAvg's kind of function: the clients' records and the key of the weights in, one record out."""


def common_record(
    reports: Sequence[dict[str, float]], contents: list[RecordDict], combine: MetricsFn | None, weighted_by: str
) -> MetricRecord:
    """Return the median of every number that a majority of the clients reports, or what the user's function says.

    That function is the user's own code on the clients' words, so whatever it raises is logged, and the medians stand.
    """
    medians = MetricRecord(dict(common_metrics(reports)))
    if combine is None or not contents:
        return medians
    try:
        found = _record(combine([_without_secrets(content) for content in contents], weighted_by))
        figures(found, "")  # or its numbers could not be written down
    except Exception as error:  # noqa: BLE001  the words of one client must not end the run
        log(WARNING, "the function for metrics failed, medians are used: %s: %s", type(error).__name__, error)
        return medians
    return found


def _without_secrets(content: RecordDict) -> RecordDict:
    """Return a client's metrics without what is there only so that nobody can foresee them."""
    records = content.metric_records.items()
    return RecordDict(
        {name: MetricRecord({key: record[key] for key in record if key != SECRET}) for name, record in records}
    )


def _record(found: MetricRecord) -> MetricRecord:
    """Return what a user's function returned, if it is a record; names that clients may have chosen do nothing."""
    if not isinstance(found, MetricRecord):
        raise TypeError(f"it must return a MetricRecord, got {type(found).__name__}")
    return MetricRecord({harmless(key, limit=LONGEST_NAME): found[key] for key in islice(found, MOST_METRICS)})


def figures(record: MetricRecord, prefix: str) -> dict[str, float]:
    """Return the single numbers of a record, under names that say where they come from and in which no letter acts."""
    numbers = ((key, value) for key, value in record.items() if isinstance(value, (int, float)))
    return {f"{prefix}{harmless(key, limit=LONGEST_NAME)}": float(value) for key, value in numbers}


_COUNTED = ("asked", "kept", "removed", "absent", "malformed", "unusable", "unasked", "skipped")
"""What is handed on of a `Tally`."""


def with_counts(metrics: MetricRecord, record: RoundRecord) -> MetricRecord:
    """Return the metrics together with what became of the replies."""
    tally = Tally.of(record, deployed=True).counts()
    return MetricRecord({**metrics, **{f"steadfed-{name}": tally[name] for name in _COUNTED}})


SCORES = {
    "train_loss": ("train_loss", "train-loss"),
    "train_accuracy": ("train_accuracy", "train-accuracy"),
    "test_loss": ("test_loss", "test-loss", "loss", "eval_loss", "eval-loss"),
    "test_accuracy": ("test_accuracy", "test-accuracy", "accuracy", "eval_acc", "eval-acc", "acc"),
}
"""Under which names the server's own evaluation gives what a record of a round has fields for."""


def scores_of(metrics: MetricRecord | None) -> dict[str, float]:
    """Return the losses and accuracies of the server's own evaluation, by the names of a `RoundRecord`."""
    found = {} if metrics is None else figures(metrics, "")
    return {score: found[key] for score, keys in SCORES.items() for key in reversed(keys) if key in found}


def metrics_of(metrics: MetricRecord | None) -> dict[str, float]:
    """Return what the server's own evaluation says under the name of a metric, with hyphens or underscores."""
    found = {} if metrics is None else figures(metrics, "")
    named = {key.replace("-", "_").removeprefix("test_"): value for key, value in found.items()}
    return {name: named[name] for name, metric in METRICS.items() if name in named and metric.column is None}


def with_evaluation(
    record: RoundRecord, by_clients: MetricRecord | None, by_server: MetricRecord | None, seconds: Mapping[str, float]
) -> RoundRecord:
    """Return the record of a round with what was found out about the model after it."""
    metrics = {
        **record.metrics,
        **({} if by_clients is None else figures(by_clients, "evaluate/")),
        **({} if by_server is None else figures(by_server, "server/")),
    }
    more = {**scores_of(by_server), "metrics": metrics, "seconds": {**record.seconds, **seconds}}
    if named := metrics_of(by_server):
        more["test_metrics"] = named
    return record.model_copy(update=finite_or_none(more))
