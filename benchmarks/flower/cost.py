"""Time and peak memory of one aggregation at K = 50 clients and d = 10⁶ parameters, Flower's strategies and steadfed's.

Run it with ``python -m benchmarks.flower.cost``; ``--quick`` takes fewer rounds. The replies are Flower messages with
the model's three float32 arrays in .npy bytes; 10 of the 50 clients collude, 8 σ₀ from the honest mean, and every
strategy that can be told is told. `aggregate_train` is timed as it is, from messages to the new ArrayRecord: reading
and checking the replies included. Every competitor runs once in a round, in rotating order.

Peak memory is that of a fresh process per competitor, above what is resident before the first reply exists, in units of
K·d·4 bytes; replies are put together from Flower's wire format. "list" hands over all replies at once, as Flower's loop
does; "one at a time" lets a reply come into being when it is asked for, as steadfed's own loop does.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import Strategy
from rich.table import Table

from benchmarks import machine
from benchmarks.flower.loopback import Deflated, Loopback, copied, reply_content
from benchmarks.flower.strategies import RAGE, flowers, receives, silence
from steadfed.aggregators import Bulyan, Krum, Median, TrimmedMean
from steadfed.extend import stream
from steadfed.flower import RageStrategy, RobustStrategy

CLIENTS, MALICIOUS = 50, 10
SHAPES: Mapping[str, tuple[int, ...]] = {
    "hidden.weight": (1000, 800),
    "hidden.bias": (1000,),
    "out.weight": (199, 1000),
}
DIM = 10**6
UNIT = 4 * CLIENTS * DIM
FAR = 8.0
ROUNDS, QUICK_ROUNDS = 7, 3
READING = "Flower: reading alone"
LIST, ONE = "list", "one at a time"
OURS = (RAGE, "steadfed Krum", "steadfed Median", "steadfed TrimmedMean", "steadfed Bulyan")


def competitors() -> dict[str, Callable[[], Strategy]]:
    """Return the strategies by name."""
    rules = {
        "steadfed Krum": Krum(num_byzantine=MALICIOUS),
        "steadfed Median": Median(),
        "steadfed TrimmedMean": TrimmedMean(num_byzantine=MALICIOUS),
        "steadfed Bulyan": Bulyan(num_byzantine=MALICIOUS),
    }
    robust: dict[str, Callable[[], Strategy]] = {name: partial(RobustStrategy, rule) for name, rule in rules.items()}
    return {RAGE: partial(RageStrategy, num_malicious_nodes=MALICIOUS), **robust, **flowers(CLIENTS, MALICIOUS)}


def model() -> ArrayRecord:
    """Return the model that is sent out."""
    generator = stream(0, "cost", "model")
    return ArrayRecord({name: Array(generator.standard_normal(shape, np.float32)) for name, shape in SHAPES.items()})


def content(client: int, start: ArrayRecord) -> RecordDict:
    """Return what a client sends: the model, a step of its own away; the last ones collude."""
    generator = stream(0, "cost", "client", client)
    shift = FAR / np.sqrt(DIM) if client >= CLIENTS - MALICIOUS else 0.0
    arrays = {}
    for name, array in start.items():
        own = generator.standard_normal(SHAPES[name], np.float32)
        own += np.float32(shift)
        own *= np.float32(0.01)
        own += array.numpy()
        arrays[name] = Array(own)
    return reply_content(ArrayRecord(arrays), 100, 0.5)


def asked(strategy: Strategy, start: ArrayRecord) -> list[Message]:
    """Let a strategy ask all clients, and return its messages, with the ids they get by being sent."""
    grid = Loopback([None] * CLIENTS)
    messages = list(strategy.configure_train(1, start, ConfigRecord(), grid))
    grid.push_messages(messages)
    return messages


def timed(num_rounds: int) -> tuple[list[dict[str, float]], dict[str, list[float]]]:
    """Return the seconds of every strategy round by round, and how long RAGE's strategy read and computed."""
    start = model()
    contents = [content(client, start) for client in range(CLIENTS)]
    parts: dict[str, list[float]] = {"waiting": [], "aggregation": []}
    makers = competitors()

    def ready(name: str) -> tuple[Strategy, list[Message]]:
        strategy = makers[name]()
        replies = zip(asked(strategy, start), contents, strict=True)
        return strategy, [Message(copied(each), reply_to=message) for message, each in replies]

    waiting = {name: ready(name) for name in makers}

    def call(name: str) -> object:
        strategy, replies = waiting[name]
        return strategy.aggregate_train(1, replies)[0]

    def read() -> object:
        return [[array.numpy() for array in each["arrays"].values()] for each in contents]  # type: ignore[union-attr]

    def look(name: str, result: object) -> None:
        assert result is not None, f"{name} made no model"
        if name == READING:
            return
        strategy = waiting[name][0]
        if isinstance(strategy, RageStrategy):
            for part, seconds in parts.items():
                seconds.append(strategy.records[-1].seconds[part])
        waiting[name] = ready(name)

    calls: dict[str, Callable[[], object]] = {name: partial(call, name) for name in makers}
    return machine.interleaved({**calls, READING: read}, num_rounds, look), parts


def peak(name: str, setting: str) -> float:
    """Return the peak of resident memory while replies come and are aggregated, in units of K·d·4 bytes."""
    silence()
    start = model()
    warm(name)
    strategy = competitors()[name]()
    messages = asked(strategy, start)

    def replies() -> Iterator[Message]:
        for client, message in enumerate(messages):
            yield Message(Deflated.of(content(client, start)).read(), reply_to=message)

    def call() -> object:
        return strategy.aggregate_train(1, list(replies()) if setting == LIST else replies())

    return machine.peak_of_call(call) / UNIT


def warm(name: str) -> None:
    """Load what is loaded on first use, with replies of a few numbers."""
    strategy, tiny = competitors()[name](), ArrayRecord({"weight": Array(np.ones(100, np.float32))})
    generator = stream(0, "cost", "warm")
    replies = []
    for message in asked(strategy, tiny):
        own = ArrayRecord({"weight": Array(generator.standard_normal(100, np.float32))})
        replies.append(Message(reply_content(own, 100, 0.5), reply_to=message))
    strategy.aggregate_train(1, replies)


def peaks() -> dict[str, dict[str, float]]:
    """Return the peak memory of every strategy, in every setting in which it is used."""
    found: dict[str, dict[str, float]] = {}
    for name, make in competitors().items():
        settings = (LIST, ONE) if receives(make()) else (LIST,)
        found[name] = {setting: machine.in_fresh_process(peak, name, setting) for setting in settings}
    return found


def report(rounds: list[dict[str, float]], memory: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the figures as a table."""
    title = f"K = {CLIENTS}, d = {DIM:,}, f = {MALICIOUS}: aggregate_train, and memory in K·d·4 bytes"
    table = Table("strategy", "ms", "× RageStrategy", "min..max", f"peak, {LIST}", f"peak, {ONE}", title=title)
    for name in [*memory, READING]:
        ratios = machine.ratios_of(rounds, name, RAGE)
        milliseconds = 1e3 * statistics.median(machine.times_of(rounds, name))
        own = memory.get(name, {})
        table.add_row(
            name,
            f"{milliseconds:.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f}..{max(ratios):.2f}",
            *(f"{own[setting]:.2f}" if setting in own else "" for setting in (LIST, ONE)),
        )
    return table


def targets(
    rounds: list[dict[str, float]], memory: Mapping[str, Mapping[str, float]]
) -> dict[str, tuple[float, float, bool]]:
    """Return what was aimed at: the figure, its bound and whether it is kept."""
    krum = statistics.median(machine.ratios_of(rounds, "Krum", RAGE))
    bulyan = statistics.median(machine.ratios_of(rounds, "Bulyan", RAGE))
    own = memory[RAGE][ONE]
    others = min(each[LIST] for name, each in memory.items() if name not in OURS and name != "FedAvg")
    return {
        "Flower's Krum takes at least as long (ratio)": (krum, 1.0, krum >= 1.0),
        "Flower's Bulyan takes 3 times as long (ratio)": (bulyan, 3.0, bulyan >= 3.0),
        "peak below that of all of Flower's but FedAvg": (own, others, own < others),
        "peak at most 1.3 · K·d·4 bytes": (own, 1.3, own <= 1.3),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flower.cost", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds in place of {ROUNDS}")
    options = parser.parse_args()
    out, about = machine.console(), machine.describe()
    out.print(machine.headline(about), "\n")
    silence()
    with machine.Neighbours() as neighbours:
        rounds, parts = timed(QUICK_ROUNDS if options.quick else ROUNDS)
        memory = peaks()
    out.print(report(rounds, memory))
    split = {name: statistics.median(seconds) for name, seconds in parts.items()}
    out.print(
        f"RageStrategy: reading {1e3 * split['waiting']:.0f} ms, rule and step {1e3 * split['aggregation']:.0f} ms"
    )
    found = targets(rounds, memory)
    for name, (value, bound, kept) in found.items():
        out.print(f"{'met   ' if kept else 'MISSED'} {name}: {value:.2f}, bound {bound:.2f}")
    if neighbours.share > machine.BUSY:
        out.print(f"Others used {neighbours.share:.0%} of the machine meanwhile: times are upper bounds.")
    payload: dict[str, Any] = {
        "machine": about,
        "data": __doc__,
        "busy": neighbours.share,
        "rounds": rounds,
        "parts": parts,
        "memory": memory,
        "targets": {
            name: {"value": value, "bound": bound, "met": kept} for name, (value, bound, kept) in found.items()
        },
    }
    out.print(f"Stored in {machine.store('flower-cost', payload)}.")


if __name__ == "__main__":
    main()
