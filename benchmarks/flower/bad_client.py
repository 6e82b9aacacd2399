"""What one bad client of ten does, in one process: every malformed reply and some attacks, at every position.

Ten clients have trained a model of 195 numbers for one round; one of them sends something else. The nine others, and
what the tenth would have sent, are the same in every cell; every strategy gets the same bytes, in Flower's wire format,
and plays `configure_train` and `aggregate_train` as its own loop does. Nothing is random but for a fixed seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MessageType, RecordDict

from benchmarks import machine
from benchmarks.flower.loopback import FAILED, Deflated, Loopback, Reply, copied, reply_content
from benchmarks.flower.strategies import RAGE, Make, competitors, played, quietly
from benchmarks.flower.tables import Table, append, cells_table, counts_table, definitions, entries, plain_row, row_of
from benchmarks.flower.verdicts import Judgement, Model, Reference, judged
from steadfed.extend import stream
from steadfed.flower.redteam import MALFORMED, byzantine

CLIENTS, MALICIOUS = 10, 1
SHAPES: Mapping[str, tuple[int, ...]] = {
    "hidden.weight": (16, 8),
    "hidden.bias": (16,),
    "out.weight": (3, 16),
    "out.bias": (3,),
}
STEP, SPREAD = 0.05, 0.05
"""Size of the common step of all clients, and of what each has of its own, per coordinate; weights have size 1."""
RECORDS = machine.RESULTS / "flower-bad-client.jsonl"
HONEST, ERROR, SILENT = "honest", "an error", "no reply"
UNFOLDING = ("chunk-bomb",)
"""Replies that take 8 GiB of memory to put together Flower's way: one and the same is used at all positions."""
ATTACKS: Mapping[str, tuple[str, dict[str, Any]]] = {
    HONEST: ("none", {}),
    "sign flip": ("sign-flip", {}),
    "a thousand times its update": ("scaling", {"factor": 1000.0}),
    "noise": ("gaussian", {}),
}


@dataclass(frozen=True)
class Scene:
    """A model, and what ten honest clients make of it in one round."""

    with_buffers: bool = False
    """Whether the model has batch normalisation."""

    @cached_property
    def sent(self) -> ArrayRecord:
        """The model that is sent out."""
        return _record(self._model("weights", 1.0) | (self._buffers(0) if self.with_buffers else {}))

    @cached_property
    def honest(self) -> tuple[RecordDict, ...]:
        """What honest clients send."""
        start, step = _values(self.sent), self._model("step", STEP)
        contents = []
        for client in range(CLIENTS):
            own = self._model("own", SPREAD, client)
            model = {name: start[name] - step[name] - own[name] for name in SHAPES}
            buffers = self._buffers(client + 1) if self.with_buffers else {}
            contents.append(reply_content(_record(model | buffers), 100 + client, 0.5 + client / 100))
        return tuple(contents)

    @cached_property
    def deflated(self) -> tuple[Deflated, ...]:
        """The same, as it travels."""
        return tuple(Deflated.of(content, honest=True) for content in self.honest)

    def forged(self, name: str, place: int) -> Reply:
        """Return what the bad client sends in the place of its honest reply."""
        if name in {ERROR, SILENT}:
            return Error(FAILED, "it crashed") if name == ERROR else None
        Loopback([])  # says who builds messages
        content = RecordDict({"arrays": self.sent, "config": ConfigRecord({"server-round": 1})})
        asked = Message(content, 1, MessageType.TRAIN)
        asked.metadata.__dict__["_message_id"] = "asked"
        context = Context(1, 1, {}, RecordDict(), {})
        behaviour, parameters = ATTACKS.get(name, (name, {}))
        honest = Message(copied(self.honest[place]), reply_to=asked)
        forged: Message = byzantine(behaviour, **parameters)(asked, context, lambda *_: honest)
        return Deflated.of(forged.content)

    def reference(self, place: int, usual: float) -> Reference:
        """Return what honest looks like when the client at this place is not."""
        return replace(self._references[place], usual=usual)

    @cached_property
    def _references(self) -> tuple[Reference, ...]:
        models = [_values(_arrays(content)) for content in self.honest]
        sent = _values(self.sent)
        return tuple(Reference.of(sent, models[:place] + models[place + 1 :]) for place in range(CLIENTS))

    def _model(self, what: str, size: float, client: int = 0) -> dict[str, npt.NDArray[Any]]:
        generator = stream(0, "bad-client", what, client)
        return {name: (size * generator.standard_normal(shape)).astype(np.float32) for name, shape in SHAPES.items()}

    @staticmethod
    def _buffers(client: int) -> dict[str, npt.NDArray[Any]]:
        ones = np.ones(16, np.float32)
        return {
            "norm.num_batches_tracked": np.array(5),
            "norm.running_mean": np.float32(0.01 * client) * ones,
            "norm.running_var": ones + np.float32(0.01 * client),
        }


def usual_distances(scene: Scene, makers: Mapping[str, Make]) -> dict[str, float]:
    """Return how far each strategy's model is at most from the mean of nine when all ten are honest."""
    found = {}
    for name, make in makers.items():
        model = played(make(), scene.sent, Loopback(scene.deflated)).model
        assert model is not None, f"{name} makes no model of honest replies"
        found[name] = max(scene.reference(place, np.inf).distance(model) for place in range(CLIENTS))
    return found


def row(scene: Scene, name: str, makers: Mapping[str, Make], usual: Mapping[str, float]) -> dict[str, list[Judgement]]:
    """Return what one bad reply does to every strategy, position by position."""
    found: dict[str, list[Judgement]] = {strategy: [] for strategy in makers}
    shared = scene.forged(name, 0)
    for place in range(CLIENTS):
        replies: list[Reply] = list(scene.deflated)
        replies[place] = shared if name in UNFOLDING else scene.forged(name, place)
        for strategy, make in makers.items():
            outcome = played(make(), scene.sent, Loopback(replies))
            found[strategy].append(judged(outcome, scene.reference(place, usual[strategy])))
    return found


def rows() -> dict[str, str]:
    """Return every bad reply by name, with what it is."""
    attacks = dict.fromkeys(ATTACKS, "a well-formed forgery") | {HONEST: "all are honest"}
    lost = {ERROR: "the client reports that it failed", SILENT: "nothing within the time allowed"}
    return attacks | {each.name: each.description for each in MALFORMED.values()} | lost


def table(scene: Scene, names: Iterable[str], records: Path | None = None) -> dict[str, dict[str, list[Judgement]]]:
    """Return what these replies do to every strategy; rows that are in the records are not played again."""
    makers = competitors(CLIENTS, MALICIOUS)
    done = {} if records is None else {entry["reply"]: row_of(entry["verdicts"]) for entry in entries(records)}
    found: dict[str, dict[str, list[Judgement]]] = {}
    with quietly():
        usual = usual_distances(scene, makers)
        for name in names:
            found[name] = done.get(name) or row(scene, name, makers, usual)
            if records is not None and name not in done:
                append(records, {"reply": name, "verdicts": plain_row(found[name])})
                print(f"{len(found)}: {name}", flush=True)
    return found


def document(plain: Table, normed: Table, about: str) -> str:
    """Return the tables with what one needs to read them."""
    names, described = list(competitors(CLIENTS, MALICIOUS)), rows()
    bad = {name: found for name, found in plain.items() if name != HONEST}
    own, guarded = names[:6], [name for name in names if name.startswith("guarded")]
    return "\n\n".join(
        [
            "# What one bad client of ten does",
            (__doc__ or "").split("\n\n", maxsplit=1)[1].strip(),
            f"Written by `make bench-flower`; {about}.",
            definitions(),
            (
                f"{CLIENTS} clients, {MALICIOUS} of them bad, which every strategy that can be told is told. "
                'A share such as "9 of 10" counts positions of the bad client; otherwise all ten agree. '
                "\"guarded\" is Flower's strategy inside steadfed's `GuardedStrategy`."
            ),
            f"## How many of {len(bad)} bad replies end how, at the worst position",
            counts_table(bad, names),
            "## Reply by reply",
            cells_table(plain, described, [*own[:3], RAGE]),
            "## The other strategies of Flower",
            cells_table(plain, described, own[3:]),
            "## Flower's strategies behind steadfed's validation",
            cells_table(plain, described, guarded),
            "## A model with batch normalisation",
            (
                "Running means, running variances and a counter of steps travel with the weights. Flower averages the "
                "counter into float64 even if all are honest."
            ),
            cells_table(normed, described, [*own[:3], RAGE]),
        ]
    )


def main() -> None:
    """Fill the tables and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flower.bad_client", description=__doc__)
    parser.add_argument("--only", nargs="*", default=(), help="some replies, printed and not written")
    parser.add_argument("--fresh", action="store_true", help="forget the records; otherwise a stopped one goes on")
    options = parser.parse_args()
    if options.only:
        found = table(Scene(), options.only)
        print(cells_table(found, rows(), list(next(iter(found.values())))))
        return
    if options.fresh:
        RECORDS.unlink(missing_ok=True)
    plain = table(Scene(), rows(), RECORDS)
    normed = table(Scene(with_buffers=True), (HONEST, "last-nan", "float64", "missing-layer"))
    path = RECORDS.with_suffix(".md")
    path.write_text(document(plain, normed, machine.versions(("flwr", "numpy", "torch"))) + "\n", encoding="utf-8")
    print(f"Written to {path}.")


def _record(model: Mapping[str, npt.NDArray[Any]]) -> ArrayRecord:
    return ArrayRecord({name: Array(values) for name, values in model.items()})


def _arrays(content: RecordDict) -> ArrayRecord:
    record = content["arrays"]
    assert isinstance(record, ArrayRecord)
    return record


def _values(arrays: ArrayRecord) -> Model:
    return {name: array.numpy() for name, array in arrays.items()}


if __name__ == "__main__":
    main()
