"""What a wrapper is: a mixture of the rows, handed to the rule inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import InstanceOf

from holdfast.aggregators.base import Aggregator, scattered, stop_or_too_many, usable_bound
from holdfast.aggregators.evidence import Aggregation
from holdfast.aggregators.view import ServerView
from holdfast.linalg.columns import Columns, Matrix, Vector
from holdfast.linalg.gram import gram_with_points, pivoted_gram
from holdfast.linalg.mixtures import MixedColumns


@dataclass(frozen=True)
class Mixing:
    """What a wrapper decided about n usable rows."""

    matrix: Matrix
    """A, m x (n + 1): the rows that the rule inside sees, as combinations of the n rows and the origin."""
    stands_for: NDArray[np.intp]
    """n: the mixed row whose score a client gets."""
    num_byzantine: int
    """How many of the m mixed rows may be bad."""


class Wrapper(Aggregator, ABC):
    """A rule that changes the rows and lets another rule aggregate them.

    The rule inside is told its bound in clients: `byzantine_fraction` is a share of the K rows that came in, not of
    what the wrapper makes of them. Decisions are taken in the Gram matrix, which the rule inside shares
    (`holdfast.linalg.mixtures`). A certificate of the rule inside speaks of mixed rows and is not passed on.
    """

    looks_at_origin: ClassVar[bool] = True
    """Whether `mix` looks at the origin or gives it a share; if not, it is not measured, which saves a pass."""

    rule: InstanceOf[Aggregator]
    """The rule inside; may be a wrapper itself."""

    @abstractmethod
    def mix(self, gram: Matrix, num_byzantine: int, view: ServerView) -> Mixing:
        """Return the mixture of n rows, given the Gram matrix of these rows followed by the origin.

        The last row and column are zero, and mean nothing, if the wrapper does not look at the origin.
        """

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return what the rule inside assumes of the clients."""
        return self.rule.assumed_byzantine(cohort_size)

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Mix the usable rows, aggregate the mixture, and give shares and scores back to the clients."""
        gram = pivoted_gram(columns)
        with_origin = gram_with_points(columns, gram, [None]) if self.looks_at_origin else np.pad(gram.matrix, (0, 1))
        mixing = self.mix(with_origin, usable_bound(num_byzantine, gram.usable), view)
        mixed = MixedColumns(columns, columns.agree(mixing.matrix), gram, with_origin)
        inner = self.rule.aggregate(mixed, mixing.num_byzantine, _seen_inside(view, gram.usable, mixing))
        weights = _clients_weights(inner.weights.numpy(), mixed, mixing)
        return replace(
            inner,
            weights=torch.from_numpy(weights),
            kept=torch.from_numpy(weights > 0.0),
            usable=torch.from_numpy(gram.usable),
            scores=scattered(inner.scores.numpy()[mixing.stands_for], gram.usable, np.inf),
            stop=stop_or_too_many(inner.stop, num_byzantine, gram.usable),
            num_byzantine=num_byzantine,
            certificate=None,
        )


def _seen_inside(view: ServerView, usable: NDArray[np.bool_], mixing: Mixing) -> ServerView:
    """Return the view with a name for every mixed row: that of the first client it stands for."""
    names = np.array(view.identities(len(usable)), dtype=object)[usable]
    first = [int(np.argmax(mixing.stands_for == row)) for row in range(len(mixing.matrix))]
    return replace(view, clients=names[first].tolist())


def _clients_weights(inner: Vector, mixed: MixedColumns, mixing: Mixing) -> Vector:
    """Return the clients' shares in the update without that of the origin, normalised.

    If the update is all origin, because only rows that were shrunk to it have weight, clients have the weight of the
    mixed row they stand for.
    """
    shares = mixed.shares(inner)
    if not shares.any():
        shares[mixed.gram.usable] = inner[mixing.stands_for]
    return np.asarray(shares / (shares.sum() or 1.0))
