"""What every aggregator is: a pure map from the K x d matrix of updates to an `Aggregation`."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from steadfed._core.arrays import Vector
from steadfed._core.values import ValueObject, real_number, whole_number
from steadfed._core.wording import joined
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import Gram
from steadfed._linalg.sketch import SketchedColumns, SketchFailsError, sketch_pays
from steadfed._linalg.sources import as_columns
from steadfed._linalg.threads import one_blas_thread
from steadfed.aggregators._evidence import Aggregation, Sketch, Stop
from steadfed.aggregators._view import Need, ServerView
from steadfed.errors import CohortTooSmallError, ParameterError

Updates = Tensor | NDArray[np.floating] | Sequence[Tensor] | Sequence[NDArray[np.floating]] | Columns
"""What may be aggregated: one row per client. Also a numpy memmap, and `ShardedColumns` over several processes."""

RANGES = {
    "byzantine_fraction": "0 <= byzantine_fraction < 0.5",
    "num_byzantine": "num_byzantine >= 0",
    "byzantine_weight": "0 <= byzantine_weight < 0.5",
}
"""What the ways to say a bound may be."""

RULES_THAT_WEIGH = "Mean, and Rage in modes 'auto', 'spread' and 'known'"


class Claim(Enum):
    """What a rule may keep under changes of its input; the value is a phrase for people."""

    PERMUTATION = "reordering clients only reorders the verdicts"
    TRANSLATION = "a common shift of all rows shifts the update"
    SCALING = "a common positive factor scales the update"
    ROTATION = "a rotation of all rows rotates the update"
    HULL = "in every coordinate the update lies within the usable rows"
    IDEMPOTENCE = "equal rows give that row"
    LINEARITY = "the update is the weighted sum of the rows"


class Aggregator(ValueObject, ABC):
    """A robust rule. Final subclasses are configured by their fields and called with the updates.

    Pure and deterministic: the same matrix (and the same secret, where the rule makes a sketch of it) gives the same
    result, the input is neither changed nor aliased, and
    nothing is remembered. A bad row (NaN, Inf, or so large that its square overflows) is removed and reported; it
    never raises and never reaches the update.
    """

    citation: ClassVar[str]
    """Where the rule is defined."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    """What the rule cannot do without besides the rows."""
    weighs: ClassVar[bool] = False
    """Whether the rule is defined for rows that count differently, as the operator weighs their sites."""

    @torch.no_grad()
    def __call__(self, updates: Updates, view: ServerView | None = None) -> Aggregation:
        """Aggregate the rows of `updates`, float32 or float64, into one update with the evidence for it.

        Args:
            updates: one row per client.
            view: what the server knows besides, for rules that need it or remember something.

        Raises:
            ShapeError: not a K x d matrix with K >= 1 and d >= 1, or rows of different length.
            DtypeError: neither float32 nor float64.
            CohortTooSmallError: fewer rows than the rule needs.
            NoUsableRowError: no row is finite with a finite squared norm.
            MissingKnowledgeError: the rule needs something that the view does not hold.
            TooManySubsetsError: the rule searches subsets, and these rows have too many.
            ParameterError: the view weighs the rows, and the rule cannot.
        """
        columns = as_columns(updates)
        view = view or ServerView()
        if view.weights is not None:
            self.check_weighs()
        assumed = self.assumed_of(columns.num_rows, view.cohort_size)
        if view.unequal_weights(columns.num_rows) is None:
            self._check_rows(columns.num_rows, assumed)
        with one_blas_thread():
            if sketch_pays(columns, self.sketch_passes()):
                sketched = SketchedColumns(columns, _secret(columns, view))
                told = Sketch(num_buckets=sketched.num_buckets, secret=sketched.secret)
                try:
                    return replace(self.aggregate(sketched, assumed, view), sketch=told)
                except SketchFailsError:
                    return replace(self.aggregate(columns, assumed, view), sketch=replace(told, fits=False))
            return self.aggregate(columns, assumed, view)

    @abstractmethod
    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return how many of `cohort_size` rows the rule assumes to be Byzantine."""

    def assumed_of(self, num_rows: int, cohort_size: int | None) -> int:
        """Return how many of the rows that arrived are assumed Byzantine, if so many clients were asked for one.

        A bound that was given as a fraction is about those who were asked: all the Byzantine ones may have answered.
        """
        *_, innermost = self.chain()
        told = isinstance(innermost, LooselyBoundedAggregator) and innermost.byzantine_fraction is not None
        return self.assumed_byzantine(max(num_rows, cohort_size or 0) if told else num_rows)

    @abstractmethod
    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return how many rows the rule needs to stand `num_byzantine` Byzantine ones."""

    @abstractmethod
    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Aggregate a source of columns of which `num_byzantine` rows are assumed Byzantine.

        Called by `__call__` after the checks, and by a wrapper, which knows better how many of the rows it hands over
        may be bad.
        """

    def can_weigh(self) -> bool:
        """Return whether rows may count differently, with these parameters."""
        return self.weighs

    def check_weighs(self) -> None:
        """Refuse weights for a rule that cannot take them into account.

        Raises:
            ParameterError: this one cannot.
        """
        if not self.can_weigh():
            raise ParameterError(
                f"{self!r} gives every client the same say and cannot weigh them; rules that can: {RULES_THAT_WEIGH}"
            )

    def sketch_passes(self) -> int:
        """Return how many sketches of the rows the rule makes; 0 if it computes with the rows themselves."""
        return 0

    def breaks(self) -> frozenset[Claim]:
        """Return what most rules keep and this one, by its definition and with these parameters, does not."""
        return frozenset()

    def remembers(self) -> bool:
        """Return whether the rule asks for vectors to be given back in the next round; most do not."""
        return False

    def claims(self) -> frozenset[Claim]:
        """Return what the rule keeps, and every rule inside it."""
        return frozenset(Claim).difference(*(rule.breaks() for rule in self.chain()))

    def all_needs(self) -> frozenset[Need]:
        """Return what the rule, or a rule inside it, cannot do without."""
        return frozenset().union(*(rule.needs for rule in self.chain()))

    def chain(self) -> Iterator[Aggregator]:
        """Yield the rule and the rules inside it, outermost first."""
        yield self
        for name in type(self).model_fields:
            inner = getattr(self, name)
            if isinstance(inner, Aggregator):
                yield from inner.chain()

    def check_cohort(self, cohort_size: int) -> None:
        """Raise `CohortTooSmallError` if the rule needs more than `cohort_size` updates."""
        self._check_rows(cohort_size, self.assumed_byzantine(cohort_size))

    def _check_rows(self, num_rows: int, assumed: int) -> None:
        needed = self.smallest_cohort(assumed)
        if num_rows < needed:
            raise CohortTooSmallError(
                f"{self!r} assumes {assumed} Byzantine of {num_rows} updates, and needs at least {needed} updates for "
                f"that; aggregate more updates or assume fewer Byzantine clients"
            )


class GramAggregator(Aggregator, ABC):
    """A rule that decides by inner products of rows, and may see these through a sketch."""

    gram: Literal["exact", "fast"] = "exact"
    """Whether inner products of rows are computed, or estimated from a sketch where that is cheaper.

    An estimate costs one pass over memory, whatever the number of clients. Wrappers around the rule use it too: with
    "fast" those that clip cut rows by estimates of their norms."""

    def sketch_passes(self) -> int:
        """Return 1 if inner products may be estimated."""
        return int(self.gram == "fast")


class LooselyBoundedAggregator(Aggregator, ABC):
    """A rule that may be told the assumed bound, as a fraction of the updates received or as a number, not both."""

    bounds: ClassVar[tuple[str, ...]] = ("byzantine_fraction", "num_byzantine")
    """The ways to tell it."""

    byzantine_fraction: Annotated[float, Field(ge=0.0, lt=0.5), BeforeValidator(real_number)] | None = None
    """ε, the assumed share of Byzantine updates; f = ⌈ε K⌉."""
    num_byzantine: Annotated[int, Field(ge=0), BeforeValidator(whole_number)] | None = None
    """f, the assumed number of Byzantine updates."""

    @abstractmethod
    def default_byzantine(self, cohort_size: int) -> int:
        """Return how many Byzantine updates are assumed when nothing was said."""

    @model_validator(mode="after")
    def _at_most_one_bound(self) -> LooselyBoundedAggregator:
        if len(told := self._told()) > 1:
            got = "both" if len(told) == len(self.bounds) else f"{'both ' if len(told) == 2 else ''}{joined(told)}"
            raise ValueError(f"give one of {joined(self.bounds)}, got {got}: {self._allowed()}")
        return self

    def _told(self) -> list[str]:
        return [name for name in self.bounds if getattr(self, name) is not None]

    def _allowed(self) -> str:
        return ", or ".join(RANGES[name] for name in self.bounds)

    def assumed_byzantine(self, cohort_size: int) -> int:
        """Return f = ⌈ε K⌉, with ε read as the simple fraction that was meant.

        ⌈0.1 · 30⌉ is 3 and ⌈(5/12) · 12⌉ is 5, although in binary both products lie a little above. What was meant is
        the nearest fraction with a denominator of at most a million.
        """
        if self.num_byzantine is not None:
            return self.num_byzantine
        if self.byzantine_fraction is not None:
            return math.ceil(simple_fraction(self.byzantine_fraction) * cohort_size)
        return self.default_byzantine(cohort_size)

    def smallest_cohort(self, num_byzantine: int) -> int:
        """Return 2f + 1, an honest majority, for rules that need no more."""
        return 2 * num_byzantine + 1


class MinorityAggregator(LooselyBoundedAggregator, ABC):
    """A rule that stands any minority: told nothing, it assumes that fewer than half of the rows are Byzantine."""

    def default_byzantine(self, cohort_size: int) -> int:
        """Return the largest number below half of the updates."""
        return (cohort_size - 1) // 2


class BoundedAggregator(LooselyBoundedAggregator, ABC):
    """A rule that must be told the bound: exactly one of `byzantine_fraction` and `num_byzantine`."""

    @model_validator(mode="after")
    def _a_bound(self) -> BoundedAggregator:
        if not self._told():
            got = "neither" if len(self.bounds) == 2 else "none"
            raise ValueError(f"give exactly one of {joined(self.bounds)}, got {got}: {self._allowed()}")
        return self

    def default_byzantine(self, cohort_size: int) -> int:
        """Return 0; never used, as a bound was given."""
        del cohort_size
        return 0


def simple_fraction(value: float) -> Fraction:
    """Return the nearest fraction with a denominator of at most a million: what was meant by 0.1."""
    return Fraction(value).limit_denominator(10**6)


def _secret(columns: Columns, view: ServerView) -> int:
    """Return the view's secret, or one for all holders that the system draws now that all rows are in."""
    if view.secret is not None:
        return view.secret
    words = columns.agree(np.frombuffer(os.urandom(16), dtype="<u4").astype(np.float64))
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


def usable_bound(num_byzantine: int, usable: NDArray[np.bool_]) -> int:
    """Return how many Byzantine rows may be left among the usable ones: every unusable row counts as one of them."""
    return max(0, num_byzantine - int((~usable).sum()))


def scatter_usable(values: Vector, usable: NDArray[np.bool_], elsewhere: float) -> Tensor:
    """Return values of the usable rows in their places among all K rows."""
    everywhere = np.full(len(usable), elsewhere)
    everywhere[usable] = values
    return torch.from_numpy(everywhere)


def aggregation_of(
    columns: Columns, gram: Gram, weights: Vector, *, scores: Vector, stop: Stop, num_byzantine: int, **evidence: Any
) -> Aggregation:
    """Return the aggregation of a rule that gave weights and scores to the usable rows of a Gram matrix."""
    share = columns.agree(scatter_usable(weights, gram.usable, 0.0).numpy())
    return Aggregation(
        update=columns.combine(share),
        weights=torch.from_numpy(share),
        kept=torch.from_numpy(share > 0.0),
        usable=torch.from_numpy(gram.usable),
        scores=scatter_usable(scores, gram.usable, np.inf),
        stop=stop_or_too_many(stop, num_byzantine, gram.usable),
        num_byzantine=num_byzantine,
        **evidence,
    )


def stop_or_too_many(stop: Stop, num_byzantine: int, usable: NDArray[np.bool_]) -> Stop:
    """Return `stop`, unless more rows were unusable than are assumed Byzantine."""
    return Stop.TOO_MANY_UNUSABLE if int((~usable).sum()) > num_byzantine else stop
