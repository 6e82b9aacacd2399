"""A model's outputs read as predictions, chunk by chunk: what stays of them is what metrics look at, of all points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from steadfed._core.arrays import Indices
from steadfed.errors import ParameterError
from steadfed.metrics import Predictions, Task

MOST_SCORES = 1 << 27
"""Numbers that are kept for metrics of scores, half a gigabyte of float32."""


@final
@dataclass(frozen=True, kw_only=True)
class OutputReader:
    """How outputs become predictions."""

    task: Task
    num_classes: int | None
    scores: bool = False
    """Whether to keep how sure the model is of every class."""

    def check_size(self, labels: Tensor) -> None:
        """Refuse no points, and those whose scores would not fit; predictions take no more memory than the labels do.

        Raises:
            ParameterError: there are none, or too many for so many classes; the message says how many would do.
        """
        if not len(labels):
            raise ParameterError("metrics look at test points, and there are none; see evaluation.test_points")
        classes = self.num_classes or 1
        if self.scores and labels.numel() * classes > MOST_SCORES:
            most = MOST_SCORES // classes // max(1, labels[:1].numel())
            raise ParameterError(
                f"auroc and average_precision keep {classes} scores of {labels.numel():,} labels, which is too much; "
                f"set evaluation.test_points to at most {most:,} points, got {len(labels):,}"
            )

    def read(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return what a chunk predicts, shaped as the labels are, and the scores of the classes if they are kept.

        One output for two classes is the score of class 1, which is named above 0, as the logistic loss has it.
        """
        if self.task == "regression":
            return outputs.reshape(labels.shape), None
        if self.num_classes == 2 and outputs.shape[-1] == 1:
            outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=-1)
        return outputs.argmax(-1), outputs if self.scores else None


@final
@dataclass(eq=False)
class Outputs:
    """What was read so far, in the order of the points."""

    reader: OutputReader
    labels: Tensor
    _predicted: list[Tensor] = field(default_factory=list)
    _scores: list[Tensor] = field(default_factory=list)

    def add(self, outputs: Tensor, start: int) -> None:
        """Read the outputs of the points from `start` on."""
        predicted, scores = self.reader.read(outputs, self.labels[start : start + len(outputs)])
        self._predicted.append(predicted)
        self._scores += [] if scores is None else [scores]

    def predictions(self, points: Indices | None = None) -> Predictions:
        """Return the predictions for all points, or for some by their places; tokens count as points."""
        predicted, scores = self._whole()
        labels = self.labels
        if points is not None:
            places = torch.from_numpy(points).to(labels.device)
            predicted, labels = predicted[places], labels[places]
            scores = None if scores is None else scores[places]
        if self.reader.task == "classification":
            predicted, labels = predicted.flatten(), labels.flatten()
            scores = None if scores is None else scores.flatten(0, -2)
        return Predictions(
            task=self.reader.task,
            predicted=predicted,
            targets=labels,
            num_classes=self.reader.num_classes,
            scores=scores,
        )

    def _whole(self) -> tuple[Tensor, Tensor | None]:
        """Return what was read, the chunks put together once."""
        if len(self._predicted) > 1:
            self._predicted = [torch.cat(self._predicted)]
            self._scores = [torch.cat(self._scores)] if self._scores else []
        return self._predicted[0], self._scores[0] if self._scores else None
