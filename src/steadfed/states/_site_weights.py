"""How much the operator lets each site count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from steadfed._core.lookup import nearest
from steadfed.aggregators import Aggregator
from steadfed.errors import ParameterError
from steadfed.server._record import Client

SiteWeights: TypeAlias = Mapping[str, float] | Mapping[int, float] | Mapping[Client, float]
"""Positive numbers by the names of clients, set by the operator; no client has a say in them."""


def check_site_weights(site_weights: SiteWeights | None, asked: Iterable[Client], rule: Aggregator) -> None:
    """Refuse weights that are none, that leave somebody out, or that the rule cannot take into account.

    Raises:
        ParameterError: one of these; no rule weighs clients yet.
    """
    if site_weights is None:
        return
    if not isinstance(site_weights, Mapping):
        raise ParameterError(
            f"site_weights must be a number for each name of a client, got {type(site_weights).__name__}"
        )
    for client, weight in site_weights.items():
        whole = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not whole or not 0 < weight < math.inf:
            raise ParameterError(f"the site weight of {client!r} must be a finite number above 0, got {weight!r}")
    for client in asked:
        if client not in site_weights:
            hint = nearest(client, map(str, site_weights))
            raise ParameterError(f"{client!r} has no site weight{hint}; give one to everybody who is asked")
    raise ParameterError(
        f"{rule!r} gives every client the same say and cannot weigh them by size; leave site_weights out"
    )
