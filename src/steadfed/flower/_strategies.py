"""The strategies that are used: a rule, and everything that `ResilientStrategy` does around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast, final

from steadfed._core.own_code import loaded
from steadfed.aggregators import RULES, Aggregator, Rage
from steadfed.errors import ParameterError
from steadfed.flower._strategy import ResilientStrategy


@final
@dataclass(kw_only=True, eq=False)
class RobustStrategy(ResilientStrategy):
    """A Flower strategy around any rule of steadfed, or of the user's own.

    >>> from steadfed.aggregators import Krum
    >>> RobustStrategy(Krum(num_byzantine=2), num_train_nodes=10).the_rule()
    Krum(num_byzantine=2)
    >>> import torch
    >>> own = RobustStrategy(lambda updates: updates.median(0).values)
    >>> own.the_rule()(torch.tensor([[1.0], [2.0], [9.0]])).update
    tensor([2.])
    """

    rule: Aggregator | Callable[..., object] | str = field(kw_only=False)
    """How replies are aggregated: a rule, its name, or a function of the updates, as at an import path. With a
    `run_folder` the function must have one."""

    def __post_init__(self) -> None:
        """Load the rule, and refuse what cannot be."""
        named = RULES.of(self.rule, written=self.run_folder is not None)
        self.rule = loaded(named) if isinstance(named, Aggregator) else named
        super().__post_init__()

    def the_rule(self) -> Aggregator:
        """Return the rule."""
        return cast("Aggregator", self.rule)


@final
@dataclass(kw_only=True, eq=False)
class RageStrategy(ResilientStrategy):
    """A Flower strategy around RAGE; give one of `num_malicious_nodes`, `byzantine_fraction` and `byzantine_weight`.

    With fewer than six nodes in a round it removes updates that lie far out, but hardly tells a Byzantine one near the
    others from an honest site with unlike data. If the server has clean data of its own, take
    `RobustStrategy(FlTrust(), trusted_update_fn=…)` or `RobustStrategy(Zeno(…), trusted_loss_fn=…)` there.

    >>> RageStrategy(num_malicious_nodes=2).the_rule()
    Rage(num_byzantine=2)
    """

    num_malicious_nodes: int | None = None
    """How many of the nodes asked in a round may be Byzantine."""
    byzantine_fraction: float | None = None
    """Which share of the nodes asked in a round may be Byzantine."""
    byzantine_weight: float | None = None
    """Which share of the weight of the nodes asked in a round Byzantine ones may hold together, see `site_weights`."""

    def the_rule(self) -> Aggregator:
        """Return the filter."""
        try:
            return Rage(
                num_byzantine=self.num_malicious_nodes,
                byzantine_fraction=self.byzantine_fraction,
                byzantine_weight=self.byzantine_weight,
            )
        except ParameterError as error:
            bounds = ("num_malicious_nodes", "byzantine_fraction", "byzantine_weight")
            given = ", ".join(f"{name}={getattr(self, name)!r}" for name in bounds)
            raise ParameterError(f"{given}: {error}") from None
