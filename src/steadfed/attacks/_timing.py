"""Attacks that bide their time: honest in some rounds, another attack in the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Annotated, ClassVar, Self, final

from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from steadfed._core.values import whole_number
from steadfed.attacks._base import Attack, Forged
from steadfed.attacks._registry import ATTACKS
from steadfed.attacks._simple import Honest
from steadfed.attacks._view import AdversaryView

Round = Annotated[int, Field(ge=0), BeforeValidator(whole_number)]
NumRounds = Annotated[int, Field(ge=1), BeforeValidator(whole_number)]


class TimedAttack(Attack, ABC):
    """Another attack in some rounds, honest rows in the others.

    What the attack inside remembers is kept for it while it sleeps.
    """

    attack: Annotated[InstanceOf[Attack], Field(examples=["sign-flip"])]
    """What is done in the rounds that count."""

    @abstractmethod
    def is_awake(self, round: int) -> bool:
        """Tell whether the attack inside acts in a round, counted from 0."""

    def forge(self, view: AdversaryView) -> Forged:
        """Let the attack inside act, or be honest and keep its memory."""
        if self.is_awake(view.round):
            return self.attack(view)
        return replace(Honest()(view), memory=view.memory)


@ATTACKS.register("sleeper")
@final
class Sleeper(TimedAttack):
    """Be honest until a round, then attack, perhaps until another round: start ≤ round < stop.

    A rule that trusts a history is told nothing but good of the client until then.

    >>> import torch
    >>> from steadfed.attacks._simple import SignFlip
    >>> sleeper = Sleeper(attack=SignFlip(), start=5)
    >>> view = AdversaryView(num_byzantine=1, cohort_size=3, own_rows=torch.ones(1, 2))
    >>> sleeper(replace(view, round=4)).rows, sleeper(replace(view, round=5)).rows
    (tensor([[1., 1.]]), tensor([[-1., -1.]]))
    """

    citation: ClassVar[str] = "behaviour over time that no rule may rely on; defined here"

    start: Round = 10
    """The first round of the attack."""
    stop: Round | None = None
    """The first round after it; never if left out."""

    @model_validator(mode="after")
    def _some_rounds(self) -> Self:
        if self.stop is not None and self.stop <= self.start:
            raise ValueError(f"stop must come after start = {self.start}, got {self.stop}")
        return self

    def is_awake(self, round: int) -> bool:
        """Tell whether start ≤ round < stop."""
        return self.start <= round and (self.stop is None or round < self.stop)


@ATTACKS.register("alternating")
@final
class Alternating(TimedAttack):
    """Attack in the first `active` of every `period` rounds: round mod period < active.

    >>> from steadfed.attacks._simple import SignFlip
    >>> [Alternating(attack=SignFlip(), active=1, period=3).is_awake(round) for round in range(5)]
    [True, False, False, True, False]
    """

    citation: ClassVar[str] = "behaviour over time that no rule may rely on; defined here"

    active: NumRounds = 1
    """How many rounds of every period are attacked."""
    period: NumRounds = 2
    """After how many rounds it starts again."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.active > self.period:
            raise ValueError(f"active must be at most period = {self.period}, got {self.active}")
        return self

    def is_awake(self, round: int) -> bool:
        """Tell whether round mod period < active."""
        return round % self.period < self.active


def acting_attack(attack: Attack, round: int) -> Attack:
    """Return the attack that acts in a round, inside however many timers; `Honest()` while it sleeps.

    Whoever trains the clients asks this for a `DataAttack`, to know whose data to poison in which round.

    >>> from steadfed.attacks._labels import LabelFlip
    >>> acting_attack(Sleeper(attack=LabelFlip(), start=5), 4), acting_attack(Sleeper(attack=LabelFlip(), start=5), 5)
    (Honest(), LabelFlip())
    """
    while isinstance(attack, TimedAttack):
        attack = attack.attack if attack.is_awake(round) else Honest()
    return attack
