"""In which layers of a model the updates deviate that the rule removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.aggregators import Aggregation
from steadfed.server._coordinates import Places
from steadfed.server._decision import Skipped
from steadfed.server._record import Client, Deviation
from steadfed.server._round import Received
from steadfed.states._layout import ModelLayout

MOST_LAYERS = 5
"""Of so many layers a record keeps the shares: those with the largest."""
_DIGITS = 6
_BLOCK = 1 << 16


def shares_of_removed(
    layout: ModelLayout, received: Received, outcome: Aggregation | Skipped
) -> dict[Client, dict[str, float]]:
    """Return for every client whose update was removed each layer's share of ‖g − ĝ‖², the largest first.

    Of an update that holds no numbers of use there is nothing to say. The shares of a client sum to 1; they are rounded
    to six digits, so that they do not depend on a processor's order of summation.
    """
    if isinstance(outcome, Skipped):
        return {}
    layers = [*columns_of_layers(layout, received.places)]
    judged = (~outcome.kept & outcome.usable).tolist()
    rows = zip(received.clients, received.updates, judged, strict=True)
    found = {client: layer_shares(row, outcome.update, layers) for client, row, removed in rows if removed}
    return {client: shares for client, shares in found.items() if shares}


def deviations(shares: dict[Client, dict[str, float]]) -> tuple[Deviation, ...]:
    """Return what a record keeps of them."""
    return tuple(
        Deviation(client=client, layers=dict(islice(layers.items(), MOST_LAYERS))) for client, layers in shares.items()
    )


def columns_of_layers(layout: ModelLayout, places: Places) -> Iterator[tuple[str, slice]]:
    """Yield the layers of a model and which columns of a row are theirs; of a row of some coordinates, if it is one.

    >>> layout = ModelLayout.of({"a": torch.ones(2), "b": torch.ones(3)})
    >>> list(columns_of_layers(layout, torch.tensor([1, 2, 4])))
    [('a', slice(0, 1, None)), ('b', slice(1, 3, None))]
    """
    for spec in layout.parameters:
        if places is None:
            yield spec.name, spec.columns
        else:
            ends = torch.searchsorted(places, torch.tensor([spec.columns.start, spec.columns.stop])).tolist()
            yield spec.name, slice(*ends)


def layer_shares(
    row: Float[Tensor, " d"], update: Float[Tensor, " d"], layers: Sequence[tuple[str, slice]]
) -> dict[str, float]:
    """Return each layer's share of the squared distance between a row and the update, the largest first.

    Empty, if the two are equal, or farther apart than can be squared.

    >>> layers = [("a", slice(0, 2)), ("b", slice(2, 3))]
    >>> layer_shares(torch.tensor([1.0, 5.0, 2.0]), torch.tensor([0.0, 5.0, 0.0]), layers)
    {'b': 0.8, 'a': 0.2}
    """
    squares = {name: _squared_distance(row[columns], update[columns]) for name, columns in layers}
    total = sum(squares.values())
    if not 0.0 < total < float("inf"):
        return {}
    shares = {name: round(square / total, _DIGITS) for name, square in squares.items()}
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _squared_distance(row: Float[Tensor, " n"], update: Float[Tensor, " n"]) -> float:
    """Return it summed in float64, a block at a time."""
    blocks = (slice(start, start + _BLOCK) for start in range(0, len(row), _BLOCK))
    return sum(float((row[block].double() - update[block].double()).square().sum()) for block in blocks)
