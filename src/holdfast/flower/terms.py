"""What the server asks of its clients and of itself, checked before the first round, in a simulation's words."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, final

from flwr.app import ConfigRecord

from holdfast.aggregators import Aggregator, Need
from holdfast.data.remote import RemoteData
from holdfast.errors import ParameterError
from holdfast.flower.layout import ModelLayout
from holdfast.flower.rounds import Tampering
from holdfast.models.remote import RemoteModel
from holdfast.partitions.remote import RemotePartition
from holdfast.simulation import RunConfig
from holdfast.simulation.config import Evaluation, ServerOptions

if TYPE_CHECKING:
    from holdfast.flower.strategy import HoldfastStrategy

Known = TypeVar("Known")
FULL_BATCH = 0
"""What stands for "all points of the client" in a ConfigRecord, which has numbers for batch sizes."""


@final
@dataclass(frozen=True)
class Terms:
    """H, η, b and the rule of a run; and what of it is sent."""

    run: RunConfig
    sends_lr: bool

    @classmethod
    def of(cls, *, lr: float | None, **settings: Any) -> Terms:
        """Check settings of `RunConfig`, by its own names.

        Raises:
            ParameterError: a value is outside its range.
        """
        return cls(RunConfig(lr=1.0 if lr is None else lr, **settings), lr is not None)

    def lasting(self, rounds: int) -> Terms:
        """Return the same for so many rounds; schedules look at it."""
        return replace(self, run=RunConfig(**{**dict(self.run), "rounds": rounds}))

    def lr_of(self, round: int) -> float:
        """Return η of a round: what updates are divided by, and what the step is multiplied with."""
        return self.run.lr_of(round)

    def config(self, round: int, given: ConfigRecord) -> ConfigRecord:
        """Return what a client is told in a round; the user's own entries come first, and cannot replace these."""
        batch_size = self.run.batch_size
        own: dict[str, int | float] = {
            "server-round": round + 1,
            "round": round,
            "local-steps": self.run.local_steps,
            "batch-size": FULL_BATCH if batch_size == "full" else batch_size,
            "seed": self.run.seed,
        }
        if self.sends_lr:
            own["lr"] = self.lr_of(round)
        return ConfigRecord({**given, **own})

    def described(
        self, layout: ModelLayout, *, num_clients: int, cohort_size: int, twin: RunConfig | None
    ) -> RunConfig:
        """Return the configuration that is written into the run folder; of the data only what the operator knows."""
        changes: dict[str, Any] = {"cohort_size": cohort_size}
        if twin is None:
            changes |= {
                "data": RemoteData(),
                "partition": RemotePartition(num_clients=num_clients),
                "model": RemoteModel(dim=layout.dim, fingerprint=layout.fingerprint()),
                "evaluation": Evaluation(measured_rounds=0),
            }
        else:
            same = ("data", "partition", "model", "byzantine", "attack", "adversary_knows", "client", "dtype")
            changes |= {name: getattr(twin, name) for name in same}
            changes["evaluation"] = Evaluation(measured_rounds=twin.evaluation.measured_rounds)
        return RunConfig(**{**dict(self.run), **changes})


def known(value: Known | None) -> Known:
    """Return what is known from the first round on; `ParameterError` before it."""
    if value is None:
        raise ParameterError("the model is not known before the first round; call configure_train first")
    return value


def whole(name: str, value: Any, *, least: int) -> int:
    """Return a whole number that is at least so large; `ParameterError` otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ParameterError(f"{name} must be a whole number from {least} on, got {value!r}")
    return value


def share(name: str, value: Any) -> float:
    """Return a number between 0 and 1; `ParameterError` otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise ParameterError(f"{name} must lie between 0 and 1, got {value!r}")
    return float(value)


def seconds(name: str, value: Any) -> float:
    """Return a finite number of seconds from 0 on; `ParameterError` otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value < math.inf:
        raise ParameterError(f"{name} must be a number of seconds from 0 on, got {value!r}")
    return float(value)


def _are_words(patterns: Any) -> bool:
    sequence = isinstance(patterns, Sequence) and not isinstance(patterns, (str, bytes))
    return sequence and all(isinstance(pattern, str) for pattern in patterns)


_WORD = (lambda value: isinstance(value, str) and value != "", "a word")
_FUNCTION = (lambda value: value is None or callable(value), "a function or None")
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "weighted_by_key": _WORD,
    "arrayrecord_key": _WORD,
    "configrecord_key": _WORD,
    "train_metrics_aggr_fn": _FUNCTION,
    "evaluate_metrics_aggr_fn": _FUNCTION,
    "trusted_update_fn": _FUNCTION,
    "trusted_loss_fn": _FUNCTION,
    "run_folder": (
        lambda path: path is None or (isinstance(path, (str, os.PathLike)) and path != ""),
        "a path or None",
    ),
    "twin": (lambda twin: twin is None or isinstance(twin, RunConfig), "a RunConfig or None"),
    "convert_dtypes": (lambda value: isinstance(value, bool), "True or False"),
    "buffers": (_are_words, 'patterns such as ["*running_var"]'),
    "tampering": (lambda value: value is None or isinstance(value, Tampering), "a Tampering or None"),
}
"""What a setting must be that no `RunConfig` checks, and how to say it."""


def _check_kinds(strategy: HoldfastStrategy) -> None:
    """Refuse settings that are not even of their kind: they would fail in some round."""
    for name, (fits, what) in _KINDS.items():
        value = getattr(strategy, name)
        if not fits(value):
            raise ParameterError(f"{name} must be {what}, got {value!r}")
    if strategy.arrayrecord_key == strategy.configrecord_key:
        key = strategy.arrayrecord_key
        raise ParameterError(f"arrayrecord_key and configrecord_key must be different words, got {key!r} for both")


def terms_of(strategy: HoldfastStrategy) -> Terms:
    """Refuse what cannot be, and return what the clients are told."""
    rule = strategy.the_rule()
    if not isinstance(rule, Aggregator):
        raise ParameterError(f"the rule must be an Aggregator of holdfast, such as Rage(num_byzantine=1); got {rule!r}")
    for name in ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes"):
        whole(name, getattr(strategy, name), least=1)
    if strategy.num_train_nodes is not None:
        whole("num_train_nodes", strategy.num_train_nodes, least=1)
    share("fraction_train", strategy.fraction_train)
    share("fraction_evaluate", strategy.fraction_evaluate)
    seconds("wait_for_nodes", strategy.wait_for_nodes)
    _check_kinds(strategy)
    needs = rule.all_needs()
    for need, name in ((Need.TRUSTED_ROW, "trusted_update_fn"), (Need.TRUSTED_LOSS, "trusted_loss_fn")):
        if need in needs and getattr(strategy, name) is None:
            raise ParameterError(f"{rule!r} needs {need}; give {name}")
    return Terms.of(
        lr=strategy.lr,
        rule=rule,
        local_steps=strategy.local_steps,
        batch_size=strategy.batch_size,
        schedule=strategy.schedule,
        seed=strategy.seed,
        cohorts=strategy.cohorts,
        server=ServerOptions(momentum=strategy.server_momentum),
    )
