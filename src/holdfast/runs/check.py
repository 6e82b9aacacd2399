"""Looking at a configuration before it runs: what it resolves to, what it needs, what it cannot promise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from holdfast.aggregators import rule_name
from holdfast.attacks import Honest, attack_name
from holdfast.data import Dataset
from holdfast.partitions import heterogeneity
from holdfast.simulation import RunConfig
from holdfast.simulation.cohorts import UniformCohorts
from holdfast.simulation.crew import one_torch_thread
from holdfast.simulation.setting import Setting, dtype_of

_ROUNDS_LOOKED_AT = 1_000
"""In how many rounds at most Byzantine clients are counted one by one."""


@dataclass(frozen=True)
class Report:
    """What came of looking."""

    facts: list[tuple[str, str]]
    """What the configuration resolves to: headings and sentences."""
    warnings: list[str]
    """What the user may not have meant, or may not rely on."""


def check(config: RunConfig, *, dataset: Dataset | None = None, jobs: int = 1) -> Report:
    """Load the data, deal them out, build the model, and say what would run.

    Raises:
        HoldfastError: the configuration cannot run at all.
    """
    with one_torch_thread():
        setting = Setting.of(config, dataset if dataset is not None else config.data.load())
    facts = [*_data_facts(setting), *_round_facts(setting), *_memory_facts(setting, jobs)]
    return Report(facts, [*_byzantine_warnings(setting), *_data_warnings(setting), *_memory_warnings(setting)])


def _data_facts(setting: Setting) -> Iterator[tuple[str, str]]:
    data = setting.dataset
    classes = f", {data.num_classes} classes" if data.num_classes else ""
    yield "data", f"{data.name}: {len(data.labels):,} training and {len(data.test_labels):,} test points{classes}"
    sizes = setting.client_shares.sizes
    yield (
        "clients",
        f"R = {setting.num_clients:,}, with {sizes.min():,} to {sizes.max():,} points (median {np.median(sizes):,.0f})",
    )
    mixed = heterogeneity(data, setting.client_shares)
    if mixed.mean_distance is not None:
        yield (
            "heterogeneity",
            (
                f"label distributions lie {mixed.mean_distance:.3f} from the common one on average (total variation); "
                f"an IID split of these sizes would lie {mixed.iid_distance:.3f} away"
            ),
        )
    yield "model", f"{setting.config.model!r}, d = {setting.layout.dim:,} parameters, {setting.config.dtype}"
    yield "engine", f"{setting.engine.name}: {setting.engine_choice}"


def _round_facts(setting: Setting) -> Iterator[tuple[str, str]]:
    config = setting.config
    yield "rounds", f"{config.rounds:,} of H = {config.local_steps} local steps: T = {config.total_steps:,}"
    assumed = config.rule.assumed_byzantine(config.cohort_size)
    yield "rule", f"{rule_name(config.rule)}; assumes at most {assumed} Byzantine of K = {config.cohort_size} rows"
    liars = _num_liars(setting)
    yield "adversary", f"{attack_name(config.attack)} by {liars:,} of {setting.num_clients:,} clients"
    if liars and isinstance(config.cohorts, UniformCohorts):
        law = _law(setting, liars)
        mean, most = config.cohort_size * liars / setting.num_clients, min(config.cohort_size, liars)
        average = f"{mean:.1f} on average, at most {most}"
        chance = f"more than the assumed {assumed} in a round with probability {law.sf(assumed):.3g}"
        yield "Byzantine in a cohort", f"{average}; {chance}"
    elif liars:
        counts, bounds = _counts(setting)
        average = f"{counts.mean():.1f} on average, at most {counts.max()}"
        yield (
            "Byzantine in a cohort",
            f"{average}; more than assumed in {(counts > bounds).sum()} of {len(counts)} rounds",
        )


def _byzantine_warnings(setting: Setting) -> Iterator[str]:
    config = setting.config
    liars, clients, cohort = _num_liars(setting), setting.num_clients, config.cohort_size
    assumed = config.rule.assumed_byzantine(cohort)
    if liars and isinstance(config.attack, Honest):
        yield f"{liars} clients are Byzantine and attack.name is 'none': they behave like honest ones"
    if not liars and not isinstance(config.attack, Honest):
        yield f"attack.name is {attack_name(config.attack)!r} and no client is Byzantine: nobody attacks"
    if liars > cohort / 4:
        yield (
            f"ε = {liars / clients:.3g} > K/4R = {cohort / (4 * clients):.3g}: in the worst cohort more than a quarter "
            f"of the rows are Byzantine, which the paper's theorems exclude"
        )
    if liars and isinstance(config.cohorts, UniformCohorts):
        chance = -np.expm1(config.rounds * np.log1p(-min(_law(setting, liars).sf(assumed), 1.0 - 1e-16)))
        if chance > 0.01:
            yield (
                f"with probability {chance:.2g} some of the {config.rounds} rounds has more than the {assumed} "
                f"Byzantine rows that the rule assumes; assume more or sample a larger cohort"
            )
    elif liars:
        counts, bounds = _counts(setting)
        if excess := int((counts > bounds).sum()):
            yield f"{excess} of {len(counts)} rounds have more Byzantine rows than the rule assumes; assume more"


def _data_warnings(setting: Setting) -> Iterator[str]:
    config = setting.config
    sizes = setting.client_shares.sizes
    if config.batch_size != "full" and (few := int((sizes < config.batch_size).sum())):
        yield f"{few} clients hold fewer than batch_size = {config.batch_size} points and use all in every step"
    if len(setting.dataset.test_labels) == 0:
        yield "there are no test points; only training loss is recorded"
    if config.checkpoint_every > 1:
        yield f"a crash loses up to {config.checkpoint_every} rounds, which resuming computes again"


def _memory_facts(setting: Setting, jobs: int) -> Iterator[tuple[str, str]]:
    parts = _memory(setting)
    listed = ", ".join(f"{name} {_size(number)}" for name, number in parts.items() if number)
    yield (
        "memory",
        f"about {_size(sum(parts.values()))}: {listed}; shared by {jobs} {'process' if jobs == 1 else 'processes'}",
    )
    state = (2 if setting.config.server.momentum else 1) * setting.layout.dim * dtype_of(setting.config).itemsize
    yield "disk", f"{_size(state + parts['client momentum'])} per checkpoint, of which two are kept"


def _memory_warnings(setting: Setting) -> Iterator[str]:
    needed = sum(_memory(setting).values())
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > 0.8 * there:
        yield f"the run needs about {_size(needed)} of memory, and this machine has {_size(there)}"


def _memory(setting: Setting) -> dict[str, int]:
    """Return bytes of what grows with the configuration."""
    config, layout, data = setting.config, setting.layout, setting.engine.task.data
    width = dtype_of(config).itemsize
    return {
        "data": sum(tensor.nbytes for tensor in (data.features, data.labels, setting.test.features)),
        "index of clients": data.shares.order.nbytes + data.shares.offsets.nbytes,
        "matrix of updates": config.cohort_size * layout.dim * width,
        "client momentum": data.shares.num_clients * layout.dim * width if config.client.momentum else 0,
    }


def _num_liars(setting: Setting) -> int:
    return int(setting.config.byzantine.members(0, setting.num_clients, setting.config.seed).sum())


def _law(setting: Setting, liars: int) -> hypergeom:
    """Return the distribution of the number of Byzantine clients in a cohort drawn uniformly."""
    return hypergeom(setting.num_clients, liars, setting.config.cohort_size)


def _counts(setting: Setting) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many Byzantine clients each cohort has that is not left to chance, and how many the rule assumes."""
    config, counts, bounds = setting.config, [], []
    for number in range(min(config.rounds, _ROUNDS_LOOKED_AT)):
        cohort = config.cohorts.cohort(number, setting.num_clients, config.cohort_size, config.seed)
        counts.append(int(config.byzantine.among(cohort, number, setting.num_clients, config.seed).sum()))
        bounds.append(config.rule.assumed_byzantine(len(cohort)))
    return np.array(counts), np.array(bounds)


def _size(number: float) -> str:
    """Return a number of bytes for people.

    >>> _size(1536), _size(3 * 2**30)
    ('1.5 KiB', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
