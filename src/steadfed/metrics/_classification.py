"""Metrics of classes. Counts are whole numbers of all points; ratios of them are taken once, in double precision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from steadfed.metrics._base import Metric, Predictions, Task
from steadfed.metrics._counts import ClassCounts, share
from steadfed.metrics._registry import METRICS

if TYPE_CHECKING:
    from torch import Tensor


class ClassMetric(Metric, ABC):
    """A metric of predicted classes."""

    tasks: ClassVar[frozenset[Task]] = frozenset({"classification"})


@METRICS.register("accuracy")
@final
class Accuracy(ClassMetric):
    """The share of points whose class is the predicted one. Written in any case, as `test_accuracy`.

    A model that always names the largest class has its share for an accuracy: with 3 % positives, 97 %.
    """

    title: ClassVar[str] = "accuracy"
    meaning: ClassVar[str] = "share of points that are classified correctly"
    column: ClassVar[str | None] = "test_accuracy"

    def value(self, predictions: Predictions) -> float | None:
        """Return the share of right guesses."""
        return share(int((predictions.predicted == predictions.targets).sum()), len(predictions))


@METRICS.register("balanced_accuracy")
@final
class BalancedAccuracy(ClassMetric):
    r"""(1/C) Σ_c recall_c over the classes that occur: every class counts the same, however rare it is.

    A model that always names one class has 1/C. Classes without a point among the tested ones are left out
    (scikit-learn's `balanced_accuracy_score`; torchmetrics' macro average counts them as 0 if they were named).
    """

    title: ClassVar[str] = "balanced accuracy"
    meaning: ClassVar[str] = "mean over classes of the share of their points that are recognised"

    def value(self, predictions: Predictions) -> float | None:
        """Return the mean recall."""
        recalls = ClassCounts.of(predictions).recalls()
        return float(recalls.mean()) if len(recalls) else None


@METRICS.register("worst_class_recall")
@final
class WorstClassRecall(ClassMetric):
    """min_c recall_c over the classes that occur: 0 if a class is lost."""

    title: ClassVar[str] = "recall of the worst class"
    meaning: ClassVar[str] = "share of points that are recognised, of the class where it is smallest"

    def value(self, predictions: Predictions) -> float | None:
        """Return the smallest recall."""
        recalls = ClassCounts.of(predictions).recalls()
        return float(recalls.min()) if len(recalls) else None


@METRICS.register("f1_macro")
@final
class MacroF1Score(ClassMetric):
    """The mean over classes of F1 = 2 precision recall / (precision + recall); classes that occur or were named."""

    title: ClassVar[str] = "macro F1"
    meaning: ClassVar[str] = "mean over classes of F1, which is low if either precision or recall is"

    def value(self, predictions: Predictions) -> float | None:
        """Return the mean F1."""
        scores = ClassCounts.of(predictions).f1_scores()
        return float(scores.mean()) if len(scores) else None


class PositiveClassMetric(ClassMetric, ABC):
    """A metric of the class 1 of two; None if no point is of it."""

    two_classes: ClassVar[bool] = True

    def value(self, predictions: Predictions) -> float | None:
        """Return what the counts of the class 1 say."""
        counts = ClassCounts.of(predictions)
        hits, alarms, support = (int(each[1]) for each in (counts.hits, counts.false_alarms, counts.support))
        return self.of_counts(hits, alarms, support) if support else None

    @abstractmethod
    def of_counts(self, hits: int, false_alarms: int, support: int) -> float | None:
        """Return the number for so many true positives, false positives and positives."""


@METRICS.register("precision")
@final
class Precision(PositiveClassMetric):
    """The share of the points said to be of the class 1 that are; None if none was said to be.

    Of predictions. The precision of the rule, the share of removed updates that were Byzantine, is another number.
    """

    title: ClassVar[str] = "precision of class 1"
    meaning: ClassVar[str] = "share of the points named 1 that are of class 1"

    def of_counts(self, hits: int, false_alarms: int, support: int) -> float | None:
        """Return hits / (hits + false alarms)."""
        return share(hits, hits + false_alarms)


@METRICS.register("recall")
@final
class Recall(PositiveClassMetric):
    """The share of the points of the class 1 that are recognised (sensitivity)."""

    title: ClassVar[str] = "recall of class 1"
    meaning: ClassVar[str] = "share of the points of class 1 that are recognised"

    def of_counts(self, hits: int, false_alarms: int, support: int) -> float | None:
        """Return hits / support."""
        return share(hits, support)


@METRICS.register("f1")
@final
class F1Score(PositiveClassMetric):
    """F1 of the class 1: 2 hits / (2 hits + false alarms + misses), low if either precision or recall is."""

    title: ClassVar[str] = "F1 of class 1"
    meaning: ClassVar[str] = "low if either precision or recall of class 1 is"

    def of_counts(self, hits: int, false_alarms: int, support: int) -> float | None:
        """Return 2 hits / (hits + false alarms + support)."""
        return share(2 * hits, hits + false_alarms + support)


class ScoreMetric(ClassMetric, ABC):
    """A metric of how points are ordered by the model's score of a class: of class 1, or the mean over all classes.

    Each class is told from all others. Classes that have no point, or all of them, are left out; None if no class is
    left, or a score is NaN. Only the order of the scores enters, of all points at once: they are replaced by their
    ranks, since torchmetrics puts logits through a sigmoid, where large ones become equal.
    """

    needs_scores: ClassVar[bool] = True

    def value(self, predictions: Predictions) -> float | None:
        """Return the number of class 1 if there are two classes, else the mean over classes."""
        if predictions.scores is None or predictions.num_classes is None:
            return None
        classes = (1,) if predictions.num_classes == 2 else range(predictions.num_classes)
        found = []
        for each in classes:
            positive = predictions.targets == each
            if 0 < int(positive.sum()) < len(positive):
                against = predictions.scores[:, 0] if predictions.num_classes == 2 else 0.0
                scores = predictions.scores[:, each] - against
                if bool(scores.isnan().any()):
                    return None
                found.append(self.of_ranks(_ranks(scores), positive.long().cpu()))
        return share(sum(found), len(found))

    @abstractmethod
    def of_ranks(self, ranks: Tensor, positive: Tensor) -> float:
        """Return the number for places in the order of the scores, from 0 to 1, and who is of the class."""


@METRICS.register("auroc")
@final
class AreaUnderRoc(ScoreMetric):
    """The probability that a point of the class has a larger score than one of another class, ties counting half.

    The area under the ROC curve: 1/2 is chance. Of class 1 if there are two, else the mean over classes, each against
    the rest (Hanley & McNeil 1982).
    """

    title: ClassVar[str] = "AUROC"
    meaning: ClassVar[str] = "how often a point of the class has a larger score than another point; 50 % is chance"

    def of_ranks(self, ranks: Tensor, positive: Tensor) -> float:
        """Return the area."""
        from torchmetrics.functional.classification import binary_auroc

        return float(binary_auroc(ranks, positive, validate_args=False))


@METRICS.register("average_precision")
@final
class AveragePrecision(ScoreMetric):
    """Σ_k (recall_k − recall_{k−1}) precision_k over the thresholds: the area under the precision-recall curve.

    Chance is the share of the class, so it says more than `auroc` about a rare one (Davis & Goadrich 2006).
    """

    title: ClassVar[str] = "average precision"
    meaning: ClassVar[str] = "area under the precision-recall curve; the share of the class is chance"

    def of_ranks(self, ranks: Tensor, positive: Tensor) -> float:
        """Return the sum."""
        from torchmetrics.functional.classification import binary_average_precision

        return float(binary_average_precision(ranks, positive, validate_args=False))


def _ranks(scores: Tensor) -> Tensor:
    """Return the places of the scores among their different values, from 0 to 1 in double precision."""
    import torch

    places = np.unique(scores.cpu().numpy(), return_inverse=True)[1]
    return torch.from_numpy(places / max(1, int(places.max())))
