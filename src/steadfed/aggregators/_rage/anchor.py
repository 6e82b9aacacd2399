"""What mode "auto" leaves as evidence besides its weights: the anchor it kept to, and what its guard saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Any

from steadfed.aggregators._rage.filtering import Step


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """The safest state on the filter's path, that of the smallest spread, and how far from its mean the update is."""

    num_steps: int
    """Filter steps from the start to the anchor."""
    weight_removed: float
    """The weight taken until then, out of n."""
    spread: float
    """λ_a: λ_max of the covariance of the rows as the anchor weighs them."""
    distance: float
    """‖update − the anchor's mean‖."""
    reach: float
    """ρ √(λ_a f/n), how much of `distance` f rows may account for."""
    displacement: float | None
    """t = ‖plain mean − the anchor's mean‖ / √(λ_a f/n): how far removable rows move the mean; None if λ_a f = 0."""
    attributable: float | None = None
    """How much of t f rows account for; None in evidence that does not know of it, too."""
    share: float = 1.0
    """Which part of a state's displacement the update kept; below 1 if it was cut."""

    def evidence(self) -> dict[str, Any]:
        """Return it as plain numbers, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_evidence(cls, evidence: Mapping[str, Any]) -> Anchor:
        """Return what `evidence` was made of."""
        shift, by_few = evidence["displacement"], evidence.get("attributable")
        return cls(
            num_steps=int(evidence["num_steps"]),
            weight_removed=float(evidence["weight_removed"]),
            spread=float(evidence["spread"]),
            distance=float(evidence["distance"]),
            reach=float(evidence["reach"]),
            displacement=None if shift is None else float(shift),
            attributable=None if by_few is None else float(by_few),
            share=float(evidence.get("share", 1.0)),
        )


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Weights on the way from the anchor's c_a to a state's c_s: c_a + way (c_s − c_a)."""

    steps: tuple[Step, ...]
    """The filter steps that led to the anchor."""
    way: float
    """How far they lie from it, as a share of the way."""

    def evidence(self) -> dict[str, Any]:
        """Return it as plain numbers, ready for JSON."""
        return {"steps": [astuple(step) for step in self.steps], "way": self.way}

    @classmethod
    def from_evidence(cls, evidence: Mapping[str, Any]) -> Cut:
        """Return what `evidence` was made of."""
        return cls(steps=tuple(Step(*step) for step in evidence["steps"]), way=float(evidence["way"]))


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Whether a sampled cohort looks as if it held more Byzantine clients than assumed."""

    assumed: int
    """f, as it was told."""
    most: int
    """F, more than which sampling hardly ever brings into a cohort if f is meant for the average one."""
    spread: float
    """λ_a, if f are assumed."""
    limit: float
    """C m², above which `spread` is too large: the squared distance of most distinct rows to the geometric median.

    A lower bound of it where that is above `spread` already."""
    needed: int | None
    """The smallest f from `assumed` to `most` whose anchor is within the limit; None if there is none."""

    @property
    def alarmed(self) -> bool:
        """Whether the assumed f does not explain the rows."""
        return self.needed != self.assumed

    @property
    def reason(self) -> str:
        """What it saw, as a sentence for people."""
        if not self.alarmed:
            return f"f = {self.assumed} explains the updates"
        if self.needed is None:
            return f"f = {self.assumed} was assumed, and not even f = {self.most} explains the updates"
        return f"f = {self.assumed} was assumed, and the updates need f = {self.needed}"

    def evidence(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {**asdict(self), "alarmed": self.alarmed, "reason": self.reason}
