"""How good the model is for single clients, from what it says of the test points: no client is looked at twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from steadfed._core.arrays import Indices, Vector
from steadfed.data import Dataset
from steadfed.errors import ParameterError
from steadfed.metrics import Metric, Predictions, Task, metric_named, name_of
from steadfed.partitions import NaturalPartition, Shares
from steadfed.server._record import ClientScores
from steadfed.simulation._config import RunConfig
from steadfed.simulation._evaluation import take_evenly
from steadfed.simulation._reading import Outputs

_USUAL: dict[Task, str] = {"classification": "accuracy", "regression": "mae"}


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ClientScorer:
    """Scores some of the clients: each on test points of its own, or on all of them as often as its labels are.

    A client that is an owner of points (natural partition, data that say whose a test point is) has test points of its
    own, and its score is the metric of these. Any other has none; of classes its accuracy is then estimated as
    Σ_c p_c recall_c, where p_c is the share of the class c among its training points (of the classes that are tested)
    and recall_c is measured on all test points: the accuracy on points like its own, if those of a class are alike.
    """

    name: str
    """Of the metric, in records."""
    metric: Metric
    clients: Indices
    """Whom to score, in order."""
    own: tuple[Indices, ...] | None
    """For each of them the places of its points among the tested ones."""
    label_shares: NDArray[np.float64] | None
    """For each of them the shares of classes among its training points."""

    @classmethod
    def of(
        cls, config: RunConfig, dataset: Dataset, shares: Shares, tested: Indices, task: Task | None
    ) -> ClientScorer:
        """Find whom to score, and on what.

        Args:
            config: whom to score, by which metric.
            dataset: the data.
            shares: who holds which training points; the server's own left out.
            tested: the test points that the model is looked at on.
            task: what the model is for.

        Raises:
            ParameterError: a single client's score is not defined by this metric on these data.
        """
        if task is None:
            raise ParameterError(
                "evaluation.client_scores needs classes or numbers to predict; these data have neither"
            )
        asked = config.evaluation.client_metric or _USUAL[task]
        metric = metric_named(asked)
        metric.check(asked, task, dataset.num_classes)
        at_most = config.evaluation.client_scores
        clients = take_evenly(np.arange(shares.num_clients), "all" if at_most is None else at_most)
        own = _own_points(config, dataset, shares, clients, tested)
        counts = None if own is not None else _label_shares(dataset, shares, clients)
        if own is None and (counts is None or asked != "accuracy"):
            raise ParameterError(
                f"evaluation.client_scores: clients of {config.partition!r} on {dataset.name} have no test points of "
                f"their own; without these a client has an accuracy, by the classes it holds, and no {asked!r}"
            )
        return cls(name=name_of(asked), metric=metric, clients=clients, own=own, label_shares=counts)

    def score(self, outputs: Outputs, byzantine: NDArray[np.bool_]) -> ClientScores:
        """Return the scores of the clients that are honest now: what it does for a liar is nobody's concern.

        Args:
            outputs: what the model says of the tested points.
            byzantine: who of `clients` is Byzantine in this round.
        """
        honest = np.flatnonzero(~byzantine)
        if self.own is not None:
            found = [self._value(outputs.predictions(self.own[place])) for place in honest.tolist()]
        else:
            found = self._by_labels(outputs.predictions())[honest].tolist()
        return ClientScores(
            metric=self.name,
            higher_is_better=self.metric.higher_is_better,
            own_points=self.own is not None,
            clients=tuple(self.clients[honest].tolist()),
            scores=tuple(found),
        )

    def _value(self, predictions: Predictions) -> float | None:
        return self.metric.value(predictions) if len(predictions) else None

    def _by_labels(self, predictions: Predictions) -> Vector:
        """Return Σ_c p_c recall_c over the classes that are tested, NaN for a client that holds none of them."""
        if self.label_shares is None:
            return np.full(len(self.clients), np.nan)
        targets, predicted = predictions.targets.cpu().numpy(), predictions.predicted.cpu().numpy()
        number = self.label_shares.shape[1]
        support = np.bincount(targets, minlength=number)
        hits = np.bincount(targets[targets == predicted], minlength=number)
        there = support > 0
        recalls = hits[there] / support[there]
        shares = self.label_shares[:, there]
        with np.errstate(invalid="ignore"):
            return np.asarray((shares * recalls).sum(axis=1) / shares.sum(axis=1), dtype=np.float64)


def _own_points(
    config: RunConfig, dataset: Dataset, shares: Shares, clients: Indices, tested: Indices
) -> tuple[Indices, ...] | None:
    """Return the places of every client's own points among the tested ones; None if nobody has any of its own."""
    if dataset.groups is None or dataset.test_groups is None or not isinstance(config.partition, NaturalPartition):
        return None
    owners = dataset.groups[shares.order[shares.offsets[clients]]]  # all points of a client have one owner
    held = dataset.test_groups[tested]
    order = np.argsort(held, kind="stable")
    first, last = (np.searchsorted(held[order], owners, side=side) for side in ("left", "right"))
    return tuple(order[start:end] for start, end in zip(first.tolist(), last.tolist(), strict=True))


def _label_shares(dataset: Dataset, shares: Shares, clients: Indices) -> NDArray[np.float64] | None:
    """Return how often each class is among the training points of clients; None if points have no class each."""
    if dataset.num_classes is None or dataset.labels.ndim != 1:
        return None
    labels, number = dataset.labels.cpu().numpy(), dataset.num_classes
    counts = np.stack([np.bincount(labels[shares.points(client)], minlength=number) for client in clients.tolist()])
    return np.asarray(counts / counts.sum(axis=1, keepdims=True), dtype=np.float64)
