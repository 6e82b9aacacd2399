"""What a wrapper is: it changes the rows and hands them to the rule inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, InstanceOf

from steadfed._core.arrays import Matrix, Vector
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import gram_with_points, pivoted_gram, squared_distances
from steadfed._linalg.mixtures import DerivedColumns, MixedColumns, ScaledColumns
from steadfed._linalg.norms import clip_factors, row_norms
from steadfed.aggregators._base import Aggregator, scatter_usable, stop_or_too_many, usable_bound
from steadfed.aggregators._evidence import Aggregation
from steadfed.aggregators._view import ServerView


@dataclass(frozen=True)
class Mixing:
    """What a wrapper decided about n usable rows."""

    matrix: Matrix
    """A, m x n: the rows that the rule inside sees, as combinations of the n rows."""
    stands_for: NDArray[np.intp]
    """n: the mixed row whose score a client gets."""
    num_byzantine: int
    """How many of the m mixed rows may be bad."""


class Bounds(NamedTuple):
    """How many may be bad."""

    clients: int
    """Of the K clients."""
    rows: int
    """Of the rows that the rule inside sees."""


class Wrapper(Aggregator, ABC):
    """A rule that changes the rows and lets another rule aggregate them.

    The rule inside is told its bound in clients: `byzantine_fraction` is a share of the K rows that came in, not of
    what the wrapper makes of them. A certificate of the rule inside speaks of other rows and is not passed on.
    """

    rule: Annotated[InstanceOf[Aggregator], Field(examples=["median"])]
    """The rule inside; may be a wrapper itself."""

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return what the rule inside assumes of the clients."""
        return self.rule.assumed_byzantine(cohort_size)

    def sketch_passes(self) -> int:
        """Return 1 if the rule inside wants estimates; what it certifies is not passed on, so no more than that."""
        return int(self.rule.sketch_passes() == 1)

    def hand_on(
        self, rows: DerivedColumns, stands_for: NDArray[np.intp], bounds: Bounds, view: ServerView
    ) -> Aggregation:
        """Let the rule inside aggregate `rows`, and give shares and scores back to the clients.

        Args:
            rows: what was made of the usable rows.
            stands_for: the row there whose score and name each usable client has.
            bounds: how many of the clients, and how many of `rows`, may be bad.
            view: the server's view of the clients.
        """
        inner = self.rule.aggregate(rows, bounds.rows, _seen_inside(view, rows, stands_for))
        weights = _clients_weights(inner.weights.numpy(), rows, stands_for)
        return replace(
            inner,
            weights=torch.from_numpy(weights),
            kept=torch.from_numpy(weights > 0.0),
            usable=torch.from_numpy(rows.usable),
            scores=scatter_usable(inner.scores.numpy()[stands_for], rows.usable, np.inf),
            stop=stop_or_too_many(inner.stop, bounds.clients, rows.usable),
            num_byzantine=bounds.clients,
            certificate=None,
        )


class MixingWrapper(Wrapper, ABC):
    """A wrapper that averages rows; it decides in the Gram matrix, shared by the rule inside (`_linalg.mixtures`)."""

    @abstractmethod
    def mix(self, gram: Matrix, num_byzantine: int, view: ServerView) -> Mixing:
        """Return the mixture of n usable rows, given their Gram matrix."""

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Mix the usable rows and hand them on."""
        gram = pivoted_gram(columns)
        mixing = self.mix(gram.matrix, usable_bound(num_byzantine, gram.usable), view)
        shares = columns.agree(np.pad(mixing.matrix, ((0, 0), (0, 1))))
        mixed = MixedColumns(columns, shares, gram, np.pad(gram.matrix, (0, 1)))
        return self.hand_on(mixed, mixing.stands_for, Bounds(num_byzantine, mixing.num_byzantine), view)


class ShrinkingWrapper(Wrapper, ABC):
    """A wrapper that shrinks rows to a norm about the origin.

    It needs the norms only, and reads scaled rows afterwards; rows that are mixtures already have a Gram matrix, from
    which the norms and the Gram matrix of the scaled rows follow.
    """

    @abstractmethod
    def radius_for(self, norms: Vector, num_byzantine: int) -> float:
        """Return the norm to which longer rows are shrunk, given the norms of the usable rows."""

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return what the rule inside needs."""
        return self.rule.smallest_cohort(num_byzantine)

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Shrink the usable rows and hand them on."""
        gram = columns.derived_gram()
        with_origin = None if gram is None else gram_with_points(columns, gram, [None])
        if gram is None or with_origin is None:
            norms, usable = row_norms(columns)
        else:
            norms = np.sqrt(squared_distances(with_origin)[:-1, -1])
            usable = gram.usable
        bound = usable_bound(num_byzantine, usable)
        factors = columns.agree(clip_factors(norms, self.radius_for(norms, bound)))
        shrunk: DerivedColumns = ScaledColumns(columns, usable, factors)
        if gram is not None and with_origin is not None:
            mixing = np.concatenate([np.diag(factors), 1.0 - factors[:, None]], axis=1)
            shrunk = MixedColumns(columns, mixing, gram, with_origin)
        return self.hand_on(shrunk, np.arange(len(norms)), Bounds(num_byzantine, bound), view)


def _seen_inside(view: ServerView, rows: DerivedColumns, stands_for: NDArray[np.intp]) -> ServerView:
    """Return the view with a name for every row that was made: that of the first client it stands for."""
    names = np.array(view.identities(len(rows.usable)), dtype=object)[rows.usable]
    first = [int(np.argmax(stands_for == row)) for row in range(rows.num_rows)]
    return replace(view, clients=names[first].tolist())


def _clients_weights(inner: Vector, rows: DerivedColumns, stands_for: NDArray[np.intp]) -> Vector:
    """Return the clients' shares in the update without that of the origin, normalised.

    If the update is all origin, because only rows that were shrunk to it have weight, clients have the weight of the
    row they stand for.
    """
    shares = rows.shares(inner)
    if not shares.any():
        shares[rows.usable] = inner[stands_for]
    return np.asarray(shares / (shares.sum() or 1.0))
