"""The demonstration: one federation under attack, three servers.

100 clients hold scikit-learn's digits, unlike one another (Dirichlet 0.5). 40 of them take part in a round, with 5
local steps each; 20 of the 100 are Byzantine, with "a little is enough" (Baruch et al. 2019) at z = 1.5. One server
takes the mean of what it gets, one takes RAGE; the third is an oracle that knows who is Byzantine and takes the mean of
the others. Data, model, cohorts and batches are the same for all three.

Every forged value lies among the honest ones, so a single round hardly differs. But all forged rows err to the same
side in every round, and what is small adds up: the mean first learns, then loses what it has learned.
"""

from __future__ import annotations

from pathlib import Path

from steadfed.aggregators import Mean, Rage
from steadfed.attacks import ALittleIsEnough, FractionMembers, Silence
from steadfed.data import Digits
from steadfed.models import MultilayerPerceptron
from steadfed.partitions import DirichletPartition
from steadfed.runs import Run
from steadfed.simulation import Evaluation, RunConfig

ROUNDS = 200


def configs(seed: int = 0, rounds: int = ROUNDS) -> dict[str, RunConfig]:
    """Return what each of the servers runs.

    On average 8 of the 40 updates are Byzantine, and RAGE assumes 8: of cohorts with more its guard takes notice.
    """
    common = RunConfig(
        seed=seed,
        rounds=rounds,
        cohort_size=40,
        local_steps=5,
        batch_size=4,
        lr=0.3,
        data=Digits(),
        partition=DirichletPartition(num_clients=100, alpha=0.5),
        model=MultilayerPerceptron(hidden=(64, 64)),
        byzantine=FractionMembers(fraction=0.2),
        attack=ALittleIsEnough(z=1.5),
        evaluation=Evaluation(measured_rounds=40),
        checkpoint_every=10,
    )
    return {
        "mean": common.model_copy(update={"rule": Mean()}),
        "rage": common.model_copy(update={"rule": Rage(byzantine_fraction=0.2)}),
        "oracle": common.model_copy(update={"rule": Mean(), "attack": Silence()}),
    }


def start(folder: Path, *, seed: int = 0, rounds: int = ROUNDS, jobs: int = 1) -> dict[str, Run]:
    """Start the runs, each in a folder of its own, on the same data."""
    chosen = configs(seed, rounds)
    return {name: Run.start(config, folder / name, jobs=jobs) for name, config in chosen.items()}
