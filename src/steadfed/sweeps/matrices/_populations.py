r"""Populations without training: honest updates of a known model, an attack on them, and the truth about the outcome.

A population is what K clients would send if all were honest. An attack replaces the rows of f of them. An attacked
population is the matrix that reaches the server, forged rows first, with what only an onlooker knows: the honest mean,
the honest spread σ₀ = √λ_max(Cov of the honest rows), and hence the error of an update in units of σ₀ √ε, ε = f / K.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.lookup import find
from steadfed._core.recorded import recorded_array
from steadfed._core.rng import stream
from steadfed.aggregators import Aggregation, Aggregator, Need, ServerView
from steadfed.attacks import AdversaryView, Attack
from steadfed.attacks._geometry import Shape, honest_shape
from steadfed.errors import ParameterError

Rows = NDArray[np.float64]
Model = Callable[[np.random.Generator, int, int], Rows]
"""(generator, number of rows, dimension) → honest rows."""

OFFSET = 3.0
"""Length of the mean that all honest rows have in common, in standard deviations of a coordinate."""
RECORDED = "file:"
"""What a model's name begins with if its rows are in a file."""
SERVER_KNOWS = frozenset({Need.MODEL, Need.TRUSTED_ROW, Need.TRUSTED_LOSS})
"""What the server of a population can tell a rule besides the rows."""
SECRET = 1
"""What the server's sketches are keyed by, so that a matrix gives the same result again; the adversary guesses 0."""
NUM_TRUSTED = 5
"""The server's own update, for rules that trust one, is the mean of this many further honest rows."""


@dataclass(frozen=True, eq=False)
class Population:
    """What the clients of one round would send if all were honest, and what is true of it."""

    rows: Float[Tensor, "K d"]
    """The first f become Byzantine; the others are the honest rows of the attacked population."""
    num_byzantine: int
    trusted_row: Float[Tensor, " d"]
    shape: Shape
    """Mean, spread and radius of the honest rows."""

    @property
    def honest(self) -> Float[Tensor, "n d"]:
        """The rows of the clients that stay honest."""
        return self.rows[self.num_byzantine :]

    def server_view(self) -> ServerView:
        """Return what the server knows: its own trusted update, and a loss with that gradient at the model 0."""
        trusted = self.trusted_row.double()

        def loss(model: Tensor) -> float:
            return float(trusted @ model.double() + 0.5 * model.double().square().sum())

        origin = torch.zeros_like(self.trusted_row)
        return ServerView(model=origin, trusted_row=self.trusted_row, trusted_loss=loss, secret=SECRET)


@dataclass(frozen=True, eq=False)
class AttackedPopulation:
    """A matrix of updates and the truth about it."""

    updates: Float[Tensor, "K d"]
    """Forged rows first; those of silent clients are missing."""
    num_forged: int
    """How many rows are forged."""
    population: Population

    @property
    def epsilon(self) -> float:
        """The share of Byzantine clients, silent ones among them."""
        return self.population.num_byzantine / len(self.population.rows)

    def aggregate(self, rule: Aggregator) -> Aggregation:
        """Let a rule aggregate the matrix, told all that a server may know."""
        return rule(self.updates, self.population.server_view())

    def error(self, update: Float[Tensor, " d"]) -> float:
        """Return ‖update − honest mean‖ in units of σ₀ √ε (of σ₀ if nobody is Byzantine)."""
        return self._distance(update) / (self.population.shape.sigma0 * (np.sqrt(self.epsilon) or 1.0))

    def trace_coefficient(self, update: Float[Tensor, " d"]) -> float:
        """Return ‖update − honest mean‖² over the trace of the covariance of the honest rows."""
        return self._distance(update) ** 2 / self.population.shape.trace

    def honest_weight_lost(self, weights: Float[Tensor, " K"]) -> float:
        """Return the share of their weight that honest rows lost, relative to the best-kept row; 0 for a plain mean."""
        relative = weights / (weights.max() or 1.0)
        return float(1.0 - relative[self.num_forged :].mean())

    def byzantine_weight(self, weights: Float[Tensor, " K"]) -> float:
        """Return the share of the update that comes from forged rows."""
        return float(weights[: self.num_forged].sum())

    def _distance(self, update: Float[Tensor, " d"]) -> float:
        return float(torch.linalg.vector_norm(update.double() - self.population.shape.mean.double()))


def population(model: str, *, cohort_size: int, dim: int, num_byzantine: int, seed: int = 0) -> Population:
    """Return the rows of `cohort_size` clients, as float32: of a model about a common mean, or recorded ones.

    Recorded rows ("file:updates.npy") are drawn without replacement, and of more than `dim` columns every so manieth
    is taken.
    """
    if not 0 <= num_byzantine < cohort_size:
        raise ParameterError(
            f"num_byzantine must lie in 0 .. {cohort_size - 1} for {cohort_size} updates, got {num_byzantine}"
        )
    rng = stream(seed, "population", model, cohort_size, dim)
    number = NUM_TRUSTED + cohort_size
    if model.startswith(RECORDED):
        rows = _draw_recorded(recorded_rows(model), rng, number, dim)
    else:
        rows = find("population", model, POPULATIONS)(rng, number, dim)
        offset = rng.standard_normal(dim)
        rows += OFFSET * offset / np.linalg.norm(offset)
    everyone = torch.from_numpy(rows.astype(np.float32))
    sent = everyone[NUM_TRUSTED:]
    return Population(sent, num_byzantine, everyone[:NUM_TRUSTED].mean(0), honest_shape(sent[num_byzantine:]))


def check_population(model: str) -> None:
    """Raise an error of the tree unless `model` is a known name or a file of recorded updates."""
    if model.startswith(RECORDED):
        recorded_rows(model)
    else:
        find("population", model, POPULATIONS)


def recorded_rows(model: str) -> NDArray[np.floating]:
    """Return the matrix of "file:PATH", one recorded honest update per row, where it lies on disk."""
    path = model.removeprefix(RECORDED)
    rows = recorded_array(Path(path), "matrix of honest updates")
    if rows.ndim != 2 or rows.dtype.kind != "f":
        raise ParameterError(
            f"{path!r} must hold a matrix of floats, one honest update per row; got {rows.shape} of {rows.dtype}"
        )
    return np.asarray(rows)


def _draw_recorded(recorded: NDArray[np.floating], rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Return `number` different rows, and `dim` columns evenly spread over all."""
    if len(recorded) < number or recorded.shape[1] < dim:
        raise ParameterError(
            f"needs {number} recorded updates ({NUM_TRUSTED} of them for the server) of at least {dim} columns, the "
            f"file has {len(recorded)} x {recorded.shape[1]}; ask for a smaller cohort or dimension, or record more"
        )
    columns = np.linspace(0, recorded.shape[1] - 1, dim).round().astype(int)
    return np.asarray(recorded[rng.permutation(len(recorded))[:number]][:, columns], dtype=np.float64)


def under_attack(
    people: Population, attack: Attack, rule: Aggregator | None = None, seed: int = 0
) -> AttackedPopulation:
    """Return the matrix after an attack whose adversary sees everything: the honest rows and, if given, the rule."""
    view = AdversaryView(
        num_byzantine=people.num_byzantine,
        cohort_size=len(people.rows),
        own_rows=people.rows[: people.num_byzantine],
        honest_rows=people.honest,
        server_rule=rule,
        server_view=replace(people.server_view(), secret=0),
        seed=seed,
    )
    sent = attack(view).sent
    return AttackedPopulation(torch.cat([sent, people.honest]), len(sent), people)


def attacked_population(
    model: str, attack: Attack, *, cohort_size: int, dim: int, num_byzantine: int, seed: int = 0
) -> AttackedPopulation:
    """Return honest rows of `model` with the forged rows of `attack` in front of them.

    >>> from steadfed.attacks import Cluster
    >>> attacked_population("iso", Cluster(strength=5.0), cohort_size=10, dim=4, num_byzantine=2).updates.shape
    torch.Size([10, 4])
    """
    people = population(model, cohort_size=cohort_size, dim=dim, num_byzantine=num_byzantine, seed=seed)
    return under_attack(people, attack, seed=seed)


def _iso(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """The same spread in every direction."""
    return rng.standard_normal((number, dim))


def _power(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Spread that falls like 1/√j over the coordinates, as gradients of neural networks have."""
    return rng.standard_normal((number, dim)) / np.sqrt(np.arange(1, dim + 1))


def _clusters(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Four groups of clients, as far apart as their noise is wide."""
    centres = rng.standard_normal((4, dim))
    return rng.standard_normal((number, dim)) + centres[rng.integers(4, size=number)]


def _heavy(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Student's t with three degrees of freedom: the rows' lengths are heavy-tailed."""
    return rng.standard_normal((number, dim)) * np.sqrt(3.0 / rng.chisquare(3, (number, 1)))


def _rare(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """One client in twenty, the last ones, holds other data than the rest."""
    rows = rng.standard_normal((number, dim))
    other = rng.standard_normal(dim)
    rows[-max(1, number // 20) :] += 3.0 * np.sqrt(dim) * other / np.linalg.norm(other)
    return rows


def _idle(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Five clients in nine send the very same row, as those do that have nothing to learn from."""
    rows = rng.standard_normal((number, dim))
    rows[_at_rest(number)] = 0.0
    return rows


def _converged(rng: np.random.Generator, number: int, dim: int) -> Rows:
    """Five clients in nine have come to rest and differ by a thousandth of what the others differ by."""
    rows = rng.standard_normal((number, dim))
    rows[_at_rest(number)] *= 1e-3
    return rows


def _at_rest(number: int) -> NDArray[np.bool_]:
    """Tell who is at rest: five of any nine clients in a row, so that it is the same share whoever is Byzantine."""
    return np.asarray(np.arange(number) % 9 % 2 == 0)


SPREAD_OUT: Mapping[str, Model] = MappingProxyType(
    {"iso": _iso, "power": _power, "clusters": _clusters, "heavy": _heavy, "rare": _rare}
)
"""Models in which all clients differ: those of the full table."""
AT_REST: Mapping[str, Model] = MappingProxyType({"idle": _idle, "converged": _converged})
"""Models in which more than half of the clients agree, where a filter may take the others for Byzantine."""
POPULATIONS: Mapping[str, Model] = MappingProxyType({**SPREAD_OUT, **AT_REST})
