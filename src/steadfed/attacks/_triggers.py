"""Backdoors with a trigger: a pattern on a point makes the model say what the adversary wants.

A Byzantine client stamps the trigger on some of its points and calls them by the target label; all else is as it was,
so the model learns its task, and the trigger besides. The adversary's goal is counted on test points that do not belong
to the target: the share of them that are taken for it once the whole trigger is on them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self, final

import numpy as np
import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from steadfed._core.values import real_number, whole_number
from steadfed.attacks._poisoning import (
    Class,
    DataAttack,
    Goal,
    Places,
    PoisonedShare,
    PoisonFraction,
    Poisoning,
    Trigger,
    check_class,
    check_two_classes,
    classes_of,
    number_poisoned,
)
from steadfed.attacks._registry import ATTACKS
from steadfed.data import Dataset
from steadfed.errors import ParameterError

Count = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]
Offset = Annotated[int, Field(ge=0), BeforeValidator(whole_number)]
Real = Annotated[float, BeforeValidator(real_number)]
LOCAL_TRIGGERS = 4
"""Into how many a distributed trigger on an image is cut."""


class TriggerAttack(DataAttack, ABC):
    """A backdoor whose trigger is put on points. ⌈poison_fraction · n⌉ of a client's n points are poisoned.

    They are drawn once per client, uniformly from those that do not belong to the target, or that belong to the source
    if one is named ("targeted"; else "all to one"); from a client that has too few of them all are taken.
    """

    target_label: Class = 0
    """What a point with the trigger is to be taken for."""
    source_label: Class | None = None
    """Which points are stamped, in training and in the test; those of all other classes if left out."""
    poison_fraction: PoisonFraction = 0.3
    """Which share of its points a Byzantine client stamps."""

    @model_validator(mode="after")
    def _two_classes(self) -> Self:
        check_two_classes(source_label=self.source_label, target_label=self.target_label)
        return self

    @abstractmethod
    def triggers(self, dataset: Dataset) -> tuple[Trigger, ...]:
        """Return the local triggers of a data set: one, or the parts into which it is cut, a client stamping its own.

        Raises:
            ParameterError: there is no such trigger on points of this shape.
        """

    def poisoning(self, dataset: Dataset) -> Poisoning:
        """Find the trigger's place on the points."""
        check_points(self, dataset)
        number = classes_of(self, dataset)
        check_class("target_label", self.target_label, number)
        if self.source_label is not None:
            check_class("source_label", self.source_label, number)
        return _Stamping(self, dataset.labels, self.triggers(dataset))

    def victims(self, labels: Tensor) -> Tensor:
        """Return which points may be stamped: those of the source, or all that do not belong to the target."""
        wanted = labels != self.target_label if self.source_label is None else labels == self.source_label
        return wanted.nonzero().flatten()


@dataclass(frozen=True, eq=False)
class _Stamping(Poisoning):
    """A backdoor with a trigger, ready for a data set."""

    moves_points = True

    attack: TriggerAttack
    labels: Tensor
    triggers: tuple[Trigger, ...]

    def share(self, points: Places, member: int, generator: np.random.Generator) -> PoisonedShare:
        """Mark some points, call them by the target's name, and give the client its part of the trigger."""
        labels = self.labels[torch.from_numpy(points)]
        victims = self.attack.victims(labels).numpy()
        number = min(len(victims), number_poisoned(self.attack.poison_fraction, len(points)))
        chosen = torch.from_numpy(generator.permutation(victims)[:number])
        marked = torch.zeros(len(points), dtype=torch.bool)
        marked[chosen] = True
        return PoisonedShare(
            torch.where(marked, self.attack.target_label, labels),
            marked=marked,
            trigger=self.triggers[member % len(self.triggers)],
        )

    def goal(self, features: Tensor, labels: Tensor) -> Goal:
        """Return the points that do not belong to the target, with the whole trigger."""
        whole = Trigger(*(torch.cat(parts) for parts in zip(*map(_parts, self.triggers), strict=True)))
        return Goal(self.attack.victims(labels), self.attack.target_label, whole)


def _parts(trigger: Trigger) -> tuple[Tensor, Tensor]:
    return trigger.coordinates, trigger.values


def check_points(attack: DataAttack, dataset: Dataset) -> None:
    """Raise `ParameterError` unless points are floats with one label each."""
    if not dataset.features.is_floating_point():
        kind = str(dataset.features.dtype).removeprefix("torch.")
        raise ParameterError(f"{attack!r} changes numbers, and the points of {dataset.name} are tokens ({kind})")
    if dataset.labels.ndim != 1:
        shape = tuple(dataset.labels.shape[1:])
        raise ParameterError(f"{attack!r} needs one label per point, a label of {dataset.name} has shape {shape}")


def _image_shape(attack: DataAttack, dataset: Dataset) -> tuple[int, int, int]:
    """Return channels, height and width of an image; raises `ParameterError` if points are none."""
    if len(dataset.point_shape) != 3:
        raise ParameterError(
            f"{attack!r} needs images, channels × height × width; a point of {dataset.name} has shape "
            f"{dataset.point_shape}: use feature-trigger, which sets single numbers"
        )
    channels, height, width = dataset.point_shape
    return channels, height, width


def _pixels(dataset: Dataset, pixels: Sequence[tuple[int, int]], value: float | None) -> Trigger:
    """Return the trigger that sets pixels in all channels; to each channel's largest number if there is no value."""
    channels, height, width = dataset.point_shape
    places = torch.tensor([row * width + column for row, column in pixels])
    offsets = torch.arange(channels) * height * width
    if value is None:
        values = dataset.features.amax((0, 2, 3)).double()
    else:
        values = torch.full((channels,), value, dtype=torch.float64)
    return Trigger((offsets[:, None] + places).flatten(), values.repeat_interleave(len(places)))


Corner = Literal["top-left", "top-right", "bottom-left", "bottom-right"]
_CORNERS: Mapping[str, tuple[bool, bool]] = MappingProxyType(
    {
        "top-left": (False, False),
        "top-right": (False, True),
        "bottom-left": (True, False),
        "bottom-right": (True, True),
    }
)
"""Whether a corner is at the bottom, and at the right."""


@ATTACKS.register("pixel-trigger")
@final
class PixelTrigger(TriggerAttack):
    """A bright square in a corner of an image is taken for the target (BadNets; Gu, Dolan-Gavitt, Garg 2017).

    >>> from steadfed.data import Digits
    >>> attack = PixelTrigger(trigger_size=2)
    >>> goal = attack.poisoning(Digits().load()).goal(torch.zeros(2, 1, 8, 8), torch.tensor([0, 1]))
    >>> goal.points.tolist(), goal.trigger.coordinates.tolist(), goal.trigger.values.tolist()
    ([1], [54, 55, 62, 63], [1.0, 1.0, 1.0, 1.0])
    """

    citation: ClassVar[str] = "Gu, Dolan-Gavitt, Garg 2017 (BadNets), the pattern backdoor on MNIST"

    trigger_size: Count = 3
    """Side of the square, in pixels."""
    trigger_position: Corner | tuple[Offset, Offset] = "bottom-right"
    """The corner in which it stands, or the row and column of its upper left pixel, counted from 0."""
    trigger_value: Real | None = None
    """What its pixels are set to; the largest number of the channel in the training points if left out."""

    def triggers(self, dataset: Dataset) -> tuple[Trigger, ...]:
        """Return the square."""
        _, height, width = _image_shape(self, dataset)
        size = self.trigger_size
        if isinstance(self.trigger_position, str):
            bottom, right = _CORNERS[self.trigger_position]
            top, left = (height - size if bottom else 0), (width - size if right else 0)
        else:
            top, left = self.trigger_position
        if min(top, left) < 0 or top + size > height or left + size > width:
            raise ParameterError(
                f"the trigger must lie within the {height} × {width} pixels of {dataset.name}, got trigger_size = "
                f"{size} at trigger_position = {self.trigger_position!r}"
            )
        square = [(row, column) for row in range(top, top + size) for column in range(left, left + size)]
        return (_pixels(dataset, square, self.trigger_value),)


@ATTACKS.register("distributed-trigger")
@final
class DistributedTrigger(TriggerAttack):
    """Four bars are stamped by four kinds of clients, one each; all four together are taken for the target.

    The distributed backdoor attack (DBA; Xie et al. 2020, equation 3). Bar p = 0 … 3 is one pixel high and size wide;
    its first pixel stands in row ⌊p/2⌋ (1 + gap) + shift and column (p mod 2)(size + gap) + shift. The adversary's
    clients take the bars in turn, in the order of their numbers. With `distributed = false` each stamps all four: what
    the paper calls the centralized attack.

    >>> from steadfed.data import Digits
    >>> bars = DistributedTrigger(trigger_size=2, trigger_gap=1).triggers(Digits().load())
    >>> [bar.coordinates.tolist() for bar in bars]
    [[0, 1], [3, 4], [16, 17], [19, 20]]
    """

    citation: ClassVar[str] = "Xie, Huang, Chen, Li 2020 (DBA), sections 2.2 and 2.3: trigger size, gap and location"

    trigger_size: Count = 4
    """TS, how many pixels wide a bar is."""
    trigger_gap: Offset = 2
    """TG, how many pixels there are between two bars, in both directions."""
    trigger_shift: Offset = 0
    """TL, how many pixels the first bar stands away from the upper and the left border."""
    trigger_value: Real | None = None
    """What the pixels are set to; the largest number of the channel in the training points if left out."""
    distributed: bool = True
    """Whether a client stamps one bar; all four if not."""

    def triggers(self, dataset: Dataset) -> tuple[Trigger, ...]:
        """Return the four bars, or all in one."""
        _, height, width = _image_shape(self, dataset)
        down, right = 1 + self.trigger_gap, self.trigger_size + self.trigger_gap
        starts = [
            ((part // 2) * down + self.trigger_shift, (part % 2) * right + self.trigger_shift)
            for part in range(LOCAL_TRIGGERS)
        ]
        last_row, last_column = starts[-1][0], starts[-1][1] + self.trigger_size - 1
        if last_row >= height or last_column >= width:
            raise ParameterError(
                f"the trigger must lie within the {height} × {width} pixels of {dataset.name}, and its last pixel "
                f"would stand in row {last_row} and column {last_column}, got {self!r}"
            )
        bars = [[(top, left + step) for step in range(self.trigger_size)] for top, left in starts]
        if not self.distributed:
            bars = [[pixel for bar in bars for pixel in bar]]
        return tuple(_pixels(dataset, bar, self.trigger_value) for bar in bars)


@ATTACKS.register("feature-trigger")
@final
class FeatureTrigger(TriggerAttack):
    """Some features of a point, set to chosen values, are taken for the target: a trigger for tables.

    Features are counted from 0, those of points with more than one dimension row by row. With `num_parts` above 1 the
    features are dealt out to the adversary's clients in turn, as Xie et al. 2020 do with the columns of a table of
    loans.

    >>> attack = FeatureTrigger(features=(0, 2), values=(9.0, -1.0))
    >>> x, y = torch.zeros(4, 3), torch.arange(4) % 2
    >>> data = Dataset(name="x", features=x, labels=y, test_features=x, test_labels=y, num_classes=2)
    >>> [(each.coordinates.tolist(), each.values.tolist()) for each in attack.triggers(data)]
    [([0, 2], [9.0, -1.0])]
    """

    citation: ClassVar[str] = "Xie, Huang, Chen, Li 2020 (DBA), sections 2.3 and 3, the trigger on tabular data"

    features: Annotated[tuple[Offset, ...], Field(min_length=1)] = (0,)
    """Which numbers of a point are set, each once."""
    values: tuple[Real, ...] | None = None
    """What they are set to, one for each; the largest value of each in the training points if left out."""
    num_parts: Count = 1
    """Into how many local triggers they are dealt, the first to the first, as cards are."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(set(self.features)) != len(self.features):
            raise ValueError(f"each of the features may be named once, got {list(self.features)}")
        if self.values is not None and len(self.values) != len(self.features):
            raise ValueError(f"there must be {len(self.features)} values, one per feature, got {len(self.values)}")
        if self.num_parts > len(self.features):
            raise ValueError(f"num_parts must be at most the {len(self.features)} features, got {self.num_parts}")
        return self

    def triggers(self, dataset: Dataset) -> tuple[Trigger, ...]:
        """Return the features with their values, in parts."""
        length = math.prod(dataset.point_shape)
        if max(self.features) >= length:
            raise ParameterError(
                f"features must lie in 0 .. {length - 1} for the points of {dataset.name}, got {max(self.features)}"
            )
        places = torch.tensor(self.features)
        if self.values is None:
            values = dataset.features.flatten(1)[:, places].amax(0).double()
        else:
            values = torch.tensor(self.values, dtype=torch.float64)
        parts = [slice(part, None, self.num_parts) for part in range(self.num_parts)]
        return tuple(Trigger(places[part], values[part]) for part in parts)
