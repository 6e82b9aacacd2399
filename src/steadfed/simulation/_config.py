"""A run before it runs: every choice in one value object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from steadfed._core.values import ValueObject, real_number, whole_number
from steadfed.aggregators import RULES, Aggregator, Rage
from steadfed.attacks import ATTACKS, Attack, FractionMembers, Honest, Knowledge, Membership
from steadfed.data import DataSource, Digits
from steadfed.metrics import Task, checked_metrics
from steadfed.models import Architecture, MultilayerPerceptron
from steadfed.partitions import DirichletPartition, Partition
from steadfed.simulation._cohorts import Cohorts, UniformCohorts
from steadfed.simulation._compression import Compression, NoCompression
from steadfed.simulation._local import LocalSteps, Number, Share
from steadfed.simulation._measuring import is_measured
from steadfed.simulation._schedules import ConstantSchedule, Schedule
from steadfed.simulation._step_schedules import StepSchedule, StepsOfRounds, rounds_of_total, step_schedule

Weight = Annotated[float, Field(gt=0.0, lt=float("inf")), BeforeValidator(real_number)]
"""How much a client counts."""


class ClientOptions(ValueObject):
    """What honest clients do beyond the paper; all off by default."""

    momentum: Share = 0.0
    """β of the clients: m ← β m + g. A client keeps its m from one of its rounds to the next."""
    weight_decay: Annotated[float, Field(ge=0.0), BeforeValidator(real_number)] = 0.0
    """Added to every gradient, times the parameters; not part of the objective, unlike the model's l2."""
    clip: Annotated[float, Field(gt=0.0), BeforeValidator(real_number)] | None = None
    """Longest gradient that an honest client steps along; longer ones are shortened to it."""
    erasure_rate: Share = 0.0
    """How likely a sampled client is to send nothing; the cohort is then smaller."""


class ServerOptions(ValueObject):
    """What the server does and has beyond the paper; all off by default."""

    momentum: Share = 0.0
    """β of the server: v ← β v + ĝ and x ← x − η v."""
    trusted_points: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 0
    """How many training points the server keeps for itself, for rules that need an update or a loss it trusts."""


class Evaluation(ValueObject):
    """When and on how many points the model is looked at."""

    every: Number = 1
    """After every so many rounds, and always after the last."""
    train_points: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] | Literal["all"] = 2_000
    """On at most so many of the clients' points, evenly spread; "all" for every one."""
    test_points: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] | Literal["all"] = "all"
    """On at most so many of the test points."""
    client_scores: Number | Literal["all"] | None = None
    """For how many clients, evenly spread, it is looked at besides how good the model is for each of them."""
    client_metric: str | None = None
    """By which metric; if not given, accuracy or, of numbers, mae."""
    measured_rounds: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 10
    """In so many rounds, evenly spread and the first among them, what the theorems speak of is measured, and the model
    the round starts from is kept, for `steadfed certify`; 0 for none."""


class RunConfig(ValueObject):
    """Algorithm 1 with everything it leaves open: who holds which data, which model, which rule, who is Byzantine.

    >>> RunConfig(rounds=10, local_steps=5).total_steps
    50
    >>> RunConfig(total_steps=50, local_steps=5) == RunConfig(rounds=10, local_steps=5)
    True
    """

    seed: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] = 0
    """The root of everything random."""
    rounds: Number = 100
    """T/H, how often the clients and the server synchronise; or give total_steps, T, where a round ends."""
    cohort_size: Number = 40
    """K, how many clients take part in a round."""
    local_steps: StepsOfRounds = 5
    """H, how many steps of SGD a client takes in a round; or a list, one number per round, from the beginning after the
    last; or drawn for every round, such as { name = "uniform", lowest = 1, highest = 8 }."""
    batch_size: Number | Literal["full"] = 32
    """b, how many of its points a client draws for a step, without replacement; all if it has fewer, or "full"."""
    lr: Annotated[float, Field(gt=0.0), BeforeValidator(real_number)] = 0.1
    """η, the step size."""
    data: InstanceOf[DataSource] = Digits()
    """The points."""
    partition: InstanceOf[Partition] = DirichletPartition(num_clients=100, alpha=0.5)
    """Who holds which of them."""
    model: InstanceOf[Architecture] = MultilayerPerceptron(hidden=(64,))
    """What is trained."""
    rule: Annotated[InstanceOf[Aggregator], BeforeValidator(RULES.of)] = Rage(byzantine_fraction=0.25)
    """How the server aggregates; it knows the assumed bound, never who is Byzantine. One of your own has no name: give
    import = "module:function" (or class) in its place, and its arguments beside it; in Python the function itself."""
    site_weights: Literal["sizes"] | tuple[Weight, ...] | Mapping[str, Weight] | None = None
    """How much each client counts, for rules that can weigh: "sizes", by the number of its points; a list with a number
    for each; or a table of numbers by client. All alike if not given. The server knows them, no client says them."""
    max_share: Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)] | None = None
    """Which share of the weight of a cohort one client holds at the most; what heavier ones lose, the others gain."""
    byzantine: InstanceOf[Membership] = FractionMembers(fraction=0.0)
    """Who is Byzantine."""
    attack: Annotated[InstanceOf[Attack], BeforeValidator(ATTACKS.of)] = Honest()
    """What the Byzantine clients do. One of your own: import = "module:function" in place of the name."""
    adversary_knows: tuple[Literal["own", "honest", "rule"], ...] = ("own", "honest", "rule")
    """What the adversary may look at: its own clients' honest updates, those of the others, the server's rule."""
    cohorts: InstanceOf[Cohorts] = UniformCohorts()
    """How a cohort is chosen."""
    schedule: InstanceOf[Schedule] = ConstantSchedule()
    """How the step size changes over the rounds."""
    compression: InstanceOf[Compression] = NoCompression()
    """What of its update a client sends."""
    client: ClientOptions = ClientOptions()
    server: ServerOptions = ServerOptions()
    evaluation: Evaluation = Evaluation()
    task: Task | None = None
    """What the model is for, which metrics depend on: "classification" or "regression"; if not given, what the outputs
    of the model and the labels of the data say."""
    metrics: Annotated[tuple[str, ...], BeforeValidator(checked_metrics)] = ()
    """What is looked at beside accuracy and loss on the test points, such as ["balanced_accuracy", "auroc"], ["r2"], or
    "our.metrics:function" for one's own; "usual" stands for what suits the task."""
    dtype: Literal["float32", "float64"] = "float32"
    """Of the model, the data and the updates."""
    device: str = "cpu"
    """Where the clients' steps and the aggregation are computed: cpu, cuda, cuda:1, …"""
    engine: Literal["auto", "stacked", "vmap", "loop"] = "auto"
    """How the local steps are computed; auto chooses by the model."""
    checkpoint_every: Number = 1
    """A checkpoint after every so many rounds; a crash loses the rounds after the last, which are computed again."""

    @model_validator(mode="after")
    def _shares_of_something(self) -> RunConfig:
        if self.max_share is not None and self.site_weights is None:
            raise ValueError(f"max_share caps site_weights, which are not given; got max_share={self.max_share!r}")
        return self

    @model_validator(mode="before")
    @classmethod
    def _rounds_from_total_steps(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "total_steps" not in values:
            return values
        rest = {key: value for key, value in values.items() if key != "total_steps"}
        steps, total = rest.get("local_steps", cls.model_fields["local_steps"].default), values["total_steps"]
        if "rounds" in rest:
            raise ValueError(f"give one of rounds and total_steps, got {rest['rounds']!r} and {total!r}")
        return {**rest, "rounds": rounds_of_total(total, steps)}

    @property
    def total_steps(self) -> int:
        """T, how many local steps are taken in all."""
        return self.steps_until(self.rounds)

    @property
    def step_schedule(self) -> StepSchedule:
        """The number of local steps of every round; H is the largest of them."""
        return step_schedule(self.local_steps)

    def steps_of(self, round: int) -> int:
        """Return how many local steps each client takes in a round: t_{k+1} − t_k.

        >>> [RunConfig(local_steps=[1, 4, 2]).steps_of(round) for round in range(4)]
        [1, 4, 2, 1]
        """
        return int(self.step_schedule.gaps(round, 1, self.seed)[0])

    def steps_until(self, round: int) -> int:
        """Return the synchronisation index t_k at which a round begins: how many steps were taken before it."""
        return self.step_schedule.taken(round, self.seed)

    def local(self) -> LocalSteps:
        """Return what a client does in a round."""
        options = self.client.model_dump(exclude={"erasure_rate"})
        return LocalSteps(steps=self.step_schedule.most, batch_size=self.batch_size, **options)

    def granted(self) -> frozenset[Knowledge]:
        """Return what the adversary may know."""
        return frozenset(Knowledge[word.upper()] for word in self.adversary_knows)

    def lr_of(self, round: int) -> float:
        """Return η of a round."""
        return self.lr * self.schedule.factor(round, self.rounds)

    def measures(self, round: int) -> bool:
        """Return whether a round is measured, and the model it starts from is kept."""
        return is_measured(round, self.rounds, self.evaluation.measured_rounds)
