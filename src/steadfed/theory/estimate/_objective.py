"""F = (1/R) Σ_r F_r as a function of a flat row: values, gradients of groups of points, products with the Hessian."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from steadfed._core.arrays import Indices
from steadfed._core.ranges import check_whole
from steadfed._core.rng import stream
from steadfed.data._base import Dataset
from steadfed.errors import DataError, ParameterError
from steadfed.models._base import Architecture
from steadfed.models._layout import Layout
from steadfed.models._losses import Loss
from steadfed.partitions._base import Shares

Tensors = dict[str, Tensor]

POINTS_AT_ONCE = 512
"""How many points go through the model together."""
NUMBERS_AT_ONCE = 2**22
"""How many numbers a matrix of gradients may have."""


@dataclass(frozen=True, eq=False)
class Point:
    """A model to look at, and what to call it."""

    where: str
    """Such as "round 40"."""
    model: Float[Tensor, " d"]
    buffers: Float[Tensor, " m"] | None = None
    """Its running statistics, if it has any."""


@dataclass(frozen=True, eq=False)
class Objective:
    r"""F = (1/R) Σ_r F_r, where F_r is the mean loss over the points of client r plus (ℓ/2)‖x‖².

    Every client counts the same, however many points it holds, as in the paper. Everything is computed in double
    precision and in evaluation mode: dropout is off, and batch-norm layers use the running statistics they are given,
    frozen, so that F is one differentiable function of x.

    >>> x = torch.tensor([[1.0], [3.0], [8.0]])
    >>> data = Dataset(name="x", features=x, labels=x, test_features=x, test_labels=x)
    >>> from steadfed.models import Quadratic
    >>> objective = Objective.of(Quadratic(), data, Shares(np.arange(3), np.array([0, 2, 3])))
    >>> value, gradient = objective.at(torch.zeros(1)).mean_loss_and_gradient()
    >>> value, gradient.tolist()  # ½(½(1 + 9)/2 + ½ 64) and −½(2 + 8)
    (17.25, [-5.0])
    """

    module: nn.Module
    layout: Layout
    loss: Loss
    l2: float
    dataset: Dataset
    shares: Shares
    pooled: Shares
    """The points over which F and its derivatives are formed: all, or fewer to save time."""
    vectorised: bool
    """Whether the gradients of many single points can be formed together; else one after the other."""
    vectorised_groups: bool
    """Whether those of many groups of several points can, which some networks make slow."""
    points_at_once: int = POINTS_AT_ONCE
    """How many points go through the model together; bounds memory, changes results by rounding only."""
    numbers_at_once: int = NUMBERS_AT_ONCE
    """How many numbers a matrix of gradients may have; one gradient is formed in any case."""

    @classmethod
    def of(
        cls,
        architecture: Architecture,
        dataset: Dataset,
        shares: Shares,
        *,
        points_at_once: int = POINTS_AT_ONCE,
        numbers_at_once: int = NUMBERS_AT_ONCE,
    ) -> Objective:
        """Return the objective of a model whose data are dealt out in these shares.

        Raises:
            DataError: the model does not fit the data, or the shares are those of another data set.
        """
        if shares.order.min() < 0 or shares.order.max() >= len(dataset.features):
            have = f"{dataset.name} has {len(dataset.features)} training points"
            raise DataError(
                f"shares must name points of the data set: {have}, the shares name point {shares.order.max()}"
            )
        module = architecture.build(dataset, seed=0).to(dataset.features.device, torch.float64).eval()
        alone = cls(
            module,
            Layout.of(module),
            architecture.loss(),
            architecture.l2,
            dataset,
            shares,
            shares,
            vectorised=False,
            vectorised_groups=False,
            points_at_once=check_whole("points_at_once", points_at_once),
            numbers_at_once=check_whole("numbers_at_once", numbers_at_once),
        )
        single, several = alone._can_be_vectorised(1), alone._can_be_vectorised(2)
        return replace(alone, vectorised=single, vectorised_groups=several)

    @property
    def dim(self) -> int:
        """d, the number of parameters."""
        return self.layout.dim

    def at(self, model: Any, buffers: Any = None) -> Located:
        """Return the objective at a model, a row of d numbers; models with buffers need these too.

        Raises:
            ParameterError: the row has another length, or holds NaN or Inf.
        """
        device = self.dataset.features.device
        x = _row("model", model, self.dim).to(device)
        own = _row("buffers", torch.empty(0) if buffers is None else buffers, self.layout.buffer_dim).to(device)
        return Located(self, x, self.layout.parameter_views(x), self.layout.buffer_views(own))

    def batch(self, points: Int[Tensor, "..."]) -> tuple[Tensor, Tensor]:
        """Return the features and labels of points, floats as doubles."""
        features, labels = self.dataset.features[points], self.dataset.labels[points]
        return (
            features.double() if features.is_floating_point() else features,
            labels.double() if labels.is_floating_point() else labels,
        )

    def mean_loss(self, parameters: Tensors, buffers: Tensors, features: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        return self.loss.mean(functional_call(self.module, (parameters, buffers), (features,)), labels)

    def weighted_batches(self) -> Iterator[tuple[float, Int[Tensor, " b"]]]:
        """Yield all points in batches of one weight: F is the sum of weight · mean loss of the batch.

        The points of clients that hold equally many, n, weigh the same, 1/(R n), so they may share batches.
        """
        sizes = self.pooled.sizes
        for size, clients in by_size(np.arange(self.pooled.num_clients), sizes):
            points = _points(self.pooled, clients, size).reshape(-1)
            for part in torch.split(points, self.points_at_once):
                yield len(part) / (size * len(sizes)), part

    def points_of(self, clients: Indices, size: int) -> Int[Tensor, "c n"]:
        """Return the points of clients that hold `size` each, one row per client."""
        return _points(self.shares, clients, size)

    def pool(self, number: int, seed: int = 0) -> Objective:
        """Return the objective with F and its derivatives formed over at most so many points, drawn at random.

        Every client keeps ⌊number / R⌋ of its points; if there are more clients than that, so many clients keep one
        point each. Either way F, ∇F and products with ∇²F are unbiased. The gradients of single clients are not
        changed.
        """
        wanted = check_whole("number", number)
        shares, generator = self.shares, stream(seed, "estimate", "pool")
        if wanted >= len(shares.order):
            return replace(self, pooled=shares)
        owners = np.repeat(np.arange(shares.num_clients), shares.sizes)
        shuffled = np.lexsort((generator.random(len(owners)), owners))
        places = np.arange(len(owners)) - np.repeat(shares.offsets[:-1], shares.sizes)
        kept = places < max(1, wanted // shares.num_clients)
        if wanted < shares.num_clients:
            chosen = np.zeros(shares.num_clients, dtype=np.bool_)
            chosen[generator.choice(shares.num_clients, wanted, replace=False)] = True
            kept &= chosen[owners]
        sizes = np.bincount(owners[kept], minlength=shares.num_clients)
        offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        return replace(self, pooled=Shares(shares.order[shuffled[kept]], offsets))

    def gradients_at_once(self, size: int = 1) -> int:
        """Return how many groups of `size` points may have their gradients formed together."""
        return max(1, min(self.points_at_once // size, self.numbers_at_once // self.dim))

    def _can_be_vectorised(self, size: int) -> bool:
        """Try two groups of `size` points; whatever goes wrong, or warns that it is slow, means no."""
        every = replace(self, vectorised=True, vectorised_groups=True)
        x = self.layout.parameters_of(self.module, torch.float64)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                located = every.at(x, self.layout.buffers_of(self.module, torch.float64))
                located.group_gradients(torch.from_numpy(self.shares.order[:1]).repeat(2, size))
        except Exception:  # noqa: BLE001  whatever a module does that vmap cannot take
            return False
        return True


@dataclass(frozen=True, eq=False)
class Located:
    """The objective at one model x."""

    objective: Objective
    x: Float[Tensor, " d"]
    parameters: Tensors
    buffers: Tensors

    def value_and_gradient(self) -> tuple[float, Float[Tensor, " d"]]:
        """Return F(x) and ∇F(x), over all clients, or over the pool.

        Raises:
            DataError: they are not finite.
        """
        value, gradient = self.mean_loss_and_gradient()
        l2 = self.objective.l2
        return value + 0.5 * l2 * float(self.x @ self.x), gradient + l2 * self.x

    def mean_loss_and_gradient(self) -> tuple[float, Float[Tensor, " d"]]:
        """Return F(x) and ∇F(x) without the term (ℓ/2)‖x‖².

        Raises:
            DataError: they are not finite.
        """
        value, total = 0.0, torch.zeros_like(self.x)
        for weight, points in self.objective.weighted_batches():
            row = self.x.clone().requires_grad_()
            loss = self._loss(row, points)
            total.add_(torch.autograd.grad(loss, row)[0], alpha=weight)
            value += weight * float(loss.detach())
        if not (np.isfinite(value) and bool(total.isfinite().all())):
            raise DataError(
                f"the loss or its gradient is not finite at this model, whose norm is {float(self.x.norm()):.6g}"
            )
        return value, total

    def hessian_product(self, v: Float[Tensor, " d"]) -> Float[Tensor, " d"]:
        """Return ∇²F(x) v, over all clients, or over the pool, by differentiating ⟨∇F, v⟩."""
        total = self.objective.l2 * v
        for weight, points in self.objective.weighted_batches():
            row = self.x.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self._loss(row, points), row, create_graph=True)
            if gradient.requires_grad:  # else the loss is linear
                (product,) = torch.autograd.grad(gradient @ v, row, materialize_grads=True)
                total.add_(product, alpha=weight)
        return total

    @torch.no_grad()
    def group_gradients(self, points: Int[Tensor, "g n"]) -> Float[Tensor, "g d"]:
        """Return the gradient of the mean loss of each of g groups of n points, without the l2 term."""
        features, labels = self.objective.batch(points)
        one = grad(self._mean_loss)
        single = points.shape[1] == 1
        if self.objective.vectorised if single else self.objective.vectorised_groups:
            found = vmap(one, in_dims=(None, 0, 0))(self.parameters, features, labels)
        else:
            each = [one(self.parameters, *pair) for pair in zip(features, labels, strict=True)]
            found = {name: torch.stack([gradients[name] for gradients in each]) for name in self.parameters}
        rows = self.x.new_empty(len(points), len(self.x))
        for name, view in self.objective.layout.parameter_views(rows).items():
            view.copy_(found[name])
        return rows

    def client_gradients(self, clients: Indices, size: int) -> Float[Tensor, "c d"]:
        """Return ∇F_r(x), without the l2 term, of clients that hold `size` points each."""
        points = self.objective.points_of(clients, size)
        if size <= self.objective.points_at_once:
            return self.group_gradients(points)
        total = self.x.new_zeros(len(clients), len(self.x))
        for part in torch.split(points.T, self.objective.points_at_once):
            total.add_(self.group_gradients(part.T), alpha=len(part) / size)
        return total

    def _loss(self, row: Tensor, points: Tensor) -> Tensor:
        parameters = self.objective.layout.parameter_views(row)
        return self.objective.mean_loss(parameters, self.buffers, *self.objective.batch(points))

    def _mean_loss(self, parameters: Tensors, features: Tensor, labels: Tensor) -> Tensor:
        return self.objective.mean_loss(parameters, self.buffers, features, labels)


def _points(shares: Shares, clients: Indices, size: int) -> Int[Tensor, "c n"]:
    places = shares.offsets[clients][:, None] + np.arange(size)
    return torch.from_numpy(shares.order[places])


def by_size(clients: Indices, sizes: Indices) -> Iterator[tuple[int, Indices]]:
    """Yield every size with the clients that hold so many points, given sizes[i] of clients[i]."""
    order = np.argsort(sizes, kind="stable")
    found, starts = np.unique(sizes[order], return_index=True)
    yield from zip(found.tolist(), np.split(clients[order], starts[1:]), strict=True)


def _row(name: str, values: Any, length: int) -> Tensor:
    row = torch.as_tensor(values).detach().double()
    if tuple(row.shape) != (length,):
        raise ParameterError(
            f"{name} must be a row of {length} numbers, as the model has, got shape {tuple(row.shape)}"
        )
    bad = int((~row.isfinite()).sum())
    if bad:
        raise ParameterError(f"{name} must be finite numbers, {bad} of {length} are NaN or Inf")
    return row
