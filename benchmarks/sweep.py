"""Worst error and honest weight lost over the fixed families of attacks: the figures behind the choice of a mode.

Every rule sees the same matrices. Errors are in units of σ₀ √ε, σ₀ being the true honest spread, which only the modes
`known` and `exact` are told. `make bench-sweep` prints the table and stores the raw figures.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from holdfast.aggregators import Aggregator, GeometricMedian, Krum, Mean, Median, Rage
from holdfast.testing.clouds import FORGERIES, MODELS, Scene, honest_rows, with_forged

UNSCALED = ("mimic", "duplicates")
"""Forgeries without a strength."""


@dataclass(frozen=True)
class Grid:
    """Which scenes are looked at."""

    cohorts: tuple[int, ...]
    dims: tuple[int, ...]
    epsilons: tuple[float, ...]
    models: tuple[str, ...] = tuple(MODELS)
    forgeries: tuple[str, ...] = tuple(name for name in FORGERIES if name != "staircase")
    strengths: tuple[float, ...] = (1.0, 1.7, 2.5, 3.5, 5.0, 7.0, 10.0, 30.0, 1000.0)
    seeds: tuple[int, ...] = (0,)


FULL = Grid(cohorts=(40, 100), dims=(10, 1000, 20_000), epsilons=(0.05, 0.1, 0.2, 0.25), seeds=(0, 1))
SMALL = Grid(
    cohorts=(40,),
    dims=(10, 1000),
    epsilons=(0.1, 0.25),
    models=("iso", "power", "clusters", "heavy"),
    strengths=(1.7, 3.5, 7.0, 100.0),
)


def attacked(grid: Grid) -> Iterator[tuple[str, Scene]]:
    """Yield every attacked scene of the grid with a name for it."""
    for cohort, dim, epsilon, model, seed in _cells(grid):
        number = round(epsilon * cohort)
        honest = honest_rows(model, cohort - number, dim, seed)
        for forgery in grid.forgeries:
            for strength in (1.0,) if forgery in UNSCALED else grid.strengths:
                name = f"K={cohort} d={dim} eps={epsilon} {model} {forgery} x{strength} seed={seed}"
                yield name, with_forged(honest, forgery, number, strength, seed)


def peaceful(grid: Grid) -> Iterator[tuple[str, float, Scene]]:
    """Yield (model, assumed ε, scene) without any attacker."""
    for cohort, dim, epsilon, model, seed in _cells(grid):
        yield model, epsilon, with_forged(honest_rows(model, cohort, dim, seed), "cluster", 0, 0.0, seed)


def rules(scene: Scene) -> dict[str, Aggregator]:
    """Return the rules of the table for a scene; `known` and `exact` are told its true σ₀."""
    number, sigma0 = scene.num_byzantine, scene.honest.sigma0
    return {
        "rage exact": Rage(num_byzantine=number, mode="exact", sigma0=sigma0),
        "rage known": Rage(num_byzantine=number, mode="known", sigma0=sigma0),
        "rage auto": Rage(num_byzantine=number),
        "median": Median(),
        "krum": Krum(num_byzantine=number),
        "geometric median": GeometricMedian(),
        "mean": Mean(),
    }


def _cells(grid: Grid) -> Iterator[tuple[int, int, float, str, int]]:
    for cohort in grid.cohorts:
        for dim in grid.dims:
            for epsilon in grid.epsilons:
                for model in grid.models:
                    for seed in grid.seeds:
                        yield cohort, dim, epsilon, model, seed


def _sweep_errors(grid: Grid) -> dict[str, dict[str, float]]:
    """Return {rule: {scene: error}}."""
    errors: dict[str, dict[str, float]] = defaultdict(dict)
    for name, scene in attacked(grid):
        for rule_name, rule in rules(scene).items():
            errors[rule_name][name] = scene.error(rule(scene.updates).update)
    return errors


def _sweep_losses(grid: Grid) -> dict[str, dict[str, list[float]]]:
    """Return {model: {mode: [honest weight lost without attack]}}."""
    losses: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for model, epsilon, scene in peaceful(grid):
        for mode, sigma0 in (("auto", None), ("known", scene.honest.sigma0)):
            rule = Rage(byzantine_fraction=epsilon, mode=mode, sigma0=sigma0)
            losses[model][mode].append(scene.honest_weight_lost(rule(scene.updates).weights))
    return losses


def _summary(errors: dict[str, dict[str, float]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return {rule: {"K d ε model forgery": worst and mean error, number of scenes}}."""
    cells: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rule, by_scene in errors.items():
        for name, error in by_scene.items():
            cells[rule][name.rsplit(" x", 1)[0]].append(error)
    return {
        rule: {cell: {"worst": max(e), "mean": float(np.mean(e)), "scenes": len(e)} for cell, e in by_cell.items()}
        for rule, by_cell in cells.items()
    }


def main() -> None:
    """Run the sweep, print the tables and store the figures."""
    from benchmarks import machine  # noqa: PLC0415  needs the extra [bench], which the tests do not have

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="the grid of the test suite instead of the full one")
    grid = SMALL if parser.parse_args().small else FULL
    console = Console()
    errors = _sweep_errors(grid)
    table = Table("rule", "worst", "mean", "worst scene", title="error in units of σ₀√ε under attack")
    for rule, by_scene in errors.items():
        worst = max(by_scene, key=by_scene.__getitem__)
        table.add_row(rule, f"{by_scene[worst]:.2f}", f"{np.mean(list(by_scene.values())):.2f}", worst)
    console.print(table, f"{len(errors['mean'])} attacked scenes")
    by_dim = Table("rule", *(f"d={dim}" for dim in grid.dims), title="worst error by dimension")
    for rule, by_scene in errors.items():
        worst_by_dim = [max(e for name, e in by_scene.items() if f" d={dim} " in name) for dim in grid.dims]
        by_dim.add_row(rule, *(f"{error:.2f}" for error in worst_by_dim))
    console.print(by_dim)
    losses = _sweep_losses(grid)
    lost = Table("model", "auto mean %", "auto max %", "known mean %", title="honest weight lost without attack")
    for model, by_mode in losses.items():
        auto, known = 100 * np.array(by_mode["auto"]), 100 * np.array(by_mode["known"])
        lost.add_row(model, f"{auto.mean():.2f}", f"{auto.max():.1f}", f"{known.mean():.2f}")
    console.print(lost)
    payload = {"machine": machine.describe(), "errors": _summary(errors), "losses": losses}
    path = machine.store("sweep", payload)
    console.print(f"Stored in {path}.")


if __name__ == "__main__":
    main()
