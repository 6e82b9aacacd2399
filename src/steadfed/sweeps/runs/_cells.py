"""Cells: what a grid comes down to. A cell is a run; its identity is everything that decides what comes of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, final

from steadfed._core.own_code import loaded
from steadfed._linalg.sketch import is_cheaper
from steadfed.aggregators import Aggregator, Mean
from steadfed.aggregators._registry import RULES
from steadfed.attacks import ATTACKS, FixedMembers, FractionMembers, Honest, Membership, Silence
from steadfed.data import DATASETS, Dataset, DataSource
from steadfed.errors import CohortTooSmallError, ParameterError, SteadfedError
from steadfed.metrics import TABLE, USUAL, Metric, OverClients, checked_metrics, column_of, is_usual, known_metric
from steadfed.partitions import PARTITIONS
from steadfed.runs import config_to_toml
from steadfed.runs._code import code_digests
from steadfed.simulation import NoCompression, RunConfig, config_from_table
from steadfed.simulation._compression import check_memories
from steadfed.simulation._setting import check_trust, deal_out
from steadfed.simulation._step_schedules import StepSchedule, plain_local_steps, read_local_steps
from steadfed.sweeps._ranking import NO_ATTACK, ORACLE, Label
from steadfed.sweeps._store import key_of
from steadfed.sweeps.matrices._catalogue import with_bound
from steadfed.sweeps.runs._choices import (
    ANY,
    ATTACK,
    FRACTION,
    HETEROGENEITY,
    PARTICIPATION,
    RULE,
    SEED,
    Choice,
    Table,
    label_of,
    label_of_steps,
    place_choices,
)
from steadfed.sweeps.runs._grid import ComparisonGrid
from steadfed.theory.sampling import tolerated_for

FORMAT = 1
"""Changed when the same configuration would give other results."""
_EVALUATIONS, _CHECKPOINTS = 20, 5
_CLIENTS = 100
"""How many clients are scored where a grid is ranked by them and does not say."""


@final
@dataclass(frozen=True, kw_only=True)
class ComparisonCell:
    """A point of a grid, and the run that it stands for. Points may share a run."""

    settings: Mapping[str, Label]
    """Every key of the grid with the label that was chosen, and what the usual keys are where it chooses nothing."""
    config: RunConfig
    key: str
    """The name of the run: a hash of its configuration and of the data."""
    num_byzantine: int
    """B, how many of all clients are Byzantine."""
    assumed: int
    """f, how many Byzantine updates the rule assumes."""
    code: str
    """The source of the user's own rule and attack, hashed: see `code_digests`."""
    refused: str | None = None
    """Why the rule would not aggregate so few updates."""


@final
@dataclass
class CellPlanner:
    """Turns points into cells; data are loaded once and dealt out once."""

    grid: ComparisonGrid
    _data: dict[str, Dataset] = field(default_factory=dict)
    _clients: dict[tuple[str, str, int, int], int] = field(default_factory=dict)
    _dims: dict[tuple[str, str, int], int] = field(default_factory=dict)
    _seen: set[tuple[tuple[str, str], ...]] = field(default_factory=set)
    """Points that were looked at, without what does not matter in them."""

    def cells(self) -> list[ComparisonCell]:
        """Return the cells of the grid, the reference of a setting before the rules in it.

        Raises:
            SteadfedError: a combination means nothing, or the data are missing.
        """
        found: dict[tuple[tuple[str, Label], ...], ComparisonCell] = {}
        attacks: dict[Label, None] = {}
        for point in self.grid.points():
            attacks |= {point[ATTACK].label: None} if ATTACK in point else {}
            for cell in self._cells_at(point):
                place = tuple(sorted(cell.settings.items()))
                if found.setdefault(place, cell).key != cell.key:
                    raise ParameterError(
                        f"two different runs would be called {dict(place)!r}; give one of the choices a label"
                    )
        _check_attacks_are_played(list(attacks), found.values())
        return list(found.values())

    def _cells_at(self, point: Mapping[str, Choice]) -> Iterator[ComparisonCell]:
        table = place_choices(self.grid.setting_of(point).base, point)
        try:
            if self.grid.reference and self._is_new(point, {RULE, ATTACK}):
                yield self._cell(
                    point, {**table, RULE: RULES.to_table(Mean()), ATTACK: ATTACKS.to_table(Silence())}, ORACLE
                )
            nobody = FRACTION in point and point[FRACTION].value == 0.0
            if self._is_new(point, {ATTACK} if nobody else set()):
                yield self._cell(point, table)
        except SteadfedError as error:
            shown = ", ".join(f"{key} = {chosen.label!r}" for key, chosen in point.items())
            raise type(error)(f"the combination {shown}: {error}") from None

    def _is_new(self, point: Mapping[str, Choice], beside: set[str]) -> bool:
        """Return whether no point before was the same but for some keys; it is remembered."""
        rest = tuple(sorted((key, repr(each)) for key, each in point.items() if key not in beside))
        rest += tuple((key, "") for key in sorted(beside))
        new = rest not in self._seen
        self._seen.add(rest)
        return new

    def _cell(self, point: Mapping[str, Choice], table: Table, label: str | None = None) -> ComparisonCell:
        rule = table.get(RULE, {"name": "rage"})
        table = _with_metric(table, self.grid.metric)
        config = config_from_table(_with_defaults({**table, RULE: with_bound(rule, 0)}))
        dataset = self.dataset(config.data)
        num_clients = self._num_clients(config, dataset)
        if PARTICIPATION in point:
            cohort_size = max(1, round(point[PARTICIPATION].value * num_clients))
            config = config.model_copy(update={"cohort_size": cohort_size})
        config.cohorts.check(num_clients, config.cohort_size)
        num_byzantine = _num_byzantine(config.byzantine, num_clients, config.seed)
        probability = self.grid.setting_of(point).bound_probability
        bound = _bound(num_clients, num_byzantine, config.cohort_size, probability)
        config = config.model_copy(update={"rule": RULES.from_table(with_bound(rule, bound))})
        config = _canonical(config, num_byzantine, num_clients)
        played = loaded(config)
        check_trust(played)
        return ComparisonCell(
            settings=_settings(point, config, num_byzantine / num_clients, num_clients, label),
            config=config,
            key=_key(config, dataset.checksum, sketched=self._is_sketched(played, dataset)),
            num_byzantine=num_byzantine,
            code=str(code_digests(config)),
            assumed=played.rule.assumed_byzantine(played.cohort_size),
            refused=_refusal(played) or self._forgetting(played, dataset),
        )

    def dataset(self, source: DataSource) -> Dataset:
        """Return the data of a source, loaded once."""
        name = repr(source)
        if name not in self._data:
            self._data[name] = source.load()
        return self._data[name]

    def _is_sketched(self, config: RunConfig, dataset: Dataset) -> bool:
        """Tell whether the rule sees updates of this size through sketches."""
        passes, cohort = config.rule.sketch_passes(), config.cohort_size
        if not is_cheaper(cohort, sys.maxsize, passes):
            return False
        return is_cheaper(cohort, config.compression.number(self._dim(config, dataset)), passes)

    def _forgetting(self, config: RunConfig, dataset: Dataset) -> str | None:
        """Return why a rule or an attack that remembers vectors cannot take part where coordinates change."""
        if isinstance(config.compression, NoCompression):
            return None
        try:
            check_memories(config.compression, self._dim(config, dataset), config.rule, config.attack)
        except ParameterError as error:
            return str(error)
        return None

    def _dim(self, config: RunConfig, dataset: Dataset) -> int:
        """Return d, how many parameters the model has."""
        name = (dataset.checksum, repr(config.model), config.seed)
        if name not in self._dims:
            model = config.model.build(dataset, config.seed)
            self._dims[name] = sum(parameter.numel() for parameter in model.parameters())
        return self._dims[name]

    def _num_clients(self, config: RunConfig, dataset: Dataset) -> int:
        """Return R, which some partitions find in the data."""
        name = (dataset.checksum, repr(config.partition), config.seed, config.server.trusted_points)
        if name not in self._clients:
            shares, own = deal_out(config, dataset)
            self._clients[name] = shares.num_clients - (own is not None)
        return self._clients[name]


def _check_attacks_are_played(attacks: Iterable[Label], cells: Iterable[ComparisonCell]) -> None:
    """Refuse a grid of attacks that nobody would carry out."""
    named = [str(label) for label in attacks if label != NO_ATTACK]
    if named and not any(cell.num_byzantine for cell in cells):
        raise ParameterError(
            f"the grid names attacks ({', '.join(named[:3])}), and no client is Byzantine in any of its settings; "
            f"write {FRACTION} = 0.2 into [grid], or leave the attacks out"
        )


@lru_cache(maxsize=1000)
def _num_byzantine(membership: Membership, num_clients: int, seed: int) -> int:
    """Return B, how many clients are Byzantine in a round."""
    return int(membership.members(0, num_clients, seed).sum())


@lru_cache(maxsize=1000)
def _bound(num_clients: int, num_byzantine: int, cohort_size: int, probability: float) -> int:
    """Return the smallest f that a cohort keeps to with a probability; B if all clients are in it."""
    return tolerated_for(
        num_clients=num_clients, num_byzantine=num_byzantine, cohort_size=cohort_size, failure=1.0 - probability
    )


def _key(config: RunConfig, data_checksum: str, *, sketched: bool) -> str:
    """Return the identity of a run; how often the state is saved decides nothing, so it is left out.

    So is how inner products are found, unless it was chosen or matters: cells of old, without such a choice, stay. A
    rule or an attack of the user's own is the source at its import path, so that results of other code are not taken.
    """
    text = config_to_toml(config.model_copy(update={"checkpoint_every": 1}))
    if not sketched:
        usual = {f'gram = "{type(rule).model_fields["gram"].default}"' for rule in _with_gram(config.rule)}
        text = "".join(line for line in text.splitlines(keepends=True) if line.strip() not in usual)
    code = code_digests(config)
    return key_of(FORMAT, text, data_checksum, *([code] if code else []))


def _with_gram(rule: Aggregator) -> Iterator[Aggregator]:
    """Yield the rules of a chain that have a choice of how inner products are found."""
    return (each for each in rule.chain() if "gram" in type(each).model_fields)


def _canonical(config: RunConfig, num_byzantine: int, num_clients: int) -> RunConfig:
    """Return the one configuration that stands for all that mean the same."""
    changes: dict[str, Any] = {"adversary_knows": tuple(sorted(set(config.adversary_knows)))}
    if not num_byzantine:
        changes |= {"byzantine": FractionMembers(fraction=0.0), "attack": Honest()}
    elif isinstance(config.byzantine, FractionMembers):
        changes |= {"byzantine": FractionMembers(fraction=num_byzantine / num_clients)}
    elif isinstance(config.byzantine, FixedMembers):
        changes |= {"byzantine": FixedMembers(clients=tuple(sorted(config.byzantine.clients)))}
    return config.model_copy(update=changes)


def _with_metric(table: Table, metric: str | None) -> Table:
    """Return the table with the metric that the grid is ranked by among those that its runs look at."""
    if metric is None:
        return table
    if issubclass(known_metric(metric) or Metric, OverClients):
        return {**table, "evaluation": {"client_scores": _CLIENTS, **table.get("evaluation", {})}}
    asked = checked_metrics(table.get("metrics", []))
    if column_of(metric) != f"{TABLE}.{metric}" or metric in asked or (USUAL in asked and is_usual(metric)):
        return table
    return {**table, "metrics": [*asked, metric]}


def _with_defaults(table: Table) -> Table:
    """Return the table with what suits cells: few looks at the model, few checkpoints, nothing measured."""
    steps = table.get("local_steps")
    if isinstance(steps, (Mapping, list)):
        steps = read_local_steps(steps)  # which is hashable
    rounds = _rounds(table.get("rounds"), table.get("total_steps"), steps)
    evaluation = {"every": max(1, rounds // _EVALUATIONS), "train_points": 0, "measured_rounds": 0}
    return {
        "checkpoint_every": max(1, rounds // _CHECKPOINTS),
        **table,
        "evaluation": {**evaluation, **table.get("evaluation", {})},
    }


@lru_cache(maxsize=100)
def _rounds(rounds: int | None, total_steps: int | None, local_steps: int | StepSchedule | None) -> int:
    given = {"rounds": rounds, "total_steps": total_steps, "local_steps": local_steps}
    return config_from_table({key: value for key, value in given.items() if value is not None}).rounds


def _settings(
    point: Mapping[str, Choice], config: RunConfig, fraction: float, num_clients: int, label: str | None
) -> dict[str, Label]:
    """Return what is chosen, by the words of the grid; what does not matter has one word."""
    usual: dict[str, Label] = {
        "data": label_of(DATASETS.to_table(config.data)),
        HETEROGENEITY: label_of(PARTITIONS.to_table(config.partition)),
        FRACTION: fraction,
        PARTICIPATION: config.cohort_size / num_clients,
        "local_steps": _steps_label(config),
        RULE: label_of(RULES.to_table(config.rule)),
        ATTACK: label_of(ATTACKS.to_table(config.attack)),
        SEED: config.seed,
    }
    chosen = {**usual, **{key: each.label for key, each in point.items()}}
    if fraction == 0.0:
        chosen |= {ATTACK: NO_ATTACK}
    if label is not None:
        chosen |= {RULE: label, ATTACK: ANY if fraction else NO_ATTACK}
    return chosen


def _steps_label(config: RunConfig) -> Label:
    """Return the number of local steps, or the list or schedule of them in a few words."""
    steps = config.local_steps
    return label_of_steps(plain_local_steps(steps)) if isinstance(steps, StepSchedule) else steps


def _refusal(config: RunConfig) -> str | None:
    try:
        config.rule.check_cohort(config.cohort_size)
    except CohortTooSmallError as error:
        return str(error)
    return None
