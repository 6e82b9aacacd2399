"""What a client lets a server ask of it in one round, and for how long it works on it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Annotated, Any, Self, final

from pydantic import BeforeValidator, Field

from steadfed._core.lookup import nearest
from steadfed._core.values import LARGEST_WHOLE, ValueObject, real_number, whole_number
from steadfed.errors import OrderError, ParameterError

LARGEST = LARGEST_WHOLE - 1


@final
class ClientLimits(ValueObject):
    """What a client lets a server ask of it in one round; whoever runs a node sets them in its node config.

    >>> ClientLimits(steps=50)
    ClientLimits(steps=50)
    >>> ClientLimits.of_node({"partition-id": 3, "most-lr": 2, "most-seconds": 60})
    ClientLimits(lr=2.0, seconds=60.0)
    """

    steps: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] = 1000
    """Most local steps; `most-steps` in a node config."""
    batch_size: Annotated[int, Field(ge=1), BeforeValidator(whole_number)] | None = None
    """Largest batch, for those who ask for all points too; `most-batch-size`. None for as many as there are points."""
    lr: Annotated[float, Field(gt=0.0), BeforeValidator(real_number)] = 100.0
    """Largest step size; `most-lr`."""
    seconds: Annotated[float, Field(gt=0.0), BeforeValidator(real_number)] = 3600.0
    """Longest time that local steps may take; `most-seconds`."""

    @classmethod
    def of_node(cls, node_config: Mapping[str, Any]) -> Self:
        """Return the limits that a node config sets, and the usual ones for the others.

        Raises:
            ParameterError: one of them is out of range, or there is no such limit.
        """
        names = {name: f"most-{name.replace('_', '-')}" for name in cls.model_fields}
        strangers = [key for key in node_config if key.startswith("most-") and key not in names.values()]
        if strangers:
            raise ParameterError(
                f"the node config sets {strangers[0]!r}, which limits nothing{nearest(strangers[0], names.values())}; "
                f"limits: {', '.join(names.values())}"
            )
        given = {name: node_config[key] for name, key in names.items() if key in node_config}
        try:
            return cls(**given)
        except ParameterError as error:
            listed = ", ".join(f"{names[name]} = {value!r}" for name, value in given.items())
            raise ParameterError(f"the node config sets {listed}: {error}") from None

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse what asks for too much; what is not asked for is not missed.

        Raises:
            ParameterError: "local-steps", "batch-size" or "lr" is no number of its kind, or above the limit.
        """
        if "local-steps" in config:
            self.steps_of(config)
        if "batch-size" in config:
            self.batch_size_of(config)
        if "lr" in config:
            self.lr_of(config)

    def steps_of(self, config: Mapping[str, Any]) -> int:
        """Return H."""
        return whole(config, "local-steps", 1, self.steps)

    def batch_size_of(self, config: Mapping[str, Any]) -> int:
        """Return b; 0 for all points."""
        return whole(config, "batch-size", 0, LARGEST if self.batch_size is None else self.batch_size)

    def lr_of(self, config: Mapping[str, Any]) -> float:
        """Return η."""
        value = config.get("lr")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= self.lr:
            raise ParameterError(f"'lr' must be a number above 0 and at most {self.lr}, got {_shown(config, 'lr')}")
        return float(value)


@final
class RoundConfig(dict[str, Any]):
    """What a client is told in one round, with the limits of its node, and when its time is over.

    >>> config = RoundConfig({"lr": 0.1}, limits=ClientLimits(steps=5))
    >>> (config | {"lr": 0.2}).limits, config | {"lr": 0.2}
    (ClientLimits(steps=5), {'lr': 0.2})
    """

    def __init__(self, entries: Mapping[str, Any], *, limits: ClientLimits, left: float = math.inf) -> None:
        """Take the entries; `left` is for how many seconds the server waits for the reply."""
        super().__init__(entries)
        self.limits = limits
        self._begun, self._left = time.monotonic(), left

    def __or__(self, other: Mapping[str, Any]) -> RoundConfig:  # type: ignore[override]
        """Return the same with other entries."""
        changed = RoundConfig({**self, **other}, limits=self.limits, left=self._left)
        changed._begun = self._begun
        return changed

    def check_time(self, limits: ClientLimits | None = None) -> None:
        """Refuse to go on when the node's time is over, or that of the order: nobody takes the reply any more.

        Raises:
            OrderError: it is.
        """
        spent, most = time.monotonic() - self._begun, (limits or self.limits).seconds
        if spent > most:
            raise OrderError(
                f"the round has taken {spent:.0f} s on this node, which gives it {most:g} s (most-seconds)"
            )
        if spent > self._left:
            server = f"the server waited for {self._left:.0f} s"
            raise OrderError(f"the round has taken {spent:.0f} s on this node, and {server}")


USUAL = ClientLimits()


def limits_of(config: Mapping[str, Any], limits: ClientLimits | None) -> ClientLimits:
    """Return the limits that were given, or else those of the node that the config was received by."""
    return limits or (config.limits if isinstance(config, RoundConfig) else USUAL)


def whole(config: Mapping[str, Any], key: str, smallest: int, largest: int) -> int:
    """Return a whole number of a config.

    Raises:
        ParameterError: it is missing, no whole number, or out of range.
    """
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        raise ParameterError(f"{key!r} must be a whole number in {smallest} .. {largest}, got {_shown(config, key)}")
    return value


def _shown(config: Mapping[str, Any], key: str) -> str:
    """Return the value, or that there is none."""
    return repr(config[key]) if key in config else "nothing"
