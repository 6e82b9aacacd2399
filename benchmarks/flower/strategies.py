"""The strategies that are compared: Flower's own, the same behind steadfed's validation, and RAGE."""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeAlias

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Bulyan, FedAvg, FedMedian, FedTrimmedAvg, Krum, MultiKrum, Strategy

from benchmarks.flower.loopback import Loopback
from benchmarks.flower.verdicts import Outcome
from steadfed._linalg.threads import one_torch_thread
from steadfed.flower import GuardedStrategy, RageStrategy, ResilientStrategy
from steadfed.flower._loop import largest_reply
from steadfed.flower._records import layout_of
from steadfed.flower._replies.stream import Unreadable, replies_to

Make: TypeAlias = Callable[[], Strategy]
RAGE = "RageStrategy"


def flowers(nodes: int, malicious: int) -> Mapping[str, Callable[[], FedAvg]]:
    """Return Flower's strategies, told how many clients there are and how many are Byzantine."""
    return MappingProxyType(
        {
            "FedAvg": FedAvg,
            "Krum": lambda: Krum(num_malicious_nodes=malicious),
            "FedMedian": FedMedian,
            "MultiKrum": lambda: MultiKrum(num_malicious_nodes=malicious, num_nodes_to_select=nodes - malicious),
            "FedTrimmedAvg": lambda: FedTrimmedAvg(beta=malicious / nodes),
            "Bulyan": lambda: Bulyan(num_malicious_nodes=malicious),
        }
    )


def competitors(nodes: int, malicious: int) -> dict[str, Make]:
    """Return all strategies by name; those behind steadfed's validation are called "guarded …"."""
    own: dict[str, Make] = dict(flowers(nodes, malicious))
    guarded: dict[str, Make] = {
        f"guarded {name}": lambda make=make: GuardedStrategy(make())  # type: ignore[misc]
        for name, make in flowers(nodes, malicious).items()
    }
    rage: dict[str, Make] = {RAGE: lambda: RageStrategy(num_malicious_nodes=malicious)}
    return own | guarded | rage


def receives(strategy: Strategy) -> bool:
    """Whether a strategy reads replies with steadfed's receiving; the others are handed Flower's list."""
    return isinstance(strategy, (ResilientStrategy, GuardedStrategy))


def played(strategy: Strategy, sent: ArrayRecord, grid: Loopback) -> Outcome:
    """Let a strategy play one round from this model, the way its own `start` does."""
    messages = list(strategy.configure_train(1, sent, ConfigRecord(), grid))
    try:
        arrays, metrics = strategy.aggregate_train(1, incoming(strategy, sent, messages, grid))  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001  it is the finding
        return Outcome(error=type(error).__name__)
    return outcome_of(arrays, metrics)


def incoming(
    strategy: Strategy, sent: ArrayRecord, messages: list[Message], grid: Grid
) -> Iterable[Message | Unreadable]:
    """Return the replies as they reach the strategy in its own loop."""
    if not receives(strategy):
        return grid.send_and_receive(messages)
    return replies_to(grid, messages, timeout=0.0, limit=largest_reply(layout_of(sent)))


def outcome_of(arrays: ArrayRecord | None, metrics: MetricRecord | None) -> Outcome:
    """Return what was returned, as plain arrays and numbers."""
    found = dict(metrics or {})
    if arrays is None:
        return Outcome(metrics=found)
    return Outcome({name: array.numpy() for name, array in arrays.items()}, found)


def silence() -> None:
    """Keep Flower's log off the screen for the rest of the process."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)


@contextmanager
def quietly() -> Iterator[None]:
    """Keep Flower's log and numpy's warnings off the screen, and one thread busy: the models are tiny.

    Flower's Bulyan collects garbage after every array it reads; what is there already is exempt from that.
    """
    log = logging.getLogger("flwr")
    level = log.level
    log.setLevel(logging.CRITICAL)
    gc.freeze()
    with warnings.catch_warnings(), one_torch_thread():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            log.setLevel(level)
            gc.unfreeze()
