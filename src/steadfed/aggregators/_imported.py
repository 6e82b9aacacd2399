"""The user's own rule, by import path: an `Aggregator`, a function of the updates, or an object that is called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, PrivateAttr
from torch import Tensor

from steadfed._core.calling import Offers, asks_for
from steadfed._core.own_code import Imported
from steadfed._core.rng import stream
from steadfed._core.values import ValueObject
from steadfed._linalg.columns import Columns
from steadfed._linalg.gram import all_or_usable
from steadfed._linalg.own_results import call_with_rows, tensor_of, vector_of
from steadfed._linalg.shards import ShardedColumns
from steadfed.aggregators._base import (
    Aggregator,
    Claim,
    LooselyBoundedAggregator,
    Updates,
    scatter_usable,
    stop_or_too_many,
    usable_bound,
)
from steadfed.aggregators._evidence import Aggregation, Stop
from steadfed.aggregators._registry import RULES
from steadfed.aggregators._view import ServerView
from steadfed.errors import InputError, OwnCodeError, ParameterError

_BOUNDS = ("num_byzantine", "byzantine_fraction")
_MOST_TRIED = 20_000_000
"""Numbers of a matrix that a function is tried on before a run."""


@RULES.imports
@final
class ImportedRule(LooselyBoundedAggregator, Imported):
    """A rule of the user's own: written `import = "module:name"`, or by that name wherever a rule is named.

    What is there may be

    - a function of the updates, as tensor (or array, if its parameter is annotated so), which returns the update, or a
      pair of the update and the weights of the clients. It gets by their names `num_byzantine` (or `f`), how many of
      the rows it sees may be Byzantine; `view`, a `ServerView`; and the arguments that stand beside its import path.
      Unusable rows are removed before it sees them, unless it asks for `usable`, which tells them from the others;
    - a class of objects that are called like that, such as those of ByzFL: its constructor gets the same by name. The
      object is built for every call anew, so that it remembers nothing;
    - an `Aggregator`: a class, which gets the arguments as its parameters, or an object.

    Of a function that returns no weights is not known whose updates it trusts, and what it makes up is claimed not to
    keep anything. Told no bound, it is taken to stand any minority. Code is executed when the rule is called or
    `loaded`, and not before.

    >>> rule = ImportedRule(import_path="numpy:median", axis=0)
    >>> result = rule(torch.tensor([[1.0, 5.0], [2.0, 6.0], [float("nan"), 7.0]]))
    >>> result.update, result.attributed, result.usable.tolist()
    (tensor([1.5000, 5.5000]), False, [True, True, False])
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    citation: ClassVar[str] = "the user's own"
    what: ClassVar[str] = "the rule"
    base: ClassVar[type[ValueObject]] = Aggregator
    offered: ClassVar[tuple[str, ...]] = ("num_byzantine", "f", "usable", "view")

    _claimed: frozenset[Claim] = PrivateAttr(default=frozenset())

    @torch.no_grad()
    def __call__(self, updates: Updates, view: ServerView | None = None) -> Aggregation:
        """Let the code aggregate the rows: see `Aggregator`.

        Raises:
            ParameterError: there is no such code, or it cannot be called with what there is.
            OwnCodeError: it failed on these rows, or what it returned is no update.
        """
        own = self.load()
        return own(updates, view) if not isinstance(own, ImportedRule) else super().__call__(updates, view)

    def load(self) -> Aggregator:
        """Return the `Aggregator` that the code defines, or for a function this rule itself."""
        return cast("Aggregator", super().load())

    def parameters_for(self, cls: type[ValueObject]) -> dict[str, Any]:
        """Return the arguments, and the assumed bound as far as a class of rules takes one."""
        bounds = {name: getattr(self, name) for name in _BOUNDS if name in cls.model_fields}
        return {**self.arguments, **{name: value for name, value in bounds.items() if value is not None}}

    def default_byzantine(self, cohort_size: int) -> int:
        """Return the largest number below half of the updates."""
        return (cohort_size - 1) // 2

    def breaks(self) -> frozenset[Claim]:
        """Return everything, as nothing is known of a function; but for what it is taken to keep."""
        return frozenset(Claim) - self._claimed

    def claiming(self, claims: frozenset[Claim]) -> ImportedRule:
        """Return the same rule, taken to keep something: for whoever looks whether it does."""
        return self.model_copy().claim(claims)

    def claim(self, claims: frozenset[Claim]) -> Self:
        """Take the rule to keep something, and return it."""
        self._claimed = claims
        return self

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        """Copy the rows, so that the function may do with them what it likes, and call it."""
        own = self.load()
        if not isinstance(own, ImportedRule):
            return own.aggregate(columns, num_byzantine, view)
        if isinstance(columns, ShardedColumns):
            raise InputError(f"{self.import_path} is a function of whole rows; columns over several processes are none")
        usable = all_or_usable(columns)
        bound = usable_bound(num_byzantine, usable)
        function, arguments = own.function(bound)
        whole = asks_for(function, "usable")
        rows = columns.empty((columns.num_rows, columns.num_columns))
        columns.centred(0, columns.num_columns, None, rows)
        if not whole and not usable.all():
            rows = rows[torch.from_numpy(usable).to(rows.device)]
            view = replace(view, clients=np.array(view.identities(len(usable)), dtype=object)[usable].tolist())
        offers = _offers(num_byzantine if whole else bound, view, usable)
        returned = call_with_rows(function, rows, offers, arguments, self.import_path)
        return self._evidence(returned, rows, usable, num_byzantine, whole=whole)

    def _evidence(
        self, returned: Any, rows: Tensor, usable: NDArray[np.bool_], num_byzantine: int, *, whole: bool
    ) -> Aggregation:
        """Return what a function returned with what is known of it."""
        weights = None
        if isinstance(returned, Aggregation):
            raise OwnCodeError(
                f"{self.import_path} must return the update, or the update and weights; rules that return an "
                f"Aggregation derive from Aggregator"
            )
        if type(returned) is tuple and len(returned) == 2:
            returned, weights = returned
        update = vector_of(returned, rows, self.import_path)
        if weights is None:
            share, scores = usable / max(1, int(usable.sum())), np.zeros(int(usable.sum()))
        else:
            among = usable if not whole else np.ones(len(usable), dtype=bool)
            share = _shares(weights, among, usable, self.import_path)
            scores = 1.0 - share[usable] / share.max()
        return Aggregation(
            update=update,
            weights=torch.from_numpy(share),
            kept=torch.from_numpy(share > 0.0),
            usable=torch.from_numpy(usable),
            scores=scatter_usable(scores, usable, np.inf),
            stop=stop_or_too_many(Stop.NOT_SAID if weights is None else Stop.OWN_WEIGHTS, num_byzantine, usable),
            num_byzantine=num_byzantine,
            attributed=weights is not None,
        )

    def try_on(self, num_rows: int, num_columns: int) -> None:
        """Call a function with rows of random numbers, as many as a run will have, unless they are very many.

        Raises:
            ParameterError: it fails, or returns what is no update.
        """
        own = self.load()
        if not isinstance(own, ImportedRule) or num_rows * num_columns > _MOST_TRIED:
            return
        rows = torch.from_numpy(stream(0, "own-rule").standard_normal((num_rows, num_columns), dtype=np.float32))
        try:
            own(rows, ServerView(model=torch.zeros(num_columns)))
        except OwnCodeError as error:
            raise ParameterError(f"tried on random numbers, {error}") from error


def _offers(num_byzantine: int, view: ServerView, usable: NDArray[np.bool_]) -> Offers:
    """Return what a function may ask for by name."""
    return {
        "num_byzantine": lambda: num_byzantine,
        "f": lambda: num_byzantine,
        "usable": lambda: torch.from_numpy(usable.copy()),
        "view": lambda: view,
    }


def _shares(weights: Any, among: NDArray[np.bool_], usable: NDArray[np.bool_], who: str) -> NDArray[np.float64]:
    """Return weights of the rows that a function saw as shares of all K; unusable rows must have none."""
    given = tensor_of(weights, f"{who}, as weights,").detach().to("cpu", torch.float64).numpy()
    if given.shape != (int(among.sum()),):
        raise OwnCodeError(
            f"{who} must return one weight for each of the {int(among.sum())} updates it saw, got shape {given.shape}"
        )
    if not (np.isfinite(given).all() and (given >= 0.0).all() and given.sum() > 0.0):
        raise OwnCodeError(f"{who} must return finite weights from 0 on, not all 0; got {given.tolist()!s:.200}")
    share = np.zeros(len(among))
    share[among] = given / given.sum()
    if share[~usable].any():
        raise OwnCodeError(f"{who} must give no weight to rows with NaN, Inf or overflowing squares")
    return share
