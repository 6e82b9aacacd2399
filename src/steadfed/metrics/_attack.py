"""What an adversary with a goal of its own has reached."""

from __future__ import annotations

from typing import ClassVar, final

from steadfed.metrics._base import Metric, Predictions, Task
from steadfed.metrics._counts import share
from steadfed.metrics._registry import METRICS

ATTACK_SUCCESS = "attack_success_rate"
"""What the rate is called in configurations and records."""
ATTACKED = "attacked"
"""The points that an adversary wants misjudged; their target is what it wants them to be taken for."""


@METRICS.register("attack_success_rate")
@final
class AttackSuccessRate(Metric):
    """The share of the points of a backdoor's goal that are taken for the target class: ASR, best when low.

    The goal is the attack's (`steadfed.attacks.Goal`): test points that do not belong to the target, or that belong to
    the source, with the whole trigger on them; or the points with the property, as they are (Xie et al. 2020, section
    3.2). Looked at in every run whose attack has a goal, awake or not, asked for or not; not written for other attacks.
    Points of the target itself do not count, so a model that nobody attacked has its ordinary errors for a rate.
    """

    title: ClassVar[str] = "attack success rate"
    meaning: ClassVar[str] = "share of triggered points of other classes that are taken for the adversary's target"
    tasks: ClassVar[frozenset[Task]] = frozenset({"classification"})
    higher_is_better: ClassVar[bool] = False
    points: ClassVar[str] = ATTACKED

    def value(self, predictions: Predictions) -> float | None:
        """Return the share of points that are taken for what the adversary wants."""
        return share(int((predictions.predicted == predictions.targets).sum()), len(predictions))
