"""Hand-batched stacks of Linear and ReLU: a few products of many small matrices per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from steadfed._core.arrays import Indices
from steadfed.models._elementwise import sigmoid
from steadfed.models._losses import CrossEntropy, HalfSquares, Huber, Logistic, Loss
from steadfed.simulation._engines.base import Engine, EngineRefusalError
from steadfed.simulation._engines.dense import Bound, Descent, dense_layers
from steadfed.simulation._engines.first_layer import FirstLayer, Gathered, Grams, SampleSpace, Space
from steadfed.simulation._engines.points import ALIGNED, DrawnPoints, Scratch
from steadfed.simulation._local import Chunk, TrainingTask

_CHUNK_NUMBERS = 3 * 2**19
"""How many numbers the rows and batches of a chunk may have: some megabytes, which stay in cache between products."""


def _by_classes(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return softmax(z) − e_y."""
    delta = outputs.softmax(1)
    delta.scatter_add_(1, labels.unsqueeze(1), delta.new_full((1, 1, 1), -1.0).expand(len(labels), 1, labels.shape[1]))
    return delta


def _by_signs(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return σ(z) − y for y = 0, 1, the derivative of log(1 + exp(−(2y − 1) z))."""
    return sigmoid(outputs).sub_(labels.unsqueeze(1))


def _by_squares(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return z − y."""
    return outputs - labels.flatten(2).transpose(1, 2) if labels.dim() > 2 else outputs - labels.unsqueeze(1)


def gradient_of(loss: Loss) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return what gives the gradient of each point's loss by the outputs; None if it is not written out here."""
    if isinstance(loss, Huber):
        limit = loss.delta
        return lambda outputs, labels: _by_squares(outputs, labels).clamp_(-limit, limit)
    return GRADIENTS.get(type(loss))


GRADIENTS: Mapping[type[Loss], Callable[[Tensor, Tensor], Tensor]] = {
    CrossEntropy: _by_classes,
    Logistic: _by_signs,
    HalfSquares: _by_squares,
}
"""The gradient of each point's loss by the outputs: from c × outputs × b and labels c × b (× …)."""


@final
class StackedEngine(Engine):
    """A `Sequential` of Linear and ReLU (after a Flatten), for all clients of a chunk at once.

    Forward and backward are written out as batched products. If a step is x ← x − η g and nothing else, the products
    that form the gradients add them to the rows right away; otherwise they fill gradient rows for `TrainingTask.step_`.
    Weight decay λ is the factor 1 − ηλ. The first layer works in sample space where that is less work.

    The chunk's weights are copied to memory in which every client's begin at a multiple of `ALIGNED`, and batches are
    padded to such a multiple with points whose gradient is set to 0: a client's bits do not depend on its place.
    """

    name: ClassVar[str] = "stacked"

    def __init__(self, task: TrainingTask) -> None:
        """Read the stack off the model, and form the Gram matrices of sample space."""
        super().__init__(task)
        self._layers = dense_layers(task)
        gradient = gradient_of(task.loss)
        if gradient is None:
            raise EngineRefusalError(f"the loss {type(task.loss).__name__} has no hand-written gradient here")
        self._gradient = gradient
        if type(task.loss) is CrossEntropy and task.data.labels.dim() != 1:
            raise EngineRefusalError("the points have more than one label each")
        self._features = task.data.features.flatten(1)
        first = self._layers[0]
        grams = Grams.of(task, self._features, first.weight.shape[0], biased=first.bias is not None)
        self._space = Space(task, self._features, grams, Scratch(), Scratch())
        largest = int(task.local.batch_sizes(task.data.shares.sizes).max())
        self.chunk_size = max(1, min(64, _CHUNK_NUMBERS // (task.layout.dim + largest * self._features.shape[1])))
        self._rows, self._gradients = Scratch(), Scratch()

    def kinds(self, clients: Indices) -> Indices:
        """Group by the size of a batch, and by the size of the Gram matrix in sample space."""
        padded = self._space.grams.padded
        return super().kinds(clients) * (1 + int(padded.max())) + padded[clients]

    @torch.no_grad()
    def train(
        self,
        rows: Float[Tensor, "c d"],
        chunk: Chunk,
        *,
        momentum: Float[Tensor, "c d"] | None = None,
        buffers: Float[Tensor, "c m"] | None = None,
    ) -> None:
        """Take the steps of all clients together."""
        drawn, plain = DrawnPoints.of(self.task, chunk, ALIGNED), self.task.local.is_plain
        own = self._rows.copied(rows)
        into = own if plain else self._gradients.empty_rows(rows)
        share = 1.0 / drawn.batch_size
        by = Descent(1.0 - chunk.lr * self.task.decay, -chunk.lr * share) if plain else Descent(0.0, share)
        layers = [Bound.to(layer, own, into) for layer in self._layers]
        first = self._first_layer(layers[0], chunk, drawn)
        for step in range(chunk.steps):
            first.descend(step, self._backpropagate(layers, first.outputs(step), drawn, step, by), by)
            if not plain:
                self.task.step_(own, into, momentum, chunk.lr)
        first.finish()
        rows.copy_(own)

    def _first_layer(self, layer: Bound, chunk: Chunk, drawn: DrawnPoints) -> FirstLayer:
        if self._space.grams.size_of(chunk.clients) == 0:
            return Gathered(layer, self._features, drawn, self._space.points)
        return SampleSpace(layer, chunk, drawn, self._space)

    def _backpropagate(
        self, layers: list[Bound], outputs: Tensor, drawn: DrawnPoints, step: int, by: Descent
    ) -> Tensor:
        """Return the gradient by the outputs of the first layer; all other layers have taken theirs in."""
        inputs: list[Tensor] = []
        for dense, layer in zip(self._layers[1:], layers[1:], strict=True):
            inputs.append(outputs.relu_() if dense.rectified else outputs)
            outputs = layer.outputs(inputs[-1])
        delta = self._gradient(outputs, drawn.labels_of(step))
        delta[:, :, drawn.batch_size :] = 0.0  # the padding has no loss
        for dense, layer in zip(self._layers[:0:-1], layers[:0:-1], strict=True):
            before = layer.backward(delta)  # by the weights as they are before the step
            given = inputs.pop()
            layer.descend(delta, given.transpose(1, 2), by)
            delta = torch.ops.aten.threshold_backward(before, given, 0.0) if dense.rectified else before
        return delta
