"""How near full-batch runs come to the known minimum of logistic regression on a9a.

Run it with ``python -m benchmarks.convex`` and $STEADFED_DATA set. The objective is the mean of log(1 + exp(−y x·w))
plus (λ/2) ‖w‖² with λ = 1e-3, no intercept; its minimum 0.333340752069 was found by Newton's method in float64 and
agrees with scikit-learn to 12 digits. Ten clients hold the points in an IID split, all take part, nobody attacks.
"""

import time
from collections.abc import Mapping
from types import MappingProxyType

from rich.console import Console
from rich.table import Table

from steadfed.aggregators import Aggregator, Mean, Rage
from steadfed.data import A9a
from steadfed.models import LogisticRegression
from steadfed.partitions import IidPartition
from steadfed.simulation import Evaluation, Federation, RunConfig, ServerOptions

MINIMUM = 0.333340752069
TARGET = 1e-6
LAST_LOOK = 20
"""The objective is looked at this often."""
RUNS: Mapping[str, tuple[Aggregator, int, float, int]] = MappingProxyType(
    {
        "mean, H = 1, server momentum 0.9": (Mean(), 1, 0.9, 500),
        "RAGE, H = 1, server momentum 0.9": (Rage(byzantine_fraction=0.1), 1, 0.9, 500),
        "RAGE, H = 1, as in the paper": (Rage(byzantine_fraction=0.1), 1, 0.0, 5_000),
        "RAGE, H = 5, as in the paper": (Rage(byzantine_fraction=0.1), 5, 0.0, 1_000),
    }
)
"""Rule, H, server momentum, rounds."""


def config_of(rule: Aggregator, local_steps: int, momentum: float, rounds: int) -> RunConfig:
    """Return a full-batch run on a9a."""
    return RunConfig(
        rounds=rounds,
        cohort_size=10,
        local_steps=local_steps,
        batch_size="full",
        lr=0.6,
        data=A9a(),
        partition=IidPartition(num_clients=10),
        model=LogisticRegression(l2=1e-3, bias=False),
        rule=rule,
        dtype="float64",
        server=ServerOptions(momentum=momentum),
        evaluation=Evaluation(every=max(1, rounds // LAST_LOOK), train_points="all"),
    )


def main() -> None:
    """Run them and print how near they came."""
    dataset = A9a().load()
    table = Table("run", "rounds", "f − f*", "first round below 1e-6", "test accuracy", "seconds")
    for label, choice in RUNS.items():
        config = config_of(*choice)
        start, reached = time.perf_counter(), None
        with Federation(config, dataset=dataset) as federation:
            state = federation.start()
            while state.round < config.rounds:
                state, record = federation.play(state)
                if reached is None and record.train_loss is not None and record.train_loss - MINIMUM < TARGET:
                    reached = state.round
        excess = (record.train_loss or float("nan")) - MINIMUM
        seconds = time.perf_counter() - start
        table.add_row(
            label, f"{config.rounds}", f"{excess:.2e}", str(reached), f"{record.test_accuracy:.4f}", f"{seconds:.0f}"
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
