"""Attacks that need little: each client's own honest row, or nothing at all."""

from __future__ import annotations

import math
from abc import ABC
from typing import Annotated, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import BeforeValidator, Field
from torch import Tensor

from steadfed._core.values import real_number
from steadfed.attacks._base import Aim, Attack, DirectedAttack, Forged, Strength, same_for_all, sent_by_all
from steadfed.attacks._geometry import finite_rows
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._view import AdversaryView, Knowledge

Real = Annotated[float, BeforeValidator(real_number)]
Share = Annotated[float, Field(gt=0.0, le=1.0), BeforeValidator(real_number)]


@ATTACKS.register("none")
@final
class Honest(Attack):
    """Send one's own row unchanged: the baseline against which damage is measured.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> Honest()(view).rows
    tensor([[ 1., -2.]])
    """

    citation: ClassVar[str] = "the baseline; no attack"

    def forge(self, view: AdversaryView) -> Forged:
        """Copy the own rows."""
        return sent_by_all(view.own.clone())


@ATTACKS.register("sign-flip")
@final
class SignFlip(DirectedAttack):
    """Send the opposite of one's own row: row_i = −factor · g_i (Li et al. 2019, experiments).

    Every client turns round its own update, so the forged rows are as spread out as honest ones.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> SignFlip()(view).rows
    tensor([[-1.,  2.]])
    """

    citation: ClassVar[str] = "Li, Xu, Chen, Giannakis, Ling 2019 (RSA), sign-flipping attacks of the experiments"

    factor: Strength = 1.0
    """How many times as long as the honest row."""

    def aim(self, view: AdversaryView) -> Aim:
        """Start at zero and go against the own row."""
        return Aim(torch.zeros_like(view.own), -view.own, self.factor)


@ATTACKS.register("reversed-gradient")
@final
class ReversedGradient(DirectedAttack):
    """Send the opposite of the mean, far out: row_i = −factor · mean of the rows seen (Chen et al. 2018).

    Unlike `SignFlip`, all colluders send one and the same row, of the mean of what they know together: the honest
    rows if these are granted (the "omniscient" adversary of Blanchard et al. 2017), or else their own. Rows with NaN,
    Inf or an overflowing square are left out of the mean.

    **Deviations.** Chen et al. reverse each client's own gradient, which is `SignFlip(factor=100.0)`.

    >>> rows = torch.tensor([[1.0, -2.0], [3.0, 0.0]])
    >>> ReversedGradient()(AdversaryView(num_byzantine=2, cohort_size=5, own_rows=rows)).rows
    tensor([[-200.,  100.],
            [-200.,  100.]])
    """

    citation: ClassVar[str] = "Chen, Wang, Charles, Papailiopoulos 2018 (DRACO), reversed gradient"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    factor: Strength = 100.0
    """How many times as long as the mean."""

    def aim(self, view: AdversaryView) -> Aim:
        """Start at zero and go against the mean."""
        rows = finite_rows(view.seen)
        direction = same_for_all(-rows.mean(0, dtype=torch.float64).to(rows.dtype), view)
        return Aim(torch.zeros_like(direction), direction, self.factor)


@ATTACKS.register("scaling")
@final
class Scaling(DirectedAttack):
    """Send one's own row enlarged: row_i = factor · g_i, as model replacement does (Bagdasaryan et al. 2020).

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> Scaling()(view).rows
    tensor([[ 10., -20.]])
    """

    citation: ClassVar[str] = "Bagdasaryan, Veit, Hua, Estrin, Shmatikov 2020, model replacement"

    factor: Strength = 10.0
    """How many times as long as the honest row."""

    def aim(self, view: AdversaryView) -> Aim:
        """Start at zero and go along the own row."""
        return Aim(torch.zeros_like(view.own), view.own, self.factor)


@ATTACKS.register("shift")
@final
class Shift(DirectedAttack):
    """Add one number to every coordinate of one's own row: row_i = g_i + value · 1.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> Shift()(view).rows
    tensor([[ 2., -1.]])
    """

    citation: ClassVar[str] = "a control; the constant adversary of Chen et al. 2018 (DRACO), about the own row"

    value: Real = 1.0
    """What is added."""

    def aim(self, view: AdversaryView) -> Aim:
        """Start at the own row and go the same way in every coordinate."""
        return Aim(view.own, _constant_rows(view, math.copysign(1.0, self.value)), abs(self.value))


@ATTACKS.register("ones")
@final
class Ones(DirectedAttack):
    """Send one number in every coordinate: row_i = value · 1 (Chen et al. 2018, who send −100).

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> Ones()(view).rows
    tensor([[-100., -100.]])
    """

    citation: ClassVar[str] = "Chen, Wang, Charles, Papailiopoulos 2018 (DRACO), constant adversary"
    needs: ClassVar[frozenset[Knowledge]] = frozenset()

    value: Real = -100.0
    """What every coordinate is."""

    def aim(self, view: AdversaryView) -> Aim:
        """Start at zero and go the same way in every coordinate."""
        return Aim(_constant_rows(view, 0.0), _constant_rows(view, math.copysign(1.0, self.value)), abs(self.value))


@ATTACKS.register("zero")
@final
class Zero(Attack):
    """Send zeros: the plain free rider, who hands back the model as it came (Fraboni, Vidal, Lorenzi 2021).

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> Zero()(view).rows
    tensor([[0., 0.]])
    """

    citation: ClassVar[str] = "Fraboni, Vidal, Lorenzi 2021, plain free-riding"
    needs: ClassVar[frozenset[Knowledge]] = frozenset()

    def forge(self, view: AdversaryView) -> Forged:
        """Send zeros."""
        return sent_by_all(_constant_rows(view, 0.0))


@ATTACKS.register("gaussian")
@final
class Gaussian(Attack):
    """Send noise: row_i ~ N(mean · 1, std² I), each client its own draw (Blanchard et al. 2017, experiments).

    >>> rows = torch.zeros(2, 1000)
    >>> forged = Gaussian()(AdversaryView(num_byzantine=2, cohort_size=5, own_rows=rows)).rows
    >>> 180.0 < float(forged.std()) < 220.0
    True
    """

    citation: ClassVar[str] = "Blanchard, El Mhamdi, Guerraoui, Stainer 2017, Gaussian Byzantine of the experiments"
    needs: ClassVar[frozenset[Knowledge]] = frozenset()

    mean: Real = 0.0
    """The mean of every coordinate."""
    std: Strength = 200.0
    """The standard deviation of every coordinate."""

    def forge(self, view: AdversaryView) -> Forged:
        """Draw the rows."""
        return sent_by_all((self.mean + self.std * _normal_rows(view, "gaussian")).to(view.own_rows.dtype))


@ATTACKS.register("random-gradient")
@final
class RandomGradient(Attack):
    """Send a row of the right length in a random direction: row_i = ‖g_i‖ z_i / ‖z_i‖ with z_i ~ N(0, I).

    No test of norms tells it from an honest row.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[3.0, -4.0]]))
    >>> RandomGradient()(view).rows.norm()
    tensor(5.)
    """

    citation: ClassVar[str] = "a control: noise that a test of norms cannot see"

    def forge(self, view: AdversaryView) -> Forged:
        """Draw directions and give them the lengths of the own rows."""
        directions = torch.nn.functional.normalize(_normal_rows(view, "random-gradient"), dim=1)
        lengths = torch.linalg.vector_norm(view.own, dim=1, keepdim=True, dtype=torch.float64)
        return sent_by_all((lengths * directions).to(view.own.dtype))


class BadNumbers(Attack, ABC):
    """An attack on arithmetic: some coordinates of one's own row become what is no finite number."""

    bad_number: ClassVar[float]
    """What stands in the bad coordinates."""

    share: Share = 1.0
    """The share of the coordinates that are bad, at least one; each client draws its own."""

    def forge(self, view: AdversaryView) -> Forged:
        """Spoil coordinates drawn without replacement."""
        num_columns = view.own.shape[1]
        number = max(1, round(self.share * num_columns))
        generator = view.generator("bad-numbers")
        draws = [generator.choice(num_columns, number, replace=False) for _ in range(view.num_byzantine)]
        where = torch.from_numpy(np.stack(draws)).to(view.own.device)
        return sent_by_all(view.own.scatter(1, where, self.bad_number))


@ATTACKS.register("nan")
@final
class NotANumber(BadNumbers):
    """Send NaN in some or all coordinates, and one's own row in the others.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> NotANumber()(view).rows
    tensor([[nan, nan]])
    >>> int(NotANumber(share=0.1)(view).rows.isnan().sum())
    1
    """

    citation: ClassVar[str] = "a control: what a mean cannot survive"
    bad_number: ClassVar[float] = math.nan


@ATTACKS.register("inf")
@final
class Infinite(BadNumbers):
    """Send +∞ in some or all coordinates, and one's own row in the others.

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> Infinite()(view).rows
    tensor([[inf, inf]])
    """

    citation: ClassVar[str] = "a control: what a mean cannot survive"
    bad_number: ClassVar[float] = math.inf


@ATTACKS.register("silence")
@final
class Silence(Attack):
    """Send nothing: an erasure, which the server notices (Lamport, Shostak, Pease 1982, assumption A3).

    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> Silence()(view).sent.shape
    torch.Size([0, 2])
    """

    citation: ClassVar[str] = "Lamport, Shostak, Pease 1982, assumption A3: the absence of a message is detected"
    needs: ClassVar[frozenset[Knowledge]] = frozenset()

    def forge(self, view: AdversaryView) -> Forged:
        """Hold everything back."""
        silent = torch.ones(view.num_byzantine, dtype=torch.bool)
        return Forged(rows=_constant_rows(view, 0.0), silent=silent)


def _constant_rows(view: AdversaryView, value: float) -> Float[Tensor, "f d"]:
    """Return rows of one number; of the own rows only shape, dtype and device are looked at."""
    return torch.full_like(view.own_rows, value)


def _normal_rows(view: AdversaryView, name: str) -> Float[Tensor, "f d"]:
    """Return rows of independent standard normals in float64, each client its own."""
    draws = view.generator(name).standard_normal(tuple(view.own_rows.shape))
    return torch.from_numpy(draws).to(view.own_rows.device)
