"""The user's own attack, by import path: an `Attack`, a function of the honest updates, or an object that is called."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, cast, final

import torch
from jaxtyping import Float
from pydantic import ConfigDict
from torch import Tensor

from steadfed._core.calling import Offers
from steadfed._core.own_code import Imported
from steadfed._core.rng import stream
from steadfed._core.values import ValueObject
from steadfed._linalg.own_results import call_with_rows, tensor_of
from steadfed.aggregators import Mean, ServerView
from steadfed.attacks._base import Aim, Attack, DirectedAttack, Forged, same_for_all, sent_by_all
from steadfed.attacks._geometry import finite_rows
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._view import EVERYTHING, AdversaryView, Knowledge
from steadfed.errors import OwnCodeError, ParameterError

_MOST_TRIED = 1_000
"""Columns of the matrix that a function is tried on before a run."""


@ATTACKS.imports
@final
class ImportedAttack(Imported, DirectedAttack):
    """An attack of the user's own: written `import = "module:name"`, or by that name wherever an attack is named.

    What is there may be

    - a function of the honest updates, as tensor (or array, if its parameter is annotated so), which returns one update
      for all Byzantine clients or a matrix with one for each; NaN is allowed. It gets by their names `num_byzantine`
      (or `f`), how many clients the adversary has in the cohort; `own_updates`, what these would send if they were
      honest; `generator`, numpy's, of the round; `view`, an `AdversaryView`; and the arguments that stand beside its
      import path. If honest updates are not granted, it is given those of the adversary's own clients in their place.
      Updates with NaN or overflowing squares are left out;
    - a class of objects that are called like that, such as those of ByzFL, built for every call anew;
    - an `Attack`: a class, which gets the arguments as its parameters, or an object.

    `optimal+module:name` searches how far to go from the mean of the honest updates towards what a function returns.
    Code is executed when the attack is called or `loaded`, and not before.

    >>> view = AdversaryView(
    ...     num_byzantine=2, cohort_size=4, own_rows=torch.zeros(2, 1), honest_rows=torch.tensor([[1.0], [3.0]])
    ... )
    >>> ImportedAttack(import_path="numpy:sum", axis=0)(view).rows
    tensor([[4.],
            [4.]])
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")
    citation: ClassVar[str] = "the user's own"
    what: ClassVar[str] = "the attack"
    base: ClassVar[type[ValueObject]] = Attack
    offered: ClassVar[tuple[str, ...]] = ("num_byzantine", "f", "own_updates", "generator", "view")
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    @torch.no_grad()
    def __call__(self, view: AdversaryView) -> Forged:
        """Let the code forge: see `Attack`.

        Raises:
            ParameterError: there is no such code, or it cannot be called with what there is.
            OwnCodeError: it failed on these updates, or what it returned is no update.
            MissingKnowledgeError: the attack must know something that the view does not grant.
        """
        own = self.load()
        return own(view) if not isinstance(own, ImportedAttack) else super().__call__(view)

    def load(self) -> Attack:
        """Return the `Attack` that the code defines, or for a function this attack itself."""
        return cast("Attack", super().load())

    def forge(self, view: AdversaryView) -> Forged:
        """Copy the honest rows, so that the function may do with them what it likes, and call it."""
        seen = finite_rows(view.seen)
        offers: Offers = {
            "num_byzantine": lambda: view.num_byzantine,
            "f": lambda: view.num_byzantine,
            "own_updates": partial(_copy_of_own, view),
            "generator": lambda: view.generator("own", self.import_path),
            "view": lambda: view,
        }
        function, arguments = self.function(view.num_byzantine)
        returned = call_with_rows(function, seen.clone(), offers, arguments, self.import_path)
        return sent_by_all(self._rows(returned, view))

    def aim(self, view: AdversaryView) -> Aim:
        """Start at the mean of the rows seen, and go to what the function returns, at strength 1."""
        centre = same_for_all(finite_rows(view.seen).mean(0), view)
        return Aim(centre, self.forge(view).rows - centre, 1.0)

    def _rows(self, returned: Any, view: AdversaryView) -> Float[Tensor, "f d"]:
        """Return what a function returned as one row for every Byzantine client."""
        tensor = tensor_of(returned, self.import_path).detach()
        number, width = view.own_rows.shape
        if tensor.shape not in {(width,), (number, width)}:
            raise OwnCodeError(
                f"{self.import_path} must return one update of {width:,} numbers, or a matrix with one for each of the "
                f"{number} Byzantine clients; got shape {tuple(tensor.shape)}"
            )
        return tensor.to(dtype=view.own_rows.dtype, device=view.own_rows.device, copy=True).repeat(
            (number, 1) if tensor.ndim == 1 else (1, 1)
        )

    def try_on(self, num_columns: int, granted: frozenset[Knowledge] = EVERYTHING) -> None:
        """Call a function with rows of random numbers, against the mean.

        Raises:
            ParameterError: it fails, or returns what is no update.
            MissingKnowledgeError: it looks at what is not granted.
        """
        own = self.load()
        if not isinstance(own, ImportedAttack):
            return
        shape = (7, min(num_columns, _MOST_TRIED))
        rows = torch.from_numpy(stream(0, "own-attack").standard_normal(shape)).float()
        try:
            own(
                AdversaryView(
                    num_byzantine=2,
                    cohort_size=7,
                    own_rows=rows[:2],
                    honest_rows=rows[2:],
                    server_rule=Mean(),
                    server_view=ServerView(model=torch.zeros(rows.shape[1])),
                    granted=granted,
                )
            )
        except OwnCodeError as error:
            raise ParameterError(f"tried on random numbers, {error}") from error


def _copy_of_own(view: AdversaryView) -> Tensor:
    """Return what the adversary's clients would send; looked at only if it is asked for, as it may not be granted."""
    return view.own.clone()
