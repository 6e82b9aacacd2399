"""Non-convex objectives: the mean squared gradient over the rounds, against the bounds without strong convexity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
import pytest
import torch
from benchmarks.theory.cases import LOOK_AT_NOTHING, NAMED
from benchmarks.theory.engine import written_federation
from tests.theory.problems import EVERY_ATTACK, LABELS, LOCAL_STEPS, SEARCHING, Vector, assert_below, mean_and_error
from torch import Tensor, nn

from steadfed.aggregators import Aggregator, Mean, Rage
from steadfed.attacks import ATTACKS, FractionMembers
from steadfed.data import Dataset
from steadfed.data._synthetic import LogisticPoints, QuadraticPoints
from steadfed.models import Architecture, MultilayerPerceptron
from steadfed.models._losses import Loss
from steadfed.partitions import NaturalPartition
from steadfed.simulation import Federation, RunConfig
from steadfed.theory import Guarantee, Problem, Protocol, guarantees
from steadfed.theory.estimate import Objective, Point, curvature, gradient_statistics, segment


@final
class Outputs(Loss):
    """The mean of what the model puts out: the model itself is the objective."""

    def num_outputs(self, dataset: Dataset) -> int:
        return 1

    def mean(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return outputs.mean()

    def num_correct(self, outputs: Tensor, labels: Tensor) -> int | None:
        return None


@final
class Cosines(Architecture):
    """f_i(x) = Σ_j c_j (1 − cos x_j) + ⟨a_i, x⟩: curvatures from −c to c, gradients c sin x + a_i.

    If the points a_i have the mean 0, F = Σ_j c_j (1 − cos x_j), F* = 0, L = max c, and variance and dissimilarity are
    those of the points, at every x.
    """

    citation: ClassVar[str] = "this test"

    def module(self, dataset: Dataset) -> nn.Module:
        return Waves(dataset.features.shape[1])

    def loss(self) -> Loss:
        return Outputs()


class Waves(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.heights = heights(dim)
        self.point = nn.Parameter(torch.full((dim,), 2.8, dtype=torch.float64))  # 3.14 is the top of the hill

    def forward(self, points: Tensor) -> Tensor:
        waves = (self.heights.to(self.point) * (1.0 - torch.cos(self.point))).sum()
        return waves + points @ self.point


def heights(dim: int) -> Tensor:
    return torch.linspace(0.5, 2.0, dim, dtype=torch.float64)


@dataclass(frozen=True, kw_only=True)
class Hills:
    """Algorithm 1 on cosines."""

    dim: int = 6
    num_clients: int = 24
    num_points: int = 8
    cohort_size: int = 16
    num_byzantine: int = 3
    assumed: int = 3
    slack: float = 0.0
    local_steps: int = 5
    gaps: tuple[int, ...] | None = None
    batch_size: int | Literal["full"] = "full"
    step: float = 0.2
    rounds: int = 25
    attack: str = "none"
    rule: Aggregator | None = None
    seed: int = 0

    @property
    def dataset(self) -> Dataset:
        drawn = QuadraticPoints(
            num_points=self.num_clients * self.num_points,
            num_test_points=0,
            dim=self.dim,
            num_groups=self.num_clients,
            heterogeneity=0.2,
            noise=0.2,
        ).load()
        features = drawn.features.double()
        return replace(drawn, features=features - features.mean(0))

    @property
    def problem(self) -> Problem:
        points = self.dataset.features.view(self.num_clients, self.num_points, self.dim)
        centres = points.mean(1)
        return Problem(
            smoothness=2.0,
            gradient_variance=float((points - centres[:, None]).square().sum(2).mean(1).max()),
            dissimilarity=float(centres.square().sum(1).max()),
            gap=float((heights(self.dim) * (1.0 - np.cos(2.8))).sum()),
            dim=self.dim,
        )

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        protocol = Protocol(
            num_clients=self.num_clients,
            cohort_size=self.cohort_size,
            num_byzantine=self.num_byzantine,
            assumed_byzantine=self.assumed,
            slack=self.slack,
            local_steps=self.gaps or self.local_steps,
            batch_size=self.batch_size,
            num_points=self.num_points,
            lr=self.step / (2.0 * self.local_steps),
            rounds=self.rounds,
        )
        return guarantees(self.problem, protocol)

    def config(self, **changes: Any) -> RunConfig:
        base: dict[str, Any] = {
            "seed": self.seed,
            "rounds": self.rounds,
            "cohort_size": self.cohort_size,
            "local_steps": self.gaps or self.local_steps,
            "batch_size": self.batch_size,
            "lr": self.step / (2.0 * self.local_steps),
            "data": QuadraticPoints(),
            "partition": NaturalPartition(),
            "model": Cosines(),
            "rule": self.rule or Rage(num_byzantine=self.assumed),
            "byzantine": FractionMembers(fraction=self.num_byzantine / self.num_clients),
            "attack": NAMED[self.attack] if self.attack in NAMED else ATTACKS.build(self.attack),
            "evaluation": LOOK_AT_NOTHING,
            "dtype": "float64",
            "engine": "loop",
        }
        return RunConfig(**(base | changes))

    def means(self, *, written: bool = True) -> Vector:
        """Return (1/N) Σ_{k<N} ‖∇F(x_k)‖² for N = 1, …, rounds; each counted by its steps if gaps differ."""
        found, heights_ = [], heights(self.dim)
        federation = (
            written_federation(self.config(), self.dataset, lambda x, a, _: heights_ * x.sin() + a.mean(1))
            if written
            else Federation(self.config(engine="auto"), dataset=self.dataset)
        )
        with federation:
            state = federation.start()
            for _ in range(self.rounds):
                found.append(float((heights_ * state.model.sin()).square().sum()))
                state, _ = federation.play(state)
        steps = np.resize(self.gaps or (1,), self.rounds)
        means: Vector = np.cumsum(steps * np.array(found)) / np.cumsum(steps)
        return means


@pytest.mark.parametrize("steps", LOCAL_STEPS)
def test_no_attack_takes_the_mean_gradient_above_the_bound_with_full_batches(steps: int) -> None:
    for attack in EVERY_ATTACK:
        if attack in {*LABELS, *SEARCHING}:
            continue
        case = Hills(attack=attack, local_steps=steps, rounds=6)
        papers, sharp = case.guarantees
        assert papers.holds
        assert sharp.holds
        rounds = np.arange(1, case.rounds + 1)
        assert_below(case.means(), sharp.bound(rounds), attack)
        assert_below(sharp.bound(rounds), papers.bound(rounds), "the paper's")


@pytest.mark.parametrize("attack", ["none", "alie", "min-max", "sign-flip"])
def test_the_mean_gradient_stays_below_the_bounds_with_mini_batches(attack: str) -> None:
    case = Hills(batch_size=2, step=0.125, assumed=4, slack=1 / 16, attack=attack)
    papers, expected, likely = case.guarantees
    rounds, paths = np.arange(1, case.rounds + 1), [replace(case, seed=seed).means() for seed in range(5)]
    mean, error = mean_and_error(paths)
    assert_below(mean - 3 * error, expected.bound(rounds), attack)
    for path in paths:
        assert_below(path, likely.bound(rounds), attack)
        assert_below(path, papers.bound(rounds), attack)


@pytest.mark.parametrize("attack", ["none", "alie", "min-max", "sign-flip"])
@pytest.mark.parametrize("gaps", [(1, 8), (8, 1, 1, 1), (2, 7, 3, 8, 1)])
def test_the_mean_gradient_by_steps_stays_below_the_bounds_if_gaps_differ(attack: str, gaps: tuple[int, ...]) -> None:
    full = Hills(attack=attack, local_steps=8, gaps=gaps, rounds=12)
    rounds = np.arange(1, full.rounds + 1)
    papers, sharp = full.guarantees
    assert papers.holds
    assert sharp.holds
    assert_below(full.means(), sharp.bound(rounds), (attack, gaps))
    assert_below(sharp.bound(rounds), papers.bound(rounds), "the paper's")
    drawn = replace(full, batch_size=2, step=0.125, assumed=4, slack=1 / 16)
    papers, expected, likely = drawn.guarantees
    paths = [replace(drawn, seed=seed).means() for seed in range(4)]
    mean, error = mean_and_error(paths)
    assert_below(mean - 3 * error, expected.bound(rounds), attack)
    for path in paths:
        assert_below(path, likely.bound(rounds), attack)
        assert_below(path, papers.bound(rounds), attack)


def test_the_mean_gradient_under_attack_is_above_the_bound_without_a_filter() -> None:
    case = Hills(attack="gaussian", rule=Mean(), rounds=200)
    with pytest.raises(AssertionError, match="rounds"):
        assert_below(case.means(), case.guarantees[1].bound(np.arange(1, 201)), "mean")


def test_written_cosines_give_the_run_that_autograd_gives() -> None:
    case = Hills(batch_size=3, attack="alie", rounds=4)
    assert case.means() == pytest.approx(case.means(written=False), rel=1e-9)


@pytest.mark.parametrize("attack", ["none", "alie", "sign-flip"])
def test_a_small_network_stays_below_the_bound_with_constants_measured_along_its_run(attack: str) -> None:
    """L, κ², σ² and F* are measured at the models that the run met, and hold there only: no theorem, but a check."""
    source = LogisticPoints(num_points=192, num_test_points=0, dim=4, num_groups=24, heterogeneity=0.3, noise=1.0)
    dataset = replace(source.load(), features=source.load().features.double())
    case = Hills(local_steps=5, attack=attack, rounds=20)
    config = case.config(data=source, model=MultilayerPerceptron(hidden=(6,)), lr=0.01, engine="auto")
    with Federation(config, dataset=dataset) as federation:
        models = [federation.start()]
        for _ in range(config.rounds):
            models.append(federation.play(models[-1])[0])
        shares = federation.setting.client_shares
    objective = Objective.of(config.model, dataset, shares)
    met = segment(Point("the start", models[0].model), Point("the end", models[-1].model), 5)
    statistics = [gradient_statistics(objective, each.model) for each in met]
    problem = Problem(
        smoothness=max(curvature(objective, each.model).smoothness for each in met),
        gradient_variance=max(each.gradient_variance.value for each in statistics),
        dissimilarity=max(each.dissimilarity.value for each in statistics),
        gap=objective.at(models[0].model).value_and_gradient()[0],  # F* is at least 0
        dim=objective.dim,
    )
    protocol = Protocol(
        num_clients=24,
        cohort_size=16,
        num_byzantine=3,
        assumed_byzantine=3,
        local_steps=5,
        lr=0.01,
        rounds=config.rounds,
    )
    squares = [float(objective.at(each.model).value_and_gradient()[1].square().sum()) for each in models[:-1]]
    means = np.cumsum(squares) / np.arange(1, config.rounds + 1)
    for guarantee in guarantees(problem, protocol):
        assert guarantee.holds
        assert_below(means, guarantee.bound(np.arange(1, config.rounds + 1)), guarantee.source)
