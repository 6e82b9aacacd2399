"""The strategies that are used: a rule, and everything that `ResilientStrategy` does around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from steadfed.aggregators import Aggregator, Rage
from steadfed.errors import ParameterError
from steadfed.flower._strategy import ResilientStrategy


@final
@dataclass(kw_only=True, eq=False)
class RobustStrategy(ResilientStrategy):
    """A Flower strategy around any rule of steadfed.

    >>> from steadfed.aggregators import Krum
    >>> RobustStrategy(Krum(num_byzantine=2), num_train_nodes=10).the_rule()
    Krum(num_byzantine=2)
    """

    rule: Aggregator = field(kw_only=False)
    """How replies are aggregated."""

    def the_rule(self) -> Aggregator:
        """Return the rule."""
        return self.rule


@final
@dataclass(kw_only=True, eq=False)
class RageStrategy(ResilientStrategy):
    """A Flower strategy around RAGE; give one of `num_malicious_nodes` and `byzantine_fraction`.

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

    def the_rule(self) -> Aggregator:
        """Return the filter."""
        try:
            return Rage(num_byzantine=self.num_malicious_nodes, byzantine_fraction=self.byzantine_fraction)
        except ParameterError as error:
            given = f"num_malicious_nodes={self.num_malicious_nodes!r}, byzantine_fraction={self.byzantine_fraction!r}"
            raise ParameterError(f"{given}: {error}") from None
