"""Looking at a configuration before it runs: what it resolves to, what it needs, what it cannot guarantee."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steadfed._core.wording import percent, size
from steadfed._linalg.threads import one_torch_thread
from steadfed.aggregators import RULES, Rage
from steadfed.aggregators._rage.guard import most_byzantine
from steadfed.attacks import ATTACKS, Honest
from steadfed.data import Dataset
from steadfed.partitions import heterogeneity
from steadfed.runs._code import code_named
from steadfed.runs._few_sites import few_sites_promise, few_sites_warning
from steadfed.server._promise import check_coverage
from steadfed.server._site_weights import Sites
from steadfed.simulation import RunConfig
from steadfed.simulation._cohorts import UniformCohorts
from steadfed.simulation._setting import Setting, dtype_of
from steadfed.theory.sampling import excess_probability, run_excess_probability

_MOST_ROUNDS_CHECKED = 1_000
"""In how many rounds at most Byzantine clients are counted one by one."""
_LOPSIDED = 0.8
"""From this share of one class on, accuracy alone says little."""


@dataclass(frozen=True)
class CheckReport:
    """What came of looking."""

    facts: list[tuple[str, str]]
    """What the configuration resolves to: headings and sentences."""
    warnings: list[str]
    """What the user may not have meant, or may not rely on."""


def check(config: RunConfig, *, dataset: Dataset | None = None, jobs: int = 1) -> CheckReport:
    """Load the data, deal them out, build the model, and say what would run.

    Raises:
        SteadfedError: the configuration cannot run at all.
    """
    with one_torch_thread():
        setting = Setting.of(config, dataset if dataset is not None else config.data.load())
    byzantine = _byzantine_counts(setting)
    facts = [*_data_facts(setting), *_round_facts(setting, byzantine), *_memory_facts(setting, jobs)]
    return CheckReport(
        facts,
        [
            *_byzantine_warnings(setting, byzantine),
            *_few_sites_warnings(setting.config),
            *_data_warnings(setting),
            *_metric_warnings(setting),
            *_memory_warnings(setting),
        ],
    )


def outline(config: RunConfig) -> CheckReport:
    """Say what a configuration means by itself, and which code it names; nothing is loaded, built or executed."""
    named = [f"{key} {path}" for key, path in code_named(config)]
    facts = [
        ("data", f"{config.data!r}, not loaded"),
        ("partition", repr(config.partition)),
        ("model", f"{config.model!r}, not built"),
        ("code", f"a run executes {', '.join(named)}" if named else "a run executes none of its author's"),
        *_protocol_facts(config),
        ("adversary", ATTACKS.name(config.attack)),
    ]
    return CheckReport(facts, list(_few_sites_warnings(config)))


@dataclass(frozen=True)
class _ByzantineCounts:
    """The Byzantine clients, and how often more of them than the rule assumes meet in a cohort."""

    number: int
    mean: float = 0.0
    """How many a cohort has on average."""
    most: int = 0
    """How many it has at most."""
    chance: float | None = None
    """For cohorts drawn uniformly: the probability of too many in one round."""
    run_chance: float | None = None
    """For cohorts drawn uniformly: the probability of too many in any round."""
    excess: int = 0
    """For other cohorts: how many of those looked at have too many."""
    rounds_checked: int = 0


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


def _round_facts(setting: Setting, byzantine: _ByzantineCounts) -> Iterator[tuple[str, str]]:
    config = setting.config
    protocol = dict(_protocol_facts(config))
    yield "rounds", protocol["rounds"]
    number, dim = config.compression.number(setting.layout.dim), setting.layout.dim
    if number < dim:
        yield "sent", f"only k = {number:,} of d = {dim:,} coordinates: {config.compression.words}"
    yield from ((name, protocol[name]) for name in ("rule", "few sites") if name in protocol)
    if (sites := setting.sites) is not None:
        yield "weights", _weights_words(setting, sites)
    yield "adversary", f"{ATTACKS.name(config.attack)} by {byzantine.number:,} of {setting.num_clients:,} clients"
    if byzantine.number:
        average = f"{byzantine.mean:.1f} on average, at most {byzantine.most}"
        assumed = config.rule.assumed_byzantine(config.cohort_size)
        often = f"more than assumed in {byzantine.excess} of {byzantine.rounds_checked} rounds"
        if byzantine.chance is not None:
            often = f"more than the assumed {assumed} in a round with probability {byzantine.chance:.3g}"
        yield "Byzantine in a cohort", f"{average}; {often}"


def _weights_words(setting: Setting, sites: Sites) -> str:
    """Return what clients weigh, and whom the promise of the rule covers: of the first cohort if not all are asked.

    Raises:
        ParameterError: half of the weight, or more, may be Byzantine.
    """
    config = setting.config
    cohort = config.cohorts.cohort(0, setting.num_clients, config.cohort_size, config.seed).tolist()
    weights = sites.among(cohort)
    total = sum(weights.values())
    lightest, heaviest = percent(min(weights.values()) / total), percent(max(weights.values()) / total)
    which = "" if len(cohort) == setting.num_clients else "in the first cohort "
    said = f"{which}clients hold {lightest} to {heaviest} of the weight"
    promise = check_coverage(config.rule, sites, cohort)
    return said if promise is None else f"{said}; {promise.sentence}"


def _protocol_facts(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield what is known of rounds without the data and the model."""
    yield "rounds", f"{config.rounds:,} of H = {config.step_schedule.words} local steps: T = {config.total_steps:,}"
    assumed = config.rule.assumed_byzantine(config.cohort_size)
    yield "rule", f"{RULES.name(config.rule)}; assumes at most {assumed} Byzantine of K = {config.cohort_size} updates"
    if said := few_sites_promise(config.rule, config.cohort_size):
        yield "few sites", "; ".join(said)


def _byzantine_warnings(setting: Setting, byzantine: _ByzantineCounts) -> Iterator[str]:
    config = setting.config
    clients, cohort = setting.num_clients, config.cohort_size
    if byzantine.number and isinstance(config.attack, Honest):
        yield f"{byzantine.number} clients are Byzantine and attack.name is 'none': they behave like honest ones"
    if not byzantine.number and not isinstance(config.attack, Honest):
        yield f"attack.name is {ATTACKS.name(config.attack)!r} and no client is Byzantine: nobody attacks"
    if byzantine.number > cohort / 4:
        yield (
            f"ε = {byzantine.number / clients:.3g} > K/4R = {cohort / (4 * clients):.3g}: in the worst cohort more "
            f"than a quarter of the updates are Byzantine, which the paper's theorems exclude"
        )
    if byzantine.run_chance is not None and byzantine.run_chance > 0.01:
        yield (
            f"with probability {byzantine.run_chance:.2g} some of the {config.rounds} rounds has more than the "
            f"{config.rule.assumed_byzantine(cohort)} Byzantine updates that the rule assumes; {_remedy(setting)}"
        )
    if byzantine.excess:
        yield (
            f"{byzantine.excess} of {byzantine.rounds_checked} rounds have more Byzantine updates than the rule "
            f"assumes; assume more"
        )


def _remedy(setting: Setting) -> str:
    """Return what can be done about cohorts with more Byzantine updates than assumed, or what the rule does."""
    rule, cohort = setting.config.rule, setting.config.cohort_size
    if isinstance(rule, Rage) and rule.mode == "auto" and cohort < setting.num_clients:
        most = most_byzantine(cohort, rule.assumed_byzantine(cohort))
        return (
            f"RAGE's guard notices far ones up to {most} and raises f for that round, which is a heuristic: a fraction "
            f"near that of the population is a good choice, and only the theorems need more"
        )
    return "assume more or sample a larger cohort"


def _few_sites_warnings(config: RunConfig) -> Iterator[str]:
    if (warning := few_sites_warning(config.rule, config.cohort_size)) is not None:
        yield warning


def _data_warnings(setting: Setting) -> Iterator[str]:
    config = setting.config
    sizes = setting.client_shares.sizes
    if config.batch_size != "full" and (few := int((sizes < config.batch_size).sum())):
        yield f"{few} clients hold fewer than batch_size = {config.batch_size} points and use all in every step"
    if len(setting.dataset.test_labels) == 0:
        yield "there are no test points; only training loss is recorded"
    if config.checkpoint_every > 1:
        yield f"a crash loses up to {config.checkpoint_every} rounds, which resuming computes again"


def _metric_warnings(setting: Setting) -> Iterator[str]:
    """Warn of accuracy alone where the test points of one class are nearly all of them."""
    data = setting.dataset
    if data.num_classes is None or not len(data.test_labels) or setting.config.metrics:
        return
    counts = np.bincount(data.test_labels.flatten().cpu().numpy(), minlength=data.num_classes)
    most = int(counts.argmax())
    largest = float(counts[most] / counts.sum())
    if largest >= _LOPSIDED and data.num_classes > 1:
        yield (
            f"{percent(largest)} of the test labels are of class {most}: who names no other has that accuracy; "
            f'set metrics = ["usual"] to see balanced accuracy, the worst class, F1 and AUROC as well'
        )


def _memory_facts(setting: Setting, jobs: int) -> Iterator[tuple[str, str]]:
    parts = _memory(setting)
    listed = ", ".join(f"{name} {size(number)}" for name, number in parts.items() if number)
    yield (
        "memory",
        f"about {size(sum(parts.values()))}: {listed}; shared by {jobs} {'process' if jobs == 1 else 'processes'}",
    )
    state = (2 if setting.config.server.momentum else 1) * setting.layout.dim * dtype_of(setting.config).itemsize
    checkpoints = f"{size(state + parts['client momentum'])} per checkpoint, of which two are kept"
    yield "disk", "; ".join([checkpoints, *_snapshots(setting)])


def _snapshots(setting: Setting) -> Iterator[str]:
    """Say how many models are kept for good, if any."""
    if number := min(setting.config.evaluation.measured_rounds, setting.config.rounds):
        row = (setting.layout.dim + setting.layout.buffer_dim) * dtype_of(setting.config).itemsize
        yield f"{number + 1} snapshots of {size(row)} each"


def _memory_warnings(setting: Setting) -> Iterator[str]:
    needed = sum(_memory(setting).values())
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > 0.8 * there:
        yield f"the run needs about {size(needed)} of memory, and this machine has {size(there)}"


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


def _byzantine_counts(setting: Setting) -> _ByzantineCounts:
    config, clients = setting.config, setting.num_clients
    number = int(config.byzantine.members(0, clients, config.seed).sum())
    if not number:
        return _ByzantineCounts(0)
    if not isinstance(config.cohorts, UniformCohorts):
        counts, bounds = _counts(setting)
        return _ByzantineCounts(
            number, counts.mean(), counts.max(), excess=int((counts > bounds).sum()), rounds_checked=len(counts)
        )
    cohort, assumed = config.cohort_size, config.rule.assumed_byzantine(config.cohort_size)
    law = {"num_clients": clients, "num_byzantine": number, "cohort_size": cohort, "tolerated": assumed}
    chances = excess_probability(**law), run_excess_probability(**law, rounds=config.rounds)
    return _ByzantineCounts(number, cohort * number / clients, min(cohort, number), *chances)


def _counts(setting: Setting) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many Byzantine clients each cohort has that is not left to chance, and how many the rule assumes."""
    config, counts, bounds = setting.config, [], []
    for number in range(min(config.rounds, _MOST_ROUNDS_CHECKED)):
        cohort = config.cohorts.cohort(number, setting.num_clients, config.cohort_size, config.seed)
        counts.append(int(config.byzantine.among(cohort, number, setting.num_clients, config.seed).sum()))
        bounds.append(config.rule.assumed_byzantine(len(cohort)))
    return np.array(counts), np.array(bounds)
