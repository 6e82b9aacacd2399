"""Final test accuracy of rules under attacks: Fashion-MNIST and MNIST by writer, 20 % Byzantine clients.

Run it with ``python -m benchmarks.training`` and $STEADFED_DATA set; every cell is one run of 1,500 local steps
(300 rounds, H = 5, K = 50, b = 32) and is appended to the records when it is done, so it can be stopped and started
again. ``--show`` prints the table of what is there. The oracle is the mean of the honest clients alone: nobody
Byzantine sends anything, and the cohorts and batches are the same. The step size of a setting is the one with which the
oracle did best (of 0.1, 0.2, 0.4, 0.8).

Rules are told f = 15 of the 50 rows: 20 % of the clients make 10 Byzantine rows on average, and the number in a cohort
varies (on Fashion-MNIST more than 13 in 4 %, more than 15 in 0.3 % of the rounds).
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.table import Table

from steadfed._linalg.threads import one_torch_thread
from steadfed.aggregators import RULES
from steadfed.attacks import Alternating, Attack, FractionMembers, SignFlip, Silence, Sleeper
from steadfed.data import Dataset, DataSource, FashionMnist, MnistByWriter
from steadfed.errors import SteadfedError
from steadfed.models import MultilayerPerceptron
from steadfed.partitions import DirichletPartition, NaturalPartition, Partition
from steadfed.simulation import Evaluation, Federation, RunConfig, ServerOptions
from steadfed.sweeps._pool import Failure, WorkerProcesses
from steadfed.sweeps._store import Row, append_rows, open_lines, read_rows
from steadfed.sweeps.matrices._catalogue import ATTACK_LABELS, attack_for, rule_for

COHORT_SIZE, NUM_ASSUMED, ROUNDS = 50, 15, 300
LEARNING_RATES: Mapping[str, float] = MappingProxyType({"fashion": 0.2, "writers": 0.4})
SETTINGS: Mapping[str, tuple[DataSource, Partition]] = MappingProxyType(
    {
        "fashion": (FashionMnist(), DirichletPartition(num_clients=100, alpha=0.5)),
        "writers": (MnistByWriter(), NaturalPartition()),
    }
)
ORACLE = "oracle"
RULE_LABELS = (
    ORACLE,
    "rage",
    "rage-spread",
    "mean",
    "median",
    "trimmed-mean",
    "krum",
    "multi-krum",
    "geometric-median",
    "centered-clipping",
    "caf",
    "nnm+trimmed-mean",
    "nnm+krum",
    "bucketing+krum",
    "dnc",
    "fltrust",
    "signguard",
)
TIMED: Mapping[str, Attack] = MappingProxyType(
    {"sleeper": Sleeper(attack=SignFlip(), start=100), "alternating": Alternating(attack=SignFlip())}
)
ADAPTIVE = tuple(label for label in ATTACK_LABELS if label.startswith(("optimal", "hill", "below", "decoys", "anchor")))
ON_DATA = ("label-flip", "class-flip", "label-noise")
ATTACKS = (*(label for label in (*ATTACK_LABELS, *ON_DATA, *TIMED) if label not in ADAPTIVE), *ADAPTIVE)
"""Attacks that search against the rule come last: they cost ten times as much."""
DEFAULT_OUT = Path("benchmarks/results/training.jsonl")
Cell = tuple[str, str, str, int]
"""Setting, rule, attack, seed."""


def config_of(cell: Cell) -> RunConfig:
    """Return the run of a cell."""
    setting, rule, attack, seed = cell
    data, partition = SETTINGS[setting]
    needs_trust = rule in {"fltrust", "zeno"}
    return RunConfig(
        seed=seed,
        rounds=ROUNDS,
        cohort_size=COHORT_SIZE,
        local_steps=5,
        batch_size=32,
        lr=LEARNING_RATES[setting],
        data=data,
        partition=partition,
        model=MultilayerPerceptron(hidden=(25,)),
        rule=RULES.build("mean") if rule == ORACLE else rule_for(rule, NUM_ASSUMED, sigma0=1.0),
        byzantine=FractionMembers(fraction=0.2),
        attack=Silence() if rule == ORACLE else attack_of(attack),
        evaluation=Evaluation(every=ROUNDS // 10, train_points=0),
        server=ServerOptions(trusted_points=100 if needs_trust else 0),
    )


def attack_of(label: str) -> Attack:
    """Return the attack with this label."""
    return TIMED[label] if label in TIMED else attack_for(label)


@cache
def dataset_of(setting: str) -> Dataset:
    """Return the data of a setting, loaded once in a process."""
    return SETTINGS[setting][0].load()


def try_cell(cell: Cell) -> dict[str, Any] | Failure:
    """Run a cell on one thread; what cannot be run says why."""
    try:
        with one_torch_thread():
            return run_cell(cell)
    except SteadfedError as error:
        return Failure(reason=str(error))


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run a cell and return its record."""
    config = config_of(cell)
    found = dict(zip(("setting", "rule", "attack", "seed"), cell, strict=True))
    curve, skipped, caught, removed, byzantine = [], 0, 0, 0, 0
    seconds: dict[str, float] = {}
    with Federation(config, dataset=dataset_of(cell[0])) as federation:
        state = federation.start()
        while state.round < config.rounds:
            state, record = federation.play(state)
            if record.test_accuracy is not None:
                curve.append(round(record.test_accuracy, 4))
            skipped += record.skipped
            truth = set(record.byzantine)
            caught += len(truth.intersection(record.removed))
            removed += len(record.removed)
            byzantine += len(truth.intersection(record.received))
            seconds = {name: seconds.get(name, 0.0) + value for name, value in record.seconds.items()}
    counts = {"skipped": skipped, "caught": caught, "removed": removed, "byzantine": byzantine}
    return {
        **found,
        "accuracy": curve[-1] if curve else None,
        "curve": curve,
        **counts,
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
    }


def cells(settings: Iterable[str], rules: Iterable[str], attacks: Iterable[str], seeds: int) -> Iterator[Cell]:
    """Yield the cells, those of the first rules first; the oracle has one per setting and seed."""
    for seed in range(seeds):
        for rule in rules:
            for setting in settings:
                for attack in ("silence",) if rule == ORACLE else attacks:
                    yield setting, rule, attack, seed


def read(out: Path) -> dict[Cell, Row]:
    """Return the records by cell."""
    records = read_rows(out) if out.exists() else []
    return {(each["setting"], each["rule"], each["attack"], each["seed"]): each for each in records}


def show(records: Mapping[Cell, Row]) -> None:
    """Print a table per setting: attacks down, rules across, in points below the oracle's accuracy."""
    for setting in sorted({cell[0] for cell in records}):
        chosen = {cell: each for cell, each in records.items() if cell[0] == setting and cell[3] == 0}
        oracle = next((each["accuracy"] for cell, each in chosen.items() if cell[1] == ORACLE), None)
        if oracle is None:
            continue
        rules = [rule for rule in RULE_LABELS if any(cell[1] == rule for cell in chosen) and rule != ORACLE]
        table = Table("attack", *rules, title=f"{setting}: oracle {oracle:.2%}; points below it")
        columns: dict[str, list[float]] = {rule: [] for rule in rules}
        for attack in ATTACKS:
            row = []
            for rule in rules:
                found = chosen.get((setting, rule, attack, 0))
                if found is None or found["accuracy"] is None:
                    row.append("")
                    continue
                columns[rule].append(100 * (oracle - found["accuracy"]))
                row.append(f"{columns[rule][-1]:.1f}")
            if any(row):
                table.add_row(attack, *row)
        table.add_section()
        table.add_row("worst", *(f"{max(column):.1f}" for column in columns.values()), style="bold")
        Console(width=220).print(table)


def main() -> None:
    """Run the cells that are not there yet, or show those that are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--rules", nargs="*", default=list(RULE_LABELS))
    parser.add_argument("--attacks", nargs="*", default=list(ATTACKS))
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.show:
        done = read(options.out)
        left = [c for c in cells(options.settings, options.rules, options.attacks, options.seeds) if c not in done]
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with open_lines(options.out):
            outcomes = WorkerProcesses(jobs=options.jobs).outcomes(try_cell, left)
            for number, (cell, record) in enumerate(outcomes, 1):
                if isinstance(record, Failure):
                    print(f"{cell}: {record.reason}")
                    continue
                append_rows(options.out, [record])
                spent = sum(record["seconds"].values())
                print(f"{number}/{len(left)} {cell[:3]} {record['accuracy']} {spent:.0f} s")
    show(read(options.out))


if __name__ == "__main__":
    main()
