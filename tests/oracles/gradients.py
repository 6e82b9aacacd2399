"""Gradients by the definitions: one point after the other, one client after the other, dense Hessians."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from steadfed.data._base import Dataset
from steadfed.models import Architecture
from steadfed.models._layout import Layout
from steadfed.partitions import Shares


def point_gradients(
    model: Architecture, dataset: Dataset, x: Tensor, buffers: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return value and gradient of the objective at x for every single point, in double precision."""
    module = model.build(dataset, seed=0).double().eval()
    layout = Layout.of(module)
    if buffers is not None:
        layout.load(module, x, buffers)
    values, rows = [], []
    for i in range(len(dataset.features)):
        row = x.double().clone().requires_grad_()
        loss = _objective(model, module, layout, row, dataset, np.array([i]))
        rows.append(torch.autograd.grad(loss, row)[0])
        values.append(loss.detach())
    return torch.stack(values), torch.stack(rows)


def measured(
    model: Architecture, dataset: Dataset, shares: Shares, w: NDArray[np.float64]
) -> tuple[float, Tensor, float, float]:
    """Return F, its gradient, the largest variance and the largest dissimilarity at w."""
    values, rows = point_gradients(model, dataset, torch.from_numpy(w))
    value = float(np.mean([float(values[shares.points(r)].mean()) for r in range(shares.num_clients)]))
    means, variances, apart = client_statistics(rows, shares)
    return value, means.mean(0), float(variances.max()), float(apart.max())


def client_statistics(rows: Tensor, shares: Shares) -> tuple[Tensor, Tensor, Tensor]:
    """Return of every client the mean of its points' rows, their variance about it and its square distance to all."""
    owned = [rows[shares.points(r)] for r in range(shares.num_clients)]
    means = torch.stack([own.mean(0) for own in owned])
    variances = torch.stack([(own - own.mean(0)).square().sum(1).mean() for own in owned])
    return means, variances, (means - means.mean(0)).square().sum(1)


def hessian(model: Architecture, dataset: Dataset, shares: Shares, x: Tensor, buffers: Tensor | None = None) -> Tensor:
    """Return the d × d matrix of second derivatives of F at x."""
    module = model.build(dataset, seed=0).double().eval()
    layout = Layout.of(module)
    if buffers is not None:
        layout.load(module, x, buffers)

    def value(row: Tensor) -> Tensor:
        own = [_objective(model, module, layout, row, dataset, shares.points(r)) for r in range(shares.num_clients)]
        return torch.stack(own).mean()

    found = torch.autograd.functional.hessian(value, x.double())  # type: ignore[no-untyped-call]
    assert isinstance(found, Tensor)
    return found


def _objective(
    model: Architecture,
    module: torch.nn.Module,
    layout: Layout,
    row: Tensor,
    dataset: Dataset,
    points: NDArray[np.int64],
) -> Tensor:
    features, labels = dataset.features[points], dataset.labels[points]
    if features.is_floating_point():
        features = features.double()
    labels = labels.double() if labels.is_floating_point() else labels
    outputs = functional_call(module, layout.parameter_views(row), (features,))
    return model.loss().mean(outputs, labels) + 0.5 * model.l2 * row.square().sum()
