"""What the scores of single clients come to, as metrics to rank by."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, final

from steadfed.errors import ParameterError
from steadfed.metrics._base import Metric, Predictions, Task
from steadfed.metrics._registry import METRICS


class OverClients(Metric, ABC):
    """A figure of the scores of single clients: in the direction, and the unit, of the metric they are scored by."""

    tasks: ClassVar[frozenset[Task]] = frozenset({"classification", "regression"})

    def value(self, predictions: Predictions) -> float | None:
        """Return None: it takes the points of single clients."""
        return None

    def check(self, name: str, task: Task | None, num_classes: int | None) -> None:
        """Refuse to be asked for by name: it comes with the scores of clients."""
        raise ParameterError(
            f"{name!r} comes with the scores of single clients; set evaluation.client_scores to how many of them, and "
            f"take {name!r} out of metrics"
        )


@METRICS.register("client_mean")
@final
class ClientMean(OverClients):
    """The mean score over clients, each counting the same, however many points it has."""

    title: ClassVar[str] = "mean client"
    meaning: ClassVar[str] = "mean over clients of how good the model is for each"
    column: ClassVar[str | None] = "client_scores.mean"


@METRICS.register("client_worst_tenth")
@final
class ClientWorstTenth(OverClients):
    """The mean score over the ⌈n/10⌉ clients for whom the model is worst (Li et al. 2020, q-FedAvg)."""

    title: ClassVar[str] = "worst tenth of clients"
    meaning: ClassVar[str] = "mean over the tenth of the clients for whom the model is worst"
    column: ClassVar[str | None] = "client_scores.worst_tenth"


@METRICS.register("client_worst")
@final
class ClientWorst(OverClients):
    """The score of the client for whom the model is worst."""

    title: ClassVar[str] = "worst client"
    meaning: ClassVar[str] = "how good the model is for the client for whom it is worst"
    column: ClassVar[str | None] = "client_scores.worst"
