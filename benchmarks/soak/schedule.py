"""What goes wrong and when, and what the hostile node does in each round: all of it follows from the seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from steadfed.errors import SteadfedError
from steadfed.extend import stream


class FaultKind(StrEnum):
    """What goes wrong."""

    NODE_KILLED = "node killed"
    SUPERLINK_KILLED = "SuperLink killed"
    SERVER_APP_KILLED = "server app killed"
    LINK_SLOW = "slow connection"
    LINK_TRICKLES = "trickling connection"
    LINK_CUT = "cut connection"
    SIEGE = "drill against the SuperLink"


ON_NODES = (FaultKind.NODE_KILLED, FaultKind.LINK_SLOW, FaultKind.LINK_TRICKLES, FaultKind.LINK_CUT)
"""Faults that happen to one node."""
AT_THE_SERVER = (FaultKind.SUPERLINK_KILLED, FaultKind.SERVER_APP_KILLED)
"""What ends the processes whose memory is looked at."""
STEADY = 2.0 / 3.0
"""From this share of the time on they live, or nobody could say whether they grow."""
WARM_UP, REST = 40.0, 60.0
"""Seconds at the beginning and at the end without a new fault."""
PAUSE = (8.0, 30.0)
"""Shortest and longest seconds from the beginning of one fault to that of the next."""
LASTS = (3.0, 25.0)
"""Shortest and longest seconds of a fault."""
SIEGE_LASTS = (30.0, 60.0)
"""Those of a drill against the SuperLink: a round or two."""
_SLOW = frozenset({"exit", "stall"})
"""Behaviours that are played one round in eight at most: each costs a whole timeout."""


@dataclass(frozen=True)
class PlannedFault:
    """One thing that goes wrong."""

    at: float
    """Seconds after the beginning."""
    kind: FaultKind
    lasts: float
    """Seconds until it is put right; a server app is put right by submitting the run again."""
    node: int | None = None
    """Whom it happens to; None for the server."""


def schedule(seed: int, *, seconds: float, nodes: int) -> tuple[PlannedFault, ...]:
    """Return the faults in the order of their times: every kind once before any comes a second time.

    In the last third the SuperLink and the server app live.

    The last node is the hostile one; nothing happens to it but what it does itself, one thing at a time. Not more than
    half of the honest nodes are disturbed at the same time.

    >>> schedule(0, seconds=1800, nodes=8) == schedule(0, seconds=1800, nodes=8)
    True
    """
    rng = stream(seed, "soak", "faults")
    faults: list[PlannedFault] = []
    kinds: list[FaultKind] = []
    at = WARM_UP
    while at < seconds - REST:
        kinds = kinds or [list(FaultKind)[place] for place in rng.permutation(len(FaultKind))]
        if at >= STEADY * seconds:
            kinds = [kind for kind in kinds if kind not in AT_THE_SERVER] or [FaultKind.NODE_KILLED]
        kind, node = kinds.pop(), int(rng.integers(nodes - 1))
        lasts = float(rng.uniform(*(SIEGE_LASTS if kind is FaultKind.SIEGE else LASTS)))
        lasts = round(min(lasts, seconds - REST - at + LASTS[0]), 1)
        fault = PlannedFault(round(at, 1), kind, lasts, node if kind in ON_NODES else None)
        if _is_bearable(fault, faults, nodes):
            faults.append(fault)
        at += float(rng.uniform(*PAUSE))
    return tuple(faults)


def _is_bearable(fault: PlannedFault, earlier: Sequence[PlannedFault], nodes: int) -> bool:
    """Tell whether the node is not disturbed already, and enough others are left; sieges come one after the other."""
    if fault.kind is FaultKind.SIEGE:
        return all(each.at + each.lasts + PAUSE[1] <= fault.at for each in earlier if each.kind is FaultKind.SIEGE)
    disturbed = {each.node for each in earlier if each.node is not None and each.at + each.lasts + PAUSE[1] > fault.at}
    return fault.node is None or (fault.node not in disturbed and 2 * len(disturbed) < nodes - 1)


def counted(faults: Sequence[PlannedFault]) -> dict[str, int]:
    """Return how many faults of every kind there are."""
    found = Counter(fault.kind.value for fault in faults)
    return {kind.value: found[kind.value] for kind in FaultKind}


@cache
def drills() -> tuple[str, ...]:
    """Return every hostile behaviour that a client can play alone, in the order of their names."""
    from steadfed.flower.redteam import BEHAVIOURS, byzantine

    found = []
    for name in BEHAVIOURS:
        try:
            byzantine(name)
        except SteadfedError:  # it must know more than its own update, or is done in the data
            continue
        found.append(name)
    return tuple(found)


def siege_of(seed: int, fault: PlannedFault) -> str:
    """Return what the hostile node does to the SuperLink.

    >>> fault = PlannedFault(60.0, FaultKind.SIEGE, 30.0)
    >>> siege_of(0, fault) == siege_of(0, fault)
    True
    """
    from steadfed.flower.redteam import DRILLS

    return sorted(DRILLS)[int(stream(seed, "soak", "siege", round(10 * fault.at)).integers(len(DRILLS)))]


def drill_of(seed: int, round: int) -> str:
    """Return what the hostile node does in a round.

    >>> drill_of(0, 3) == drill_of(0, 3)
    True
    """
    rng = stream(seed, "soak", "drill", round)
    quick = [name for name in drills() if name not in _SLOW]
    among = drills() if rng.integers(8) == 0 else quick
    return among[int(rng.integers(len(among)))]
