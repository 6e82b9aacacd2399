"""Local steps of a cohort, and whole rounds: steadfed against a plain loop and byzfl's clients, in one run.

Run it with ``python -m benchmarks.simulator``; ``--quick`` measures fewer rounds. Every competitor takes H steps of the
same K clients from the same model, in rotating order inside a round; ratios are formed inside rounds. The plain loop
is a `torch.nn.Module`, `torch.optim.SGD` and one tensor of data, on one thread. byzfl's clients
(`Client.compute_model_update`) have one thread, too, and are measured twice, never with images to decode: with torch's
DataLoader over the client's tensors, which is what byzfl's constructor asks for and what the targets are about, and
with batches that are gathered already, which nobody has. All but the former, which shuffles for itself, see the same
batches. What steadfed's steps leave is compared with what the loop leaves.

The dense workloads are measured with 120 points per client, as MNIST by writer has (median 116), where the first layer
works in sample space, and with 600, as 100 clients of MNIST have, where it does not pay.

Whole rounds are Algorithm 1 with 20 % Byzantine clients that send ALittleIsEnough, filtered by Rage, on two processes;
what is shown is the share of each part.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks import machine
from benchmarks.peers import byzfl_module
from steadfed._linalg.threads import one_torch_thread
from steadfed.aggregators import Rage
from steadfed.attacks import ALittleIsEnough, FractionMembers
from steadfed.data import Dataset
from steadfed.extend import stream
from steadfed.models import Architecture, ConvolutionalNetwork, MultilayerPerceptron, ResidualNetwork, SoftmaxRegression
from steadfed.partitions import IidPartition
from steadfed.simulation import Evaluation, Federation, RunConfig
from steadfed.simulation._engines.points import DrawnPoints
from steadfed.simulation._local import Chunk, TrainingTask
from steadfed.simulation._setting import Setting
from steadfed.simulation._worker_pool import WorkerPool

ROUNDS, QUICK_ROUNDS = 9, 3
WHOLE_ROUNDS = 4
LR = 0.05
LOOP, BYZFL, BYZFL_GIVEN, JOBS = "plain loop", "byzfl, DataLoader of tensors", "byzfl, batches given", (1, 2)
COLUMNS = (
    "workload",
    "competitor",
    "ms",
    "× plain loop",
    "× byzfl, loader",
    "min..max",
    "× byzfl, given",
    "target",
    "",
)
PARTS = ("sampling", "local_steps", "attack", "aggregation", "evaluation")


@dataclass(frozen=True)
class Workload:
    """H steps with batches of b of each of K clients."""

    name: str
    model: Architecture
    shape: tuple[int, ...]
    num_clients: int
    points_each: int
    steps: int
    target: float
    """How many times as fast as byzfl's clients with a loader of tensors two processes should be."""

    def dataset(self) -> Dataset:
        """Return random points of the right shape; what they show does not matter to speed."""
        generator, number = stream(0, "benchmark"), self.num_clients * self.points_each
        features = torch.from_numpy(generator.random((number, *self.shape), dtype=np.float32))
        labels = torch.from_numpy(generator.integers(0, 10, number))
        return Dataset(
            name=self.name,
            features=features,
            labels=labels,
            test_features=features[:100],
            test_labels=labels[:100],
            num_classes=10,
        )

    def config(self, **changes: Any) -> RunConfig:
        """Return the configuration of a run."""
        given: dict[str, Any] = {
            "cohort_size": self.num_clients,
            "local_steps": self.steps,
            "lr": LR,
            "model": self.model,
            "partition": IidPartition(num_clients=self.num_clients),
        }
        return RunConfig(**(given | changes))


WORKLOADS = (
    Workload("A softmax 784-10, n = 120", SoftmaxRegression(), (1, 28, 28), 100, 120, 10, 20.0),
    Workload("A softmax 784-10, n = 600", SoftmaxRegression(), (1, 28, 28), 100, 600, 10, 20.0),
    Workload("B MLP 784-128-64-10, n = 120", MultilayerPerceptron(hidden=(128, 64)), (1, 28, 28), 100, 120, 10, 12.0),
    Workload("B MLP 784-128-64-10, n = 600", MultilayerPerceptron(hidden=(128, 64)), (1, 28, 28), 100, 600, 10, 12.0),
    Workload("C small CNN", ConvolutionalNetwork(), (1, 28, 28), 50, 600, 5, 2.5),
    Workload("D ResNet, group norm", ResidualNetwork(), (3, 32, 32), 10, 500, 2, 2.0),
)


@dataclass
class Outcome:
    """Everything measured of one workload."""

    name: str
    engine: str
    why: str
    dim: int
    target: float
    busy: float = 0.0
    rounds: list[dict[str, float]] = field(default_factory=list)
    difference: float = 0.0
    """The largest distance of an update from the plain loop's, relative to its length."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of the parts of whole rounds."""

    def faster(self, than: str, competitor: str) -> list[float]:
        """Return in every round how many times as long as the competitor the other takes."""
        return machine.ratios_of(self.rounds, than, competitor)


class Given:
    """A loader over tensors that are gathered already: what byzfl's clients are handed."""

    def __init__(self, batches: Sequence[tuple[Tensor, Tensor]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batches, one after the other."""
        return iter(self._batches)


def plain_loop(task: TrainingTask, module: nn.Module, start: Mapping[str, Tensor], points: Tensor) -> list[Tensor]:
    """Take everybody's steps the way a person would write them down first."""
    models = []
    for own in points:
        module.load_state_dict(start)
        optimizer = torch.optim.SGD(module.parameters(), lr=LR)
        for batch in own:
            optimizer.zero_grad()
            loss = task.loss.mean(module(task.data.features[batch]), task.data.labels[batch])
            torch.autograd.backward(loss)
            optimizer.step()
        models.append(nn.utils.parameters_to_vector(module.parameters()).detach())
    return models


def given(task: TrainingTask, points: Tensor) -> list[Given]:
    """Return for every client the batches of its steps."""
    features, labels = task.data.features, task.data.labels
    return [Given([(features[batch], labels[batch]) for batch in own]) for own in points]


def loaders(task: TrainingTask) -> list[Any]:
    """Return for every client torch's loader over its own tensors."""
    made = []
    for client in range(task.data.shares.num_clients):
        points = torch.from_numpy(task.data.shares.points(client))
        own = torch.utils.data.TensorDataset(task.data.features[points], task.data.labels[points])
        made.append(torch.utils.data.DataLoader(own, batch_size=32, shuffle=True))
    return made


def byzfl_clients(build: Callable[[], nn.Module], loaders: Sequence[Any]) -> list[Any]:
    """Return byzfl's clients, one per loader, each with a model of its own."""
    client = byzfl_module(cast("Any", "fed_framework")).Client
    clients = []
    for loader in loaders:
        made = client(
            {
                "model_name": "logreg_mnist",
                "device": "cpu",
                "optimizer_name": "SGD",
                "learning_rate": LR,
                "weight_decay": 0.0,
                "milestones": [],
                "learning_rate_decay": 1.0,
                "loss_name": "CrossEntropyLoss",
                "LabelFlipping": False,
                "nb_labels": 10,
                "momentum": 0.0,
                "training_dataloader": cast("Any", torch.utils.data.DataLoader)([0]),
                "store_per_client_metrics": False,
            }
        )
        made.model = build()
        made.optimizer = torch.optim.SGD(made.model.parameters(), lr=LR)
        made.training_dataloader, made.train_iterator = loader, iter(loader)
        clients.append(made)
    return clients


def byzfl_round(clients: Sequence[Any], start: dict[str, Tensor], steps: int) -> list[Any]:
    """Let byzfl's clients take their steps from the model, as byzfl's own training loop does."""
    models = []
    for client in clients:
        client.set_model_state(start)
        client.compute_model_update(steps)
        models.append(client.get_flat_parameters())
    return models


def measure(workload: Workload, num_rounds: int, out: Console) -> Outcome:
    """Measure the local steps of one workload, then its whole rounds."""
    dataset = workload.dataset()
    with one_torch_thread(), ExitStack() as stack:
        setting = Setting.of(workload.config(), dataset)
        task, engine = setting.engine.task, setting.engine
        outcome = Outcome(workload.name, engine.name, setting.engine_choice, task.layout.dim, workload.target)
        pools = {jobs: stack.enter_context(WorkerPool(engine, workload.num_clients, jobs)) for jobs in JOBS}
        calls = competitors(workload, dataset, task, pools)
        results = {name: call() for name, call in calls.items()}  # nobody pays for loading code
        outcome.difference = _difference(workload.model.build(dataset, 0), task, pools[1].matrix, results[LOOP])
        out.print(f"{workload.name}: {num_rounds} rounds of {len(calls)} competitors, engine {engine.name} ...")
        with machine.Neighbours() as neighbours:
            outcome.rounds = machine.interleaved(calls, num_rounds, lambda *_: None)
        outcome.busy = neighbours.share
    outcome.seconds = whole_rounds(workload, dataset)
    return outcome


def competitors(
    workload: Workload, dataset: Dataset, task: TrainingTask, pools: Mapping[int, WorkerPool]
) -> dict[str, Callable[[], object]]:
    """Return everybody who takes the steps."""
    build = partial(workload.model.build, dataset, 0)
    chunk = Chunk(
        0, LR, task.local.steps, np.arange(workload.num_clients), np.zeros(workload.num_clients, dtype=np.bool_)
    )
    points, module = DrawnPoints.of(task, chunk).points, build()
    start = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model, buffers = task.layout.parameters_of(module, torch.float32), task.layout.buffers_of(module, torch.float32)
    peers = {BYZFL: byzfl_clients(build, loaders(task)), BYZFL_GIVEN: byzfl_clients(build, given(task, points))}
    return {
        LOOP: partial(plain_loop, task, module, start, points),
        **{name: partial(byzfl_round, clients, start, workload.steps) for name, clients in peers.items()},
        **{_steadfed(jobs): partial(pool.train, (model, buffers), chunk) for jobs, pool in pools.items()},
    }


def _steadfed(jobs: int) -> str:
    return f"steadfed, {jobs} process{'es' if jobs > 1 else ''}"


def _difference(module: nn.Module, task: TrainingTask, updates: Tensor, loop: Any) -> float:
    """Return how far steadfed's updates are from the loop's at most, relative to their length."""
    model, worst = task.layout.parameters_of(module, torch.float32), 0.0
    for update, vector in zip(updates, loop, strict=True):
        nn.utils.vector_to_parameters(vector, module.parameters())
        expected = (model - task.layout.parameters_of(module, torch.float32)) / LR
        worst = max(worst, float((update - expected).norm() / expected.norm()))
    return worst


def whole_rounds(workload: Workload, dataset: Dataset) -> dict[str, list[float]]:
    """Return the seconds of the parts of a few rounds; the first one is not counted."""
    config = workload.config(
        rounds=WHOLE_ROUNDS,
        rule=Rage(byzantine_fraction=0.2),
        byzantine=FractionMembers(fraction=0.2),
        attack=ALittleIsEnough(),
        evaluation=Evaluation(every=WHOLE_ROUNDS),
    )
    records = []
    with Federation(config, dataset=dataset, jobs=2) as federation:
        state = federation.start()
        for _ in range(WHOLE_ROUNDS):
            state, record = federation.play(state)
            records.append(record.seconds)
    return {part: [seconds.get(part, 0.0) for seconds in records[1:]] for part in PARTS}


def report(outcomes: Sequence[Outcome], out: Console) -> None:
    """Print the table, the parts of whole rounds, and what a reader must know beside them."""
    table = Table(*COLUMNS, title=f"H local steps of K clients; step size {LR}, batches of 32")
    parts = Table("workload", *PARTS, "ms a round", title="Whole rounds: ALIE, 20 % Byzantine, Rage, 2 processes")
    for outcome in outcomes:
        for name in outcome.rounds[0]:
            table.add_row(*_row(outcome, name))
        medians = [statistics.median(outcome.seconds[part]) for part in PARTS]
        shares = [f"{seconds / sum(medians):.0%}" for seconds in medians]
        parts.add_row(outcome.name, *shares, f"{1e3 * sum(medians):.1f}")
    out.print(table, parts)
    for outcome in outcomes:
        out.print(f"{outcome.name}: d = {outcome.dim:,}; engine {outcome.engine}, {outcome.why}.")
        out.print(f"  The updates differ from the plain loop's by {outcome.difference:.1e} of their length at most.")
        if outcome.busy > machine.BUSY:
            out.print(f"  BUSY: others used {outcome.busy:.0%} of the cores; steadfed's own workers are among them.")


def _row(outcome: Outcome, name: str) -> list[str]:
    ours = name == _steadfed(JOBS[-1])
    milliseconds = 1e3 * statistics.median(machine.times_of(outcome.rounds, name))
    loops, peers = outcome.faster(LOOP, name), outcome.faster(BYZFL, name)
    middle = statistics.median(peers)
    verdict = ("met" if middle >= outcome.target else "MISSED") if ours else ""
    return [
        outcome.name if name == LOOP else "",
        name,
        f"{milliseconds:.1f}",
        f"{statistics.median(loops):.2f}",
        f"{middle:.2f}",
        f"{min(peers):.2f}..{max(peers):.2f}",
        f"{statistics.median(outcome.faster(BYZFL_GIVEN, name)):.2f}",
        f"≥ {outcome.target:g}" if ours else "",
        verdict,
    ]


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a first look")
    parser.add_argument("--only", default="", help="letters of the workloads to measure, such as AB")
    options = parser.parse_args()
    out, about = machine.console(), machine.describe()
    out.print(machine.headline(about), "\n")
    chosen = [each for each in WORKLOADS if not options.only or each.name[0] in options.only]
    outcomes = [measure(workload, QUICK_ROUNDS if options.quick else ROUNDS, out) for workload in chosen]
    report(outcomes, out)
    if options.quick or options.only:
        return
    payload = {"machine": about, "data": __doc__, "workloads": [asdict(outcome) for outcome in outcomes]}
    out.print(f"Stored in {machine.store('simulator', payload)}.")


if __name__ == "__main__":
    main()
