"""What a metric is: a name, a direction, and a number made of predictions and what is true."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steadfed._core.values import ValueObject
from steadfed.errors import ParameterError

if TYPE_CHECKING:
    from torch import Tensor

Task = Literal["classification", "regression"]
"""What a model is for: it names a class for every point (or token), or it says a number."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What a model says of n points, beside what is true. The points of a text are its tokens."""

    task: Task
    predicted: Tensor
    """n classes, int64; or n × m numbers."""
    targets: Tensor
    """What is true, of the same shape and kind."""
    num_classes: int | None = None
    """C; None if there are no classes."""
    scores: Tensor | None = None
    """n × C: the larger, the more likely the class; None unless a metric `needs_scores`."""

    def __len__(self) -> int:
        return len(self.targets)


class Metric(ValueObject, ABC):
    """How good predictions are, in one number over all points; never a mean over parts of them.

    A metric has its name where it is defined, `@METRICS.register("balanced_accuracy")`. Under this name it is asked for
    (`metrics = ["balanced_accuracy"]`), written into every round with an evaluation (`RoundRecord.test_metrics`), read
    (`history["balanced_accuracy"]`), drawn, exported and ranked by (`metric = "balanced_accuracy"` of a comparison).
    """

    title: ClassVar[str]
    """What people call it."""
    meaning: ClassVar[str]
    """What it says, in a few words for those who do not know it."""
    tasks: ClassVar[frozenset[Task]]
    """For which tasks it is defined."""
    higher_is_better: ClassVar[bool] = True
    """The direction: rankings and worst cases follow it."""
    is_share: ClassVar[bool] = True
    """Whether it is a share of something, shown in percent; otherwise it is a number in a unit of its own."""
    needs_scores: ClassVar[bool] = False
    """Whether it reads how sure the model is of every class, which takes n × C numbers of memory."""
    two_classes: ClassVar[bool] = False
    """Whether it speaks of one class out of two, the class 1."""
    points: ClassVar[str] = "test"
    """Which points it looks at: "test", or the name of others that the simulation makes."""
    column: ClassVar[str | None] = None
    """The column of a run in which it is written in any case; None if it is written only where it is asked for."""

    @abstractmethod
    def value(self, predictions: Predictions) -> float | None:
        """Return the number; None where it is not defined, such as the recall of a class without a point."""

    def check(self, name: str, task: Task | None, num_classes: int | None) -> None:
        """Refuse a task or data that the metric says nothing about.

        Raises:
            ParameterError: the message says for what it is.
        """
        if task not in self.tasks:
            wanted = " or ".join(sorted(self.tasks))
            got = "has neither classes nor numbers to predict" if task is None else f"is {task}"
            raise ParameterError(f"the metric {name!r} is for {wanted}, and the task of this run {got}")
        if self.two_classes and num_classes != 2:
            raise ParameterError(
                f"the metric {name!r} speaks of the class 1 of two classes, the data have {num_classes}; for more "
                f"classes there are 'balanced_accuracy', 'f1_macro' and 'worst_class_recall'"
            )
