"""Stacks of dense layers: what they are, and one such layer of many clients at once.

Activations are feature-major, clients × features × points: a softmax over dimension 1 of such a tensor is an order of
magnitude faster than one over a short last dimension, and W xᵀ is a product of matrices as they lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from steadfed.models._layout import TensorSlot
from steadfed.simulation._engines.base import EngineRefusalError
from steadfed.simulation._local import TrainingTask


@dataclass(frozen=True)
class Dense:
    """One linear layer: where its weight and bias lie in a row, and whether a ReLU stands before it."""

    weight: TensorSlot
    bias: TensorSlot | None
    rectified: bool


@dataclass(frozen=True)
class Descent:
    """What becomes of a tensor when it takes a gradient in: tensor ← keep · tensor + scale · gradient."""

    keep: float
    scale: float


@dataclass(frozen=True, eq=False)
class Bound:
    """A dense layer of the clients of a chunk: weights c × outputs × inputs, and where its gradients go."""

    weight: Tensor
    bias: Tensor | None
    into_weight: Tensor
    into_bias: Tensor | None

    @classmethod
    def to(cls, layer: Dense, rows: Tensor, into: Tensor) -> Bound:
        """Return the layer as views of the clients' rows; gradients go into the rows of `into`."""
        bias = layer.bias
        return cls(
            layer.weight.view(rows),
            bias.view(rows) if bias is not None else None,
            layer.weight.view(into),
            bias.view(into) if bias is not None else None,
        )

    def outputs(self, inputs: Tensor) -> Tensor:
        """Return W a + bias for inputs a: c × inputs × points."""
        if self.bias is None:
            return torch.bmm(self.weight, inputs)
        return torch.baddbmm(self.bias.unsqueeze(2), self.weight, inputs)

    def backward(self, delta: Tensor) -> Tensor:
        """Return Wᵀ δ, the gradient by the inputs."""
        return torch.bmm(self.weight.transpose(1, 2), delta)

    def descend(self, delta: Tensor, inputs: Tensor, by: Descent) -> None:
        """Let weight and bias take in the gradients δ aᵀ and δ 1 of inputs a, here c × points × inputs."""
        self.into_weight.baddbmm_(delta, inputs, beta=by.keep, alpha=by.scale)
        if self.into_bias is None:
            return
        if by.keep == 0.0:
            self.into_bias.zero_()
        elif by.keep != 1.0:
            self.into_bias.mul_(by.keep)
        self.into_bias.add_(delta.sum(2), alpha=by.scale)


def dense_layers(task: TrainingTask) -> list[Dense]:
    """Return the layers of a stack; raises `EngineRefusalError` if the model is anything else."""
    module, places = task.module, {place.name: place for place in task.layout.parameters}
    if type(module) is not nn.Sequential:
        raise EngineRefusalError(f"the model is a {type(module).__name__}, not a Sequential of Linear and ReLU")
    _check_points(task, module)
    layers: list[Dense] = []
    rectified, free = False, True
    for name, part in module.named_children():
        if type(part) is nn.Flatten and not layers and free and part.start_dim == 1 and part.end_dim == -1:
            free = False
        elif type(part) is nn.ReLU and layers:
            rectified = True
        elif type(part) is nn.Linear:
            if not {f"{name}.{own}" for own, _ in part.named_parameters()} <= places.keys():
                raise EngineRefusalError(f"the layer {name} shares its weight or bias with another one")
            layers.append(Dense(places[f"{name}.weight"], places.get(f"{name}.bias"), rectified))
            rectified = False
        else:
            raise EngineRefusalError(
                f"the layer {name} is a {type(part).__name__}, which has no hand-written gradient here"
            )
    if not layers or rectified:
        raise EngineRefusalError("the last layer is not linear")
    return layers


def _check_points(task: TrainingTask, module: nn.Sequential) -> None:
    """Refuse inputs that are no vectors, and modules that stand in two places."""
    features = task.data.features
    if not features.is_floating_point():
        raise EngineRefusalError(f"the points are tokens ({features.dtype}), not vectors")
    if features.dim() != 2 and (len(module) == 0 or type(module[0]) is not nn.Flatten):
        raise EngineRefusalError(f"the points have the shape {tuple(features.shape[1:])} and are not flattened first")
    if len(list(module.named_children())) != len(module):
        raise EngineRefusalError("a layer stands in two places of the model")
    if any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in module.modules()):  # noqa: SLF001  torch has no other way to ask
        raise EngineRefusalError("a layer has a hook, which only a call of it would run")
