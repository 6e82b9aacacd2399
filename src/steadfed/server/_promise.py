"""Whom the promise of a weighted rule covers, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from steadfed._core.wording import harmless, joined, percent, plural
from steadfed.aggregators import Aggregator, Rage
from steadfed.aggregators._rage.weighing import ROUNDING, Weighing
from steadfed.errors import InputError, ParameterError
from steadfed.server._record import Client
from steadfed.server._site_weights import Sites

_LISTED, _LETTERS = 4, 40
"""Names in a sentence, and letters of each."""


@final
@dataclass(frozen=True)
class Promise:
    """Which sites may lie, of those whose shares these are.

    >>> promise = Promise({"Aachen": 0.517, "Jena": 0.083, "Ulm": 0.4}, 0.4)
    >>> promise.words
    'any one site but Aachen, which holds 51.7 %'
    """

    shares: Mapping[Client, float]
    """What each holds of the weight of all."""
    byzantine: float
    """Which share sites that lie may hold together."""

    @classmethod
    def of(cls, rule: Aggregator, sites: Sites, names: Sequence[Client]) -> Promise | None:
        """Return whom a rule promises something about if all of these are asked; None if it promises nothing of it.

        Raises:
            CohortTooSmallError: half of the weight, or more, may be Byzantine.
        """
        if not isinstance(rule, Rage):
            return None
        weights = np.array(list(sites.among(names).values()))
        everybody = np.ones(len(weights), dtype=np.bool_)
        if rule.byzantine_weight is not None:
            weighing = Weighing.of_share(weights, everybody, rule.byzantine_weight, 0.0)
        else:
            weighing = Weighing.of_number(weights, everybody, rule.assumed_byzantine(len(weights)))
        weighing.check(everybody, rule)
        total = float(weighing.weights.sum())
        return cls(dict(zip(names, (weighing.weights / total).tolist(), strict=True)), weighing.byzantine / total)

    @property
    def beyond(self) -> list[Client]:
        """Those who hold more than may lie, the heaviest first: nothing is promised if one of them does."""
        heavy = [name for name, share in self.shares.items() if share > self.byzantine + ROUNDING]
        return sorted(heavy, key=lambda name: -self.shares[name])

    @property
    def any_number(self) -> int:
        """The largest k such that any k of those within the bound may lie together."""
        within = sorted((share for share in self.shares.values() if share <= self.byzantine + ROUNDING), reverse=True)
        return int((np.cumsum(within) <= self.byzantine + ROUNDING).sum())

    @property
    def words(self) -> str:
        """Whom it covers, as a phrase."""
        beyond, number = self.beyond, self.any_number
        if not number:
            return "no site: each holds more than may lie"
        sites = "any one site" if number == 1 else f"any {number} sites together"
        if not beyond:
            return sites
        named = [f"{harmless(name, limit=_LETTERS)}, which holds {percent(self.shares[name])}" for name in beyond[:1]]
        if len(beyond) > 1:
            named = [f"{harmless(name, limit=_LETTERS)} ({percent(self.shares[name])})" for name in beyond[:_LISTED]]
        if more := len(beyond) - _LISTED:
            named = [*named, plural(more, "larger one")] if more > 0 else named
        return f"{sites} but {joined(named)}"

    @property
    def sentence(self) -> str:
        """The same as a sentence."""
        return f"sites that hold at most {percent(self.byzantine)} of the weight together may lie: {self.words}"


def check_coverage(rule: Aggregator, sites: Sites, names: Sequence[Client]) -> Promise | None:
    """Return whom a rule promises something about; refuse a bound under which a round with all these promises nothing.

    Raises:
        ParameterError: half of the weight, or more, may be Byzantine.
    """
    try:
        return Promise.of(rule, sites, names)
    except InputError as error:
        raise ParameterError(str(error)) from None
