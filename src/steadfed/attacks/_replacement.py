"""Backdoors in the model: the adversary trains on poisoned data as it likes, and sends what outweighs the others.

Written before the attack on the data, as in `model-replacement+pixel-trigger`; timers go before both. With G the model
that was received, X the model that the client has trained and η the step size, its update is u = (G − X)/η.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self, final

import torch
from jaxtyping import Float
from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, model_validator
from torch import Tensor

from steadfed._core.values import real_number, whole_number
from steadfed.attacks._base import Attack, Forged, sent_by_all
from steadfed.attacks._geometry import finite_rows
from steadfed.attacks._imported import ImportedAttack
from steadfed.attacks._poisoning import DataAttack
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._view import AdversaryView, Knowledge

Number = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]
Positive = Annotated[float, Field(gt=0.0), BeforeValidator(real_number)]
Share = Annotated[float, Field(ge=0.0, le=1.0), BeforeValidator(real_number)]


@dataclass(frozen=True)
class AdversarialTraining:
    """How Byzantine clients train while they attack, where that differs from what honest ones do."""

    steps: int | None = None
    """How many steps they take in a round; as many as the others if None."""
    lr: float | None = None
    """The size of their steps; that of the round if None."""
    alpha: float = 1.0
    """α of the objective α L_class + (1 − α) ‖X − G‖."""
    radius: float | None = None
    """How far X may be from G after any step; no limit if None."""


def _on_data(attack: Attack) -> Attack:
    if not isinstance(attack, DataAttack | ImportedAttack):
        raise ValueError("must be an attack on data, such as pixel-trigger")  # noqa: TRY004  pydantic wants this one
    return attack


class ModelAttack(Attack, ABC):
    """An attack on data whose clients train in their own way and change what they send."""

    attack: Annotated[InstanceOf[Attack], Field(examples=["pixel-trigger"]), AfterValidator(_on_data)]
    """What is done to the data."""
    local_steps: Number | None = None
    """How many steps the adversary's clients take in a round; as many as the others if left out."""
    lr: Positive | None = None
    """The size of their steps; that of the round if left out. They send (G − X) divided by that of the round."""

    def training(self) -> AdversarialTraining | None:
        """Return how the adversary's clients train; None if as the others do."""
        training = self.own_training()
        return training if training != AdversarialTraining() else None

    def own_training(self) -> AdversarialTraining:
        """Return how the adversary's clients train, in all particulars."""
        return AdversarialTraining(steps=self.local_steps, lr=self.lr)

    def forge(self, view: AdversaryView) -> Forged:
        """Change the rows that the clients computed."""
        return sent_by_all(self.sent(view))

    @abstractmethod
    def sent(self, view: AdversaryView) -> Float[Tensor, "f d"]:
        """Return what becomes of the view's own rows, in memory of its own."""


def training_of(attack: Attack) -> AdversarialTraining | None:
    """Return how Byzantine clients train while an attack acts, inside however many timers; None if as others do."""
    return next((each.training() for each in attack.chain() if isinstance(each, ModelAttack)), None)


def boosted(rows: Float[Tensor, "f d"], scale: float | None, view: AdversaryView) -> Float[Tensor, "f d"]:
    """Return γ times the rows; with γ = K/f, which a plain mean divides by, if no γ is given."""
    return rows * (view.cohort_size / view.num_byzantine if scale is None else scale)


@ATTACKS.register("model-replacement")
@final
class ModelReplacement(ModelAttack):
    r"""Boost the update so that a mean replaces the global model by the adversary's (Bagdasaryan et al. 2020).

    What is sent is γ(X − G) + G (equation 3), that is u ↦ γ u. The paper's server makes G + (η_s/n) Σ (L_i − G) of the
    models, and n/η_s replaces G by X if the other updates cancel. The server here takes the mean of the K models of a
    cohort, so n/η_s is K; the adversary's f clients divide it, and γ = K/f unless it is given. A rule that gives
    outliers no weight sees the boost first; see `ConstrainAndScale`, `TrainAndScale` and `ProjectedDescent`.

    With `scale = 1` only the training differs: more steps, of another size.

    >>> from steadfed.attacks._labels import ClassFlip
    >>> view = AdversaryView(num_byzantine=1, cohort_size=10, own_rows=torch.tensor([[1.0, -2.0]]))
    >>> ModelReplacement(attack=ClassFlip())(view).rows
    tensor([[ 10., -20.]])
    """

    citation: ClassVar[str] = "Bagdasaryan, Veit, Hua, Estrin, Shmatikov 2020, section 4.2, equation 3"

    scale: Positive | None = None
    """γ, the boost; K/f if left out, the size of the cohort over the number of the adversary's clients in it."""

    def sent(self, view: AdversaryView) -> Float[Tensor, "f d"]:
        """Boost."""
        return boosted(view.own, self.scale, view)


@ATTACKS.register("constrain-and-scale")
@final
class ConstrainAndScale(ModelAttack):
    r"""Train for the backdoor and for not being noticed, then boost (Bagdasaryan et al. 2020, equation 4).

    The clients minimise α L_class + (1 − α) L_ano, where L_class is their objective on the poisoned data, l2 and weight
    decay included, and L_ano = ‖X − G‖₂, which a server that looks at lengths or distances would look at. In every step

        X ← X − η_a (α g + (1 − α)(X − G)/‖X − G‖),

    with (X − G)/‖X − G‖ = 0 at X = G. What is sent is γ u.

    Deviation: clients with momentum gather it from g only.

    >>> from steadfed.attacks._labels import ClassFlip
    >>> ConstrainAndScale(attack=ClassFlip(), alpha=0.5).training()
    AdversarialTraining(steps=None, lr=None, alpha=0.5, radius=None)
    """

    citation: ClassVar[str] = "Bagdasaryan, Veit, Hua, Estrin, Shmatikov 2020, section 4.3, equation 4"

    alpha: Share = 0.7
    """α, the weight of the backdoor and of the honest task; the rest is that of staying near the global model."""
    scale: Positive | None = None
    """γ, the boost; K/f if left out."""

    def own_training(self) -> AdversarialTraining:
        """Return α besides."""
        return AdversarialTraining(steps=self.local_steps, lr=self.lr, alpha=self.alpha)

    def sent(self, view: AdversaryView) -> Float[Tensor, "f d"]:
        """Boost."""
        return boosted(view.own, self.scale, view)


@ATTACKS.register("train-and-scale")
@final
class TrainAndScale(ModelAttack):
    r"""Train until the backdoor is there, then scale the update to the length that is still allowed.

    γ = S/‖X − G‖₂ (Bagdasaryan et al. 2020, equation 5): every update gets the length S, whatever it was. S is
    `norm_bound`, a length of updates, or, as an adversary knows how long honest updates are, `norm_factor` times the
    median length of those that it has seen: the honest ones, or else its own. An update of length 0 stays as it is.

    >>> from steadfed.attacks._labels import ClassFlip
    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.tensor([[30.0, 40.0]]),
    ...     honest_rows=torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
    >>> TrainAndScale(attack=ClassFlip(), norm_factor=2.0)(view).rows
    tensor([[1.8000, 2.4000]])
    """

    citation: ClassVar[str] = "Bagdasaryan, Veit, Hua, Estrin, Shmatikov 2020, section 4.3, equation 5"
    uses: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HONEST})

    norm_bound: Positive | None = None
    """S, the length of what is sent; by the lengths seen if left out."""
    norm_factor: Positive = 1.0
    """How many times as long as the median of the updates seen, if there is no norm_bound."""

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if self.norm_bound is not None and "norm_factor" in self.model_fields_set and self.norm_factor != 1.0:
            raise ValueError(f"give one of norm_bound and norm_factor, got {self.norm_bound} and {self.norm_factor}")
        return self

    def sent(self, view: AdversaryView) -> Float[Tensor, "f d"]:
        """Give every row the length S."""
        bound = self.norm_bound
        if bound is None:
            lengths = torch.linalg.vector_norm(finite_rows(view.seen).double(), dim=1)
            bound = self.norm_factor * float(lengths.quantile(0.5))
        exact = view.own.double()
        lengths = torch.linalg.vector_norm(exact, dim=1, keepdim=True)
        return torch.where(lengths > 0.0, exact * (bound / lengths), exact).to(view.own)


@ATTACKS.register("projected-descent")
@final
class ProjectedDescent(ModelAttack):
    r"""Train within a ball around the global model, so that the update is short by itself (Wang et al. 2020, PGD).

    After every step X ← G + min(1, δ/‖X − G‖₂)(X − G), with δ = `radius`; what is sent is γ u, and γ = 1 unless
    `scale` says otherwise (the paper's "PGD with model replacement"). A server that clips at δ changes nothing.

    >>> from steadfed.attacks._labels import ClassFlip
    >>> ProjectedDescent(attack=ClassFlip(), radius=0.5).training()
    AdversarialTraining(steps=None, lr=None, alpha=1.0, radius=0.5)
    """

    citation: ClassVar[str] = "Wang et al. 2020 (Attack of the Tails), PGD attack with and without model replacement"

    radius: Positive = 1.0
    """δ, how far the client's model may be from the global one, in parameters and not in updates."""
    scale: Positive = 1.0
    """γ, the boost."""

    def own_training(self) -> AdversarialTraining:
        """Return the radius besides."""
        return AdversarialTraining(steps=self.local_steps, lr=self.lr, radius=self.radius)

    def sent(self, view: AdversaryView) -> Float[Tensor, "f d"]:
        """Boost."""
        return boosted(view.own, self.scale, view)
