"""What stays the same over all rounds: data, who holds them, the task, the engine, and who looks at the model."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steadfed._core.own_code import loaded
from steadfed._core.rng import stream
from steadfed.aggregators import ImportedRule, Need
from steadfed.attacks import ImportedAttack
from steadfed.attacks._poisoning import Poisoning, data_attack_of
from steadfed.data import Dataset
from steadfed.errors import ParameterError
from steadfed.metrics import ATTACK_SUCCESS, AttackSuccessRate, Metric, Task, asked_metrics
from steadfed.models._layout import Layout
from steadfed.partitions import Shares
from steadfed.server._site_weights import Sites
from steadfed.simulation._attacked import adversarial_of, attacked_points
from steadfed.simulation._client_scores import ClientScorer
from steadfed.simulation._compression import check_memories
from steadfed.simulation._config import RunConfig
from steadfed.simulation._engines.base import Engine
from steadfed.simulation._engines.choice import choose
from steadfed.simulation._evaluation import Evaluator, take_evenly
from steadfed.simulation._local import Adversarial, ClientData, TrainingTask
from steadfed.simulation._reading import OutputReader


@dataclass(frozen=True, eq=False)
class Setting:
    """A configuration with its data loaded and dealt out, ready for rounds."""

    config: RunConfig
    dataset: Dataset
    shares: Shares
    """Who holds which points: the R clients and, if the server has points of its own, the server as the last."""
    engine: Engine
    engine_choice: str
    """One line that says why this engine."""
    train: Evaluator
    test: Evaluator
    trusted: Evaluator | None
    """Looks at models on the server's own points."""
    scorer: ClientScorer | None = None
    """Says how good a model is for single clients."""
    probes: tuple[Evaluator, ...] = ()
    """Look at models on points made for a metric: see `Metric.points`."""

    @classmethod
    def of(cls, config: RunConfig, dataset: Dataset) -> Setting:
        """Deal the points out, build the model and choose the engine; refuse what would fail in some round.

        Code that the configuration names is executed, and its rule and attack are the objects that this code makes.
        """
        config = loaded(config)
        check_device(config)
        check_schedule(config)
        config.step_schedule.check(config.rounds)
        check_trust(config)
        poisoning = check_attack(config, dataset)
        shares, own = deal_out(config, dataset)
        num_clients = shares.num_clients - (own is not None)
        config.cohorts.check(num_clients, config.cohort_size)
        config.rule.check_cohort(config.cohort_size)
        config.byzantine.among(np.empty(0, dtype=np.int64), 0, num_clients, config.seed)  # names clients that exist
        task = _task(config, dataset, shares, adversarial_of(config, poisoning, num_clients, shares.num_clients))
        check_memories(config.compression, task.layout.dim, config.rule, config.attack)
        try_own_code(config, config.compression.number(task.layout.dim))
        engine, choice = choose(config.engine, task)
        held = np.sort(shares.order[: shares.offsets[num_clients]])
        tested = take_evenly(np.arange(len(dataset.test_labels)), config.evaluation.test_points)
        asked, scorer = at_points(asked_of(config, dataset), "test"), None
        if config.evaluation.client_scores is not None:
            clients = without_server(shares, num_clients)
            scorer = ClientScorer.of(config, dataset, clients, tested, task_of(config, dataset))
        test = _evaluator(task, _place(dataset.test_features, config), _place(dataset.test_labels, config), tested)
        if asked or scorer is not None:
            metrics = [*asked.values(), *([] if scorer is None else [scorer.metric])]
            reader = reader_for(metrics, task_of(config, dataset), dataset)
            reader.check_size(test.labels)
            test = replace(test, metrics=asked, reader=reader)
        train_points = take_evenly(held, config.evaluation.train_points)
        attacked = None if poisoning is None else attacked_points(poisoning, dataset, tested)
        return cls(
            config=config,
            dataset=dataset,
            shares=shares,
            engine=engine,
            engine_choice=choice,
            train=_evaluator(task, task.data.features, task.data.labels, train_points),
            test=test,
            trusted=None if own is None else _evaluator(task, task.data.features, task.data.labels, own),
            scorer=scorer,
            probes=() if attacked is None else (_probe(task, config, dataset, attacked),),
        )

    @property
    def num_clients(self) -> int:
        """R."""
        return self.shares.num_clients - (self.trusted is not None)

    @property
    def client_shares(self) -> Shares:
        """Who holds which points, without the server."""
        return without_server(self.shares, self.num_clients)

    @property
    def sites(self) -> Sites | None:
        """How much each client counts; None if all count alike."""
        return sites_in(self.config, self.client_shares)

    @property
    def layout(self) -> Layout:
        """Where each parameter lies in a row."""
        return self.engine.task.layout


def without_server(shares: Shares, num_clients: int) -> Shares:
    """Return the shares of the clients, which come first."""
    offsets = shares.offsets[: num_clients + 1]
    return Shares(shares.order[: offsets[-1]], offsets)


def deal_out(config: RunConfig, dataset: Dataset) -> tuple[Shares, NDArray[np.int64] | None]:
    """Return who holds which points, and which points are the server's own, if it keeps any."""
    number = config.server.trusted_points
    if number == 0:
        return config.partition.split(dataset, config.seed), None
    if number >= len(dataset.labels):
        raise ParameterError(
            f"server.trusted_points must be less than the {len(dataset.labels)} training points, got {number}"
        )
    order = stream(config.seed, "trusted").permutation(len(dataset.labels))
    own, rest = np.sort(order[:number]), np.sort(order[number:])
    shares = config.partition.split(dataset.take(rest), config.seed)
    points = np.concatenate([rest[shares.order], own])
    return Shares(points, np.append(shares.offsets, len(points))), own


def check_trust(config: RunConfig) -> None:
    """Raise `ParameterError` if the rule needs points that the server does not have."""
    wanted = config.rule.all_needs() & {Need.TRUSTED_ROW, Need.TRUSTED_LOSS}
    if wanted and config.server.trusted_points == 0:
        needs = " and ".join(sorted(map(str, wanted)))
        raise ParameterError(f"{config.rule!r} needs {needs}; set server.trusted_points to at least 1, got 0")


def sites_in(config: RunConfig, shares: Shares) -> Sites | None:
    """Return how much each client counts; None if all count alike.

    Raises:
        ParameterError: the rule cannot weigh, or there is not one weight for every client.
    """
    if config.site_weights is None:
        return None
    config.rule.check_weighs()
    number, given = shares.num_clients, config.site_weights
    if isinstance(given, Mapping):
        table = {int(name) if name.isdecimal() else name: weight for name, weight in given.items()}
    else:
        table = dict(enumerate(shares.sizes.tolist() if given == "sizes" else given))
    if table.keys() != set(range(number)):
        raise ParameterError(f"site_weights must be a number for each of the clients 0 to {number - 1}, got {given!r}")
    return Sites.of(table, config.max_share)


def check_attack(config: RunConfig, dataset: Dataset) -> Poisoning | None:
    """Return what the attack does to the data; None if nothing.

    Raises:
        ParameterError: the attack must know what is not granted, or makes no sense on such data.
    """
    missing = sorted(knowledge.name.lower() for knowledge in config.attack.all_needs() - config.granted())
    if missing:
        needed = sorted(knowledge.name.lower() for knowledge in config.attack.all_needs())
        raise ParameterError(
            f"{config.attack!r} must know {', '.join(map(repr, missing))}; adversary_knows must hold "
            f"{', '.join(map(repr, needed))}, got {list(config.adversary_knows)}"
        )
    poison = data_attack_of(config.attack)
    return None if poison is None else poison.poisoning(dataset)


def try_own_code(config: RunConfig, dim: int) -> None:
    """Raise `ParameterError` if a function of the user's own fails on rows of the size that a run will have."""
    for rule in config.rule.chain():
        if isinstance(rule, ImportedRule):
            rule.try_on(config.cohort_size, dim)
    for attack in config.attack.chain():
        if isinstance(attack, ImportedAttack):
            attack.try_on(dim, config.granted())


def check_device(config: RunConfig) -> None:
    """Raise `ParameterError` if there is no such device, or one that does not compute, such as "meta"."""
    try:
        torch.zeros(1, device=config.device).item()
    except Exception as error:  # noqa: BLE001  torch raises errors of many kinds for devices that it was not built for
        why = str(error).partition("\n")[0].partition(". ")[0]
        raise ParameterError(
            f"device must be one that torch can use, such as cpu or cuda; got {config.device!r}: {why}"
        ) from None


def check_schedule(config: RunConfig) -> None:
    """Raise `ParameterError` if the step size, which the server divides by, vanishes before the last round."""
    last, least = config.lr_of(config.rounds - 1), torch.finfo(dtype_of(config)).tiny
    if last < least:
        raise ParameterError(
            f"the step size of the last round must be at least {least:.3g} in {config.dtype}, got {last:.3g} "
            f"with lr = {config.lr} and {config.schedule!r} after {config.rounds} rounds"
        )


def task_of(config: RunConfig, dataset: Dataset) -> Task | None:
    """Return what the model is for: what the configuration says, or else its outputs and the labels.

    Raises:
        ParameterError: the configuration says what the labels cannot be.
    """
    classes = dataset.num_classes is not None
    if config.task is not None and classes != (config.task == "classification"):
        kind = f"{dataset.num_classes} classes" if classes else "no classes"
        raise ParameterError(f"task is {config.task!r}, and the labels of {dataset.name} have {kind}")
    return config.task or config.model.loss().task(dataset)


def asked_of(config: RunConfig, dataset: Dataset) -> dict[str, Metric]:
    """Return the metrics that a run computes beside accuracy and loss, by their names in records.

    Raises:
        ParameterError: one says nothing about these data, or there are no points for it.
    """
    if not config.metrics and config.task is None:
        return {}
    return asked_metrics(config.metrics, task_of(config, dataset), dataset.num_classes)


def reader_for(metrics: Iterable[Metric], task: Task | None, dataset: Dataset) -> OutputReader:
    """Return what reads outputs for metrics.

    Raises:
        ParameterError: the outputs are no predictions.
    """
    if task is None:
        raise ParameterError(f"a metric needs classes or numbers, and what is learned of {dataset.name} is neither")
    scores = any(metric.needs_scores for metric in metrics)
    return OutputReader(task=task, num_classes=dataset.num_classes, scores=scores)


def at_points(metrics: Mapping[str, Metric], points: str) -> dict[str, Metric]:
    """Return the metrics that look at these points."""
    return {name: metric for name, metric in metrics.items() if metric.points == points}


def dtype_of(config: RunConfig) -> torch.dtype:
    """Return the dtype of the model and the updates."""
    return torch.float64 if config.dtype == "float64" else torch.float32


def _place(tensor: Tensor, config: RunConfig) -> Tensor:
    """Return a tensor on the run's device, floats in the run's dtype."""
    return tensor.to(config.device, dtype_of(config) if tensor.is_floating_point() else tensor.dtype)


def _task(config: RunConfig, dataset: Dataset, shares: Shares, adversarial: Adversarial | None) -> TrainingTask:
    module = config.model.build(dataset, config.seed).to(config.device, dtype_of(config))
    data = ClientData(
        features=_place(dataset.features, config),
        labels=_place(dataset.labels, config),
        num_classes=dataset.num_classes,
        shares=shares,
        order=torch.from_numpy(shares.order).to(config.device),
        adversarial=adversarial,
        seed=config.seed,
    )
    return TrainingTask(
        module, Layout.of(module), config.model.loss(), config.model.l2, config.local(), data, config.seed
    )


def _probe(task: TrainingTask, config: RunConfig, dataset: Dataset, attacked: tuple[Tensor, Tensor]) -> Evaluator:
    """Return who looks at whether an adversary gets what it wants."""
    features, labels = attacked
    metrics = {ATTACK_SUCCESS: AttackSuccessRate()}
    reader = reader_for(metrics.values(), task_of(config, dataset), dataset)
    looking = _evaluator(task, _place(features, config), _place(labels, config), np.arange(len(labels)))
    return replace(looking, metrics=metrics, reader=reader)


def _evaluator(task: TrainingTask, features: Tensor, labels: Tensor, points: NDArray[np.int64]) -> Evaluator:
    if len(points) < len(labels):
        places = torch.from_numpy(points).to(labels.device)
        features, labels = features[places], labels[places]
    return Evaluator(copy.deepcopy(task.module), task.layout, task.loss, task.l2, features, labels)
