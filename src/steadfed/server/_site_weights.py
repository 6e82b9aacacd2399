"""How much the operator lets each site count, and how that reaches a rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

from steadfed._core.lookup import nearest
from steadfed._core.values import shown
from steadfed.aggregators import ServerView
from steadfed.errors import ParameterError
from steadfed.server._record import Client

SiteWeights: TypeAlias = Mapping[str, float] | Mapping[int, float] | Mapping[Client, float]
"""Positive numbers by the names of clients, set by the operator; no client has a say in them."""


@final
@dataclass(frozen=True)
class Sites:
    """What each site weighs, and which share of a round's weight it may hold at the most.

    >>> sites = Sites.of({"Aachen": 517.0, "Jena": 83.0, "Ulm": 400.0}, max_share=0.45)
    >>> {name: round(weight) for name, weight in sites.among(["Aachen", "Jena", "Ulm"]).items()}
    {'Aachen': 374, 'Jena': 83, 'Ulm': 374}
    """

    weights: Mapping[Client, float]
    max_share: float | None = None

    @classmethod
    def of(cls, weights: Any, max_share: Any = None) -> Sites:
        """Return the sites that an operator describes.

        Raises:
            ParameterError: weights are not positive finite numbers by name, or a share is none that all can keep to.
        """
        if not isinstance(weights, Mapping):
            raise ParameterError(f"site_weights must be a number for each name of a client, got {shown(weights)}")
        for client, weight in weights.items():
            if not _is_positive(weight):
                raise ParameterError(f"site_weights of {client!r} must be a finite number above 0, got {shown(weight)}")
        if not weights:
            raise ParameterError("site_weights must name at least one site, got {}")
        least = 1.0 / len(weights)
        if max_share is not None and not (_is_positive(max_share) and least <= max_share * (1.0 + 1e-9) <= 1.0 + 1e-9):
            raise ParameterError(
                f"max_share must be a share from {least:.4g} (of {len(weights)} sites one has that at least) to 1, "
                f"got {shown(max_share)}"
            )
        ServerView(weights=list(weights.values()))
        return cls(dict(weights), max_share)

    def check_names(self, names: Iterable[Client]) -> None:
        """Refuse to leave somebody unweighted who may be asked.

        Raises:
            ParameterError: a name has no weight.
        """
        for client in names:
            if client not in self.weights:
                hint = nearest(str(client), map(str, self.weights))
                raise ParameterError(f"{client!r} has no site weight{hint}; give one to everybody who is asked")

    def among(self, asked: Sequence[Client]) -> dict[Client, float]:
        """Return what each of those weighs who are asked in a round, heavy ones cut to what they may hold of that."""
        weights = [float(self.weights[client]) for client in asked]
        most = math.inf if self.max_share is None else largest_weight(weights, self.max_share)
        return {client: min(weight, most) for client, weight in zip(asked, weights, strict=True)}

    def told(self, view: ServerView, clients: Sequence[Client], asked: Sequence[Client]) -> ServerView:
        """Return a view with what the rows of these clients weigh, of those that were asked."""
        weights = self.among(asked)
        return replace(
            view, weights=[weights[client] for client in clients], cohort_weight=math.fsum(weights.values()) or None
        )


def largest_weight(weights: Sequence[float], share: float) -> float:
    """Return t, the largest number to which weights may be cut so that none is above a share of their sum.

    That is Σ min(w_i, t) · share = t for the heaviest: what is cut off them is as good as dealt out to the others in
    proportion. If the share is below 1/n, nothing is, and t is the least weight: all are equal.

    >>> largest_weight([6.0, 3.0, 1.0], 0.5), largest_weight([6.0, 3.0, 1.0], 0.6), largest_weight([6.0, 3.0, 1.0], 0.1)
    (4.0, 6.0, 1.0)
    """
    ordered = sorted(weights, reverse=True)
    rest = math.fsum(ordered)
    for number, weight in enumerate(ordered):  # the `number` heaviest are cut, the others are not
        room = 1.0 - number * share
        if room <= 0.0:
            break
        level = share * rest / room
        if weight <= level * (1.0 + 1e-12):
            return max(weight, level) if number else weight
        rest -= weight
    return ordered[-1] if ordered else math.inf


def sites_of(site_weights: Any, max_share: Any = None) -> Sites | None:
    """Return the sites that an operator describes; None without weights.

    Raises:
        ParameterError: a share without weights, or what `Sites.of` refuses.
    """
    if site_weights is None:
        if max_share is not None:
            raise ParameterError(f"max_share caps site_weights, which are not given; got max_share={shown(max_share)}")
        return None
    return Sites.of(site_weights, max_share)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
