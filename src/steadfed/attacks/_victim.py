"""The server's rule as the adversary tries it out before it strikes.

Most rules see the rows through their inner products only: a rotation of all rows rotates the update. Against such a
rule everything the adversary tries lies in the span of a few vectors (the rows it has seen, the centres and directions
of the attack, what the server trusts), so it searches in an orthonormal basis of that span, where a row has as many
numbers as there are vectors and not as many as the model has parameters. Inner products are the same there, and so is
the damage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from steadfed.aggregators import Aggregation, Aggregator, Claim, Need, ServerView
from steadfed.attacks._geometry import are_usable, finite_rows
from steadfed.attacks._view import AdversaryView, Knowledge


@dataclass(frozen=True, eq=False)
class Victim:
    """A rule with the honest rows it will see, perhaps in coordinates of a smaller space."""

    rule: Aggregator
    honest: Float[Tensor, "n m"]
    server: ServerView
    mean: Float[Tensor, " m"]

    def aggregate(self, forged: Float[Tensor, "f m"]) -> Aggregation:
        """Return what the server would make of the forged rows in front of the honest ones."""
        return self.rule(torch.cat([forged.to(self.honest), self.honest]), self.server)

    def damage(self, forged: Float[Tensor, "f m"]) -> float:
        """Return the distance of the update to the mean of the honest rows."""
        return float(torch.linalg.vector_norm(self.aggregate(forged).update.double() - self.mean))


def expected_victim(view: AdversaryView, *groups: Float[Tensor, "r d"]) -> tuple[Victim, list[Tensor]]:
    """Return the rule as the view shows it, and the vectors of `groups` in the coordinates it is tried in.

    An adversary that does not see the honest rows takes its own for them, as often as there are honest clients. Rows
    that are unusable stay so, and count for the rule as they will; the mean is that of the others.
    """
    number = view.cohort_size - view.num_byzantine
    rows = view.honest if view.may(Knowledge.HONEST) else view.own[torch.arange(max(1, number)) % view.num_byzantine]
    server = view.server_view or ServerView()
    if _is_compressible(view.rule, rows, *groups):
        rows, server, groups = _compressed(rows, server, view.cohort_size, *groups)
    return Victim(view.rule, rows, server, finite_rows(rows).double().mean(0)), list(groups)


def _is_compressible(rule: Aggregator, rows: Tensor, *groups: Tensor) -> bool:
    """Tell whether the rule sees inner products only, and the vectors are few and have them."""
    number = len(rows) + sum(len(group) for group in groups)
    few = 2 * number < rows.shape[1] and all(bool(group.isfinite().all()) for group in groups)
    return Claim.ROTATION in rule.claims() and Need.TRUSTED_LOSS not in rule.all_needs() and few


def _compressed(
    rows: Tensor, server: ServerView, width: int, *groups: Tensor
) -> tuple[Tensor, ServerView, tuple[Tensor, ...]]:
    """Return everything in an orthonormal basis of its span, in float64; a memory of the rule is left out.

    The basis is followed by zeros up to `width` numbers, as a rule may ask whether rows are longer than they are many.
    """
    known = [vector for vector in (server.trusted_row, server.model) if vector is not None]
    usable = are_usable(rows)
    spanning = rows if bool(usable.all()) else torch.where(usable[:, None], rows, 0.0)
    vectors = torch.cat([spanning, *groups, *(vector[None] for vector in known)]).double()
    basis = np.linalg.qr(vectors.numpy().T)[0]
    coordinates = torch.from_numpy(vectors.numpy() @ basis)
    coordinates = torch.nn.functional.pad(coordinates, (0, max(0, width - basis.shape[1])))
    sizes = [len(rows), *(len(group) for group in groups), *(1 for _ in known)]
    parts = list(torch.split(coordinates, sizes))
    parts[0] = torch.where(usable[:, None], parts[0], torch.nan)
    trusted = parts[1 + len(groups)][0] if server.trusted_row is not None else None
    model = parts[-1][0] if server.model is not None else None
    seen = replace(server, trusted_row=trusted, model=model, memory={})
    return parts[0], seen, tuple(parts[1 : 1 + len(groups)])
