"""What a measurement says: a number, how far sampling may have moved it, and of whom it speaks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadfed._core.arrays import Vector


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A number that was measured."""

    value: float
    standard_error: float
    """The standard deviation of what sampling adds to it; 0 if nothing was sampled."""
    note: str
    """Whether it is exact at this point; else of which sample it is, and what that says of the rest."""
    exact: bool
    """Whether all clients and all points were looked at."""


@dataclass(frozen=True, kw_only=True)
class ClientSample:
    """How much was looked at: m of R clients, and all points of each or a sample."""

    num_looked_at: int
    num_clients: int
    random: bool
    """Whether the clients were drawn at random, rather than named."""
    samples: int | None = None
    """How many points of a client were drawn at most; None if nothing was drawn."""

    @property
    def exact(self) -> bool:
        """Whether all clients and all points were looked at."""
        return self.num_looked_at == self.num_clients and self.samples is None

    def exceeding_share(self, confidence: float = 0.95) -> float:
        """Return p such that, with this confidence, at most a share p of the clients exceeds the largest of the sample.

        If more did, all m clients drawn would miss them with a probability of at most (1 − p)^m, without replacement.

        >>> round(ClientSample(num_looked_at=100, num_clients=10**6, random=True).exceeding_share(), 4)
        0.0295
        """
        if self.num_looked_at == self.num_clients:
            return 0.0
        return 1.0 - (1.0 - confidence) ** (1.0 / self.num_looked_at) if self.random else 1.0

    def largest(self, values: Vector, errors: Vector) -> Measurement:
        """Return the largest of the clients' values; its standard error is that of this client's value."""
        top = int(values.argmax())
        return Measurement(
            value=float(values[top]),
            standard_error=float(errors[top]),
            note=self._note("largest"),
            exact=self.exact,
        )

    def mean(self, values: Vector, errors: Vector) -> Measurement:
        r"""Return the mean over clients, with the standard error of sampling in two stages.

        v = (1 − m/R) s²/m + (m/R) Σ_r e_r² / m², where s² is the variance between the clients drawn and e_r the
        standard error of one client's value (Cochran 1977, chapter 10). Clients who were named are no sample, and
        v = Σ_r e_r² / m².
        """
        m = len(values)
        share = m / self.num_clients if self.random else 1.0
        between = 0.0 if share == 1.0 else (1.0 - share) * (float(values.var(ddof=1)) if m > 1 else math.inf) / m
        within = share * float(np.square(errors).sum()) / m**2
        return Measurement(
            value=float(values.mean()),
            standard_error=math.sqrt(between + within),
            note=self._note("mean"),
            exact=self.exact,
        )

    def _note(self, what: str) -> str:
        if self.exact:
            return "exact at this point"
        parts = [f"the {what} {self._whose()}"]
        if what == "largest" and self.num_looked_at < self.num_clients:
            parts.append("a lower bound of the largest of all")
            if self.random:
                parts.append(f"with 95 % confidence at most {100 * self.exceeding_share():.2g} % of clients exceed it")
        if self.samples is not None:
            high = ", so that the largest is high on average" if what == "largest" else ""
            parts.append(f"a client's value is that of {self.samples} of its points at most{high}")
        return "; ".join(parts)

    def _whose(self) -> str:
        if self.num_looked_at == self.num_clients:
            return f"of all {self.num_clients} clients"
        how = "drawn at random" if self.random else "asked for"
        return f"of {self.num_looked_at} clients {how} out of {self.num_clients}"
