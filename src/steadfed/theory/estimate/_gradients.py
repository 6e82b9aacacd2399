"""How gradients differ at a model: σ² between the points of a client, κ² between clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from steadfed._core.arrays import Indices, Vector
from steadfed._core.ranges import check_whole
from steadfed._core.rng import stream, stream_keys, stream_words
from steadfed._linalg.threads import one_torch_thread
from steadfed.errors import ParameterError
from steadfed.partitions._base import Shares
from steadfed.theory.estimate._estimates import ClientSample, Measurement
from steadfed.theory.estimate._objective import Located, Objective, by_size

Clients = Indices | Sequence[int] | int | Literal["all"]
Samples = int | Literal["all"]


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientStatistics:
    """What theorems ask of the gradients at one model x, with every client of equal weight."""

    where: str
    """At which model."""
    value: float
    """F(x), over all clients, or over the pool of the objective."""
    gradient: Float[Tensor, " d"]
    """∇F(x), likewise."""
    gradient_error: float
    """The standard error of ∇F(x), as a length: that of a pool; 0 if it is formed over all points."""
    clients: Indices
    """The clients that were looked at, in ascending order; of each of them:"""
    dissimilarities: Vector
    """‖∇F_r(x) − ∇F(x)‖²."""
    variances: Vector
    """σ_r² = E‖∇f_i(x) − ∇F_r(x)‖² over a random point i of r."""
    variance_errors: Vector
    """The standard error of σ_r²; 0 if all points were looked at."""
    dissimilarity: Measurement
    """κ² at x, the largest ‖∇F_r(x) − ∇F(x)‖²."""
    mean_dissimilarity: Measurement
    gradient_variance: Measurement
    """σ² at x, the largest σ_r²."""
    mean_gradient_variance: Measurement

    @property
    def gradient_norm(self) -> float:
        """‖∇F(x)‖."""
        return float(self.gradient.norm())


@one_torch_thread()  # on a busy machine threads of torch wait for each other
def gradient_statistics(
    objective: Objective,
    model: Tensor,
    buffers: Tensor | None = None,
    *,
    where: str = "this point",
    clients: Clients = "all",
    samples: Samples = "all",
    seed: int = 0,
) -> GradientStatistics:
    r"""Return F, ∇F, and how gradients differ within and between clients, at a model.

    ∇F(x) is exact, over all clients (unless the objective has a pool), and so is ∇F_r(x) of every client looked at.
    The error of a pool of m points is about √((σ̄² + κ̄²)/m), with means over the clients looked at, and without κ̄² if
    every client has a point in the pool. σ_r² is the mean of
    e_i = ‖∇f_i − ∇F_r‖² over all points of r; or over m points drawn without replacement, which is unbiased, as ∇F_r is
    known, and has the standard error √((1 − m/n) s²/m) with s² the sample variance of the e_i (Cochran 1977,
    theorem 2.2).

    Args:
        objective: F.
        model: x, a row of d numbers.
        buffers: The running statistics of the model, if it has any; they are frozen.
        where: What to call the model.
        clients: All, so many drawn at random, or those with these indices.
        samples: How many points of a client to draw for σ_r²; all, or at least 2.
        seed: What is drawn depends on it, and of a client's points on the client alone.

    >>> from steadfed.data._base import Dataset
    >>> from steadfed.models import Quadratic
    >>> x = torch.tensor([[1.0], [3.0], [8.0]])
    >>> data = Dataset(name="x", features=x, labels=x, test_features=x, test_labels=x)
    >>> objective = Objective.of(Quadratic(), data, Shares(np.arange(3), np.array([0, 2, 3])))
    >>> found = gradient_statistics(objective, torch.zeros(1))
    >>> found.gradient_variance.value, found.dissimilarity.value, found.dissimilarity.note  # 1 and ((8 − 2)/2)²
    (1.0, 9.0, 'exact at this point')

    Raises:
        ParameterError: the model is not a finite row of d numbers, or there are no such clients.
        DataError: the loss or its gradient is not finite there.
    """
    located = objective.at(model, buffers)
    chosen = _choose_clients(objective.shares, clients, seed)
    number = None if samples == "all" else check_whole("samples", samples, least=2)
    loss, gradient = located.mean_loss_and_gradient()
    apart, variances, errors = _differences(located, gradient, chosen, number, seed)
    sizes = objective.shares.sizes[chosen]
    drawn = None if number is None or number >= sizes.max() else number
    counts = {"num_looked_at": len(chosen), "num_clients": objective.shares.num_clients}
    fully = ClientSample(**counts, random=isinstance(clients, (int, np.integer)))
    partly = ClientSample(**counts, random=fully.random, samples=drawn)
    nothing = np.zeros(len(chosen))
    between = float(apart.mean()) if objective.pooled.num_clients < objective.shares.num_clients else 0.0
    pooled = len(objective.pooled.order)
    drawn_all = pooled == len(objective.shares.order)
    return GradientStatistics(
        where=where,
        value=loss + 0.5 * objective.l2 * float(located.x @ located.x),
        gradient=gradient + objective.l2 * located.x,
        gradient_error=0.0 if drawn_all else float(np.sqrt((variances.mean() + between) / pooled)),
        clients=chosen,
        dissimilarities=apart,
        variances=variances,
        variance_errors=errors,
        dissimilarity=fully.largest(apart, nothing),
        mean_dissimilarity=fully.mean(apart, nothing),
        gradient_variance=partly.largest(variances, errors),
        mean_gradient_variance=partly.mean(variances, errors),
    )


def _differences(
    located: Located, gradient: Float[Tensor, " d"], chosen: Indices, samples: int | None, seed: int
) -> tuple[Vector, Vector, Vector]:
    """Return ‖∇F_r − ∇F‖², σ_r² and its standard error of every chosen client.

    Clients that hold equally many points are taken together, as many as memory allows.
    """
    objective = located.objective
    apart, variances, errors = np.zeros((3, len(chosen)))
    sizes = objective.shares.sizes[chosen]
    for size, places in by_size(np.arange(len(chosen)), sizes):
        together = objective.gradients_at_once(size)
        for start in range(0, len(places), together):
            part = places[start : start + together]
            own = located.client_gradients(chosen[part], size)
            apart[part] = (own - gradient).square().sum(1).cpu().numpy()
            if size > 1:
                points = _drawn_points(objective, chosen[part], size, samples, seed)
                variances[part], errors[part] = _variances(_residuals(located, points, own), size)
    return apart, variances, errors


def _variances(squares: Float[Tensor, "c m"], size: int) -> tuple[Vector, Vector]:
    """Return mean and standard error of m of `size` squared distances, for every client."""
    m = squares.shape[1]
    mean = squares.mean(1).cpu().numpy()
    if m == size:
        return mean, np.zeros_like(mean)
    spread = squares.var(1).cpu().numpy()
    return mean, np.sqrt((1.0 - m / size) * spread / m)


def _residuals(located: Located, points: Int[Tensor, "c m"], gradients: Float[Tensor, "c d"]) -> Float[Tensor, "c m"]:
    """Return ‖∇f_i − ∇F_r‖² of the points of every client."""
    owners = torch.arange(len(points)).repeat_interleave(points.shape[1])
    together = located.objective.gradients_at_once()
    squares = []
    for some, own in zip(torch.split(points.reshape(-1, 1), together), torch.split(owners, together), strict=True):
        rows = located.group_gradients(some)
        rows -= gradients[own]
        squares.append(torch.linalg.vecdot(rows, rows))
    return torch.cat(squares).reshape(points.shape)


def _drawn_points(
    objective: Objective, clients: Indices, size: int, samples: int | None, seed: int
) -> Int[Tensor, "c m"]:
    """Return all points of the clients, or so many drawn without replacement."""
    points = objective.points_of(clients, size)
    if samples is None or samples >= size:
        return points
    keys = stream_keys(seed, "estimate", "points", ids=clients)
    ranks = np.argsort(stream_words(keys, size), axis=1, kind="stable")[:, :samples]
    return points.gather(1, torch.from_numpy(ranks))


def _choose_clients(shares: Shares, clients: Clients, seed: int) -> Indices:
    """Return the clients asked for, or drawn without replacement, in ascending order."""
    everybody = shares.num_clients
    if isinstance(clients, str) and clients == "all":
        return np.arange(everybody)
    if isinstance(clients, (int, np.integer)):
        number = check_whole("clients", clients, most=everybody)
        return np.sort(stream(seed, "estimate", "clients").choice(everybody, number, replace=False))
    chosen = np.unique(np.asarray(clients))
    if chosen.dtype.kind not in "iu" or len(chosen) == 0 or chosen[0] < 0 or chosen[-1] >= everybody:
        raise ParameterError(
            f'clients must be "all", how many to draw, or indices from 0 to {everybody - 1}, got {clients!r}'
        )
    return chosen.astype(np.int64)
