"""The records of a run turned on their side: a column for every figure, and one line for every client of a cohort.

    RoundRecord ──► figures (by round), entries (by client and round), tally, clients

Which columns there are follows from the fields of `RoundRecord` and `Tally`: a new number of a round is named there,
and nowhere else.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import NoneType
from typing import Any, Self, final, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from steadfed._core.lookup import nearest
from steadfed._core.wording import harmless
from steadfed.errors import UnknownNameError
from steadfed.metrics import METRICS, TABLE, column_of
from steadfed.server._history.clients import ClientSummary, client_table
from steadfed.server._history.entries import Entries
from steadfed.server._history.fate import Fate, fates_of
from steadfed.server._history.silence import Silence, silence_of
from steadfed.server._history.tally import Tally, tally_of
from steadfed.server._record import Client, ClientScores, RoundRecord

_KINDS = (int, float, bool, NoneType)
_FIELDS = {name: field.annotation for name, field in RoundRecord.model_fields.items()}
NUMBERS = tuple(name for name, kind in _FIELDS.items() if {*(get_args(kind) or (kind,))} <= {*_KINDS})
"""The fields of a record that are numbers: columns of the same name."""
TABLES = tuple(
    name for name, kind in _FIELDS.items() if Mapping in {get_origin(each) for each in (kind, *get_args(kind))}
)
"""The fields of a record that are tables: their numbers are the columns "seconds.x" and so on."""
COUNTS = tuple(name for name in Tally().counts() if name != "rounds")
"""What is counted in every round: see `Tally`."""
EVALUATED = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
"""What is known of a model in rounds with an evaluation."""
_CERTIFIED = (
    "certificate.error_bound",
    "certificate.unconditional_bound",
    "certificate.failure_probability",
    "anchor.spread",
    "anchor.displacement",
    "anchor.attributable",
    "anchor.share",
    "guard.alarmed",
    "guard.needed",
)
_ALWAYS = tuple(dict.fromkeys((*NUMBERS, *COUNTS, "median_score", *_CERTIFIED)))
"""Columns that there are even if no round has a number."""

CLIENT_SCORES = "client_scores"
"""The table of columns with what scores of single clients come to: their mean, worst_tenth and worst."""
_MOST_REASONS = 3


@final
class Rounds:
    """The rounds of a run, one added at a time.

    >>> rounds = Rounds.of([RoundRecord(round=0, step=5, lr=0.1, cohort=(3, 8), test_accuracy=0.5)])
    >>> rounds["test_accuracy"], rounds["absent"], len(rounds)
    (array([0.5]), array([2.]), 1)
    >>> rounds["tset_accuracy"]
    Traceback (most recent call last):
    ...
    steadfed.errors.UnknownNameError: unknown column 'tset_accuracy', did you mean 'test_accuracy'?
    """

    def __init__(self, *, deployed: bool = False) -> None:
        self.deployed = deployed
        """Whether a server app ran it, so that nobody knows who is Byzantine."""
        self.tally = tally_of((), deployed=deployed)
        self.places: dict[Client, int] = {}
        """Every client that was asked or sent something, in the order in which they turned up."""
        self.drop_reasons: dict[tuple[int, int], str] = {}
        """Why a reply was dropped, by round and place of the client, as a sentence that may come from the client."""
        self.round_reasons: list[str] = []
        """Why the rule stopped in each round, or why the round was skipped; empty if it did not say."""
        self.silences: list[Silence] = []
        """Rounds in which silent clients left too few replies."""
        self.byzantine: set[int] = set()
        """Places of the clients that were Byzantine in some round."""
        self.faults: Counter[tuple[int, str]] = Counter()
        """What was wrong with replies and updates: by place of the client and fault, how often."""
        self.deviations: dict[int, Counter[str]] = {}
        """In which layers of the model removed updates deviated: by place of the client, each layer's shares summed."""
        self.deviated: Counter[int] = Counter()
        """Over how many updates these are sums."""
        self.metrics: dict[str, float | None] = {}
        """What clients said of themselves in the last round in which they did."""
        self.client_scores: ClientScores | None = None
        """How good the model was for single clients when this was looked at last."""
        self.site_shares: dict[Client, float] = {}
        """What each client held of the weight of all when they were weighed last; empty if all count alike."""
        self.byzantine_weight: float | None = None
        """Which share of that may be Byzantine."""
        self._figures: dict[str, array[float]] = {}
        self._lines: dict[str, array[Any]] = {
            name: array("d" if name in {"weight", "score"} else "q") for name in Entries.__annotations__
        }

    @classmethod
    def of(cls, records: Iterable[RoundRecord], *, deployed: bool = False) -> Self:
        """Return some rounds as columns."""
        rounds = cls(deployed=deployed)
        for record in records:
            rounds.add(record)
        return rounds

    def __len__(self) -> int:
        return self.tally.rounds

    def add(self, record: RoundRecord) -> None:
        """Add a round."""
        tally = Tally.of(record, deployed=self.deployed)
        counts = tally.counts()
        for name, value in {**_figures_of(record), **{name: counts[name] for name in COUNTS if name in counts}}.items():
            self._put(name, _to_float(value))
        self._add_lines(record)
        for drop, place in zip(record.drops, self._places(drop.client for drop in record.drops), strict=True):
            self.drop_reasons[len(self), place] = drop.why
            self.faults[place, drop.fault] += 1
        for each, place in zip(record.deviations, self._places(each.client for each in record.deviations), strict=True):
            self.deviations.setdefault(place, Counter()).update(each.layers)
            self.deviated[place] += 1
        self.round_reasons.append(record.reason or "")
        if (silence := silence_of(record)) is not None:
            self.silences.append(silence)
        self.byzantine.update(self._places(record.byzantine))
        self.metrics = dict(record.metrics) or self.metrics
        self.client_scores = record.client_scores or self.client_scores
        if record.site_shares:
            self.site_shares, self.byzantine_weight = record.by_client(record.site_shares), record.byzantine_weight
        self.tally += tally
        for name in ("entries", "clients"):
            self.__dict__.pop(name, None)

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """Return a figure of every round, NaN where there is none; `columns` are its names.

        Raises:
            UnknownNameError: there is no such column.
        """
        if name not in self._figures and name not in _ALWAYS:
            if (column := column_of(name)) in self.columns:
                return self[column]
            raise UnknownNameError(f"unknown column {name!r}{nearest(name, [*self.columns, *self.asked_metrics])}")
        return self._values(name)

    @property
    def columns(self) -> list[str]:
        """The names of all columns: the numbers of a `RoundRecord`, the counts of a `Tally`, and "seconds.x" etc."""
        return list(dict.fromkeys([*_ALWAYS, *self._figures]))

    def names_below(self, table: str) -> list[str]:
        """Return the parts of "seconds" or the names of "metrics" that turned up, in this order."""
        return [name.removeprefix(f"{table}.") for name in self._figures if name.startswith(f"{table}.")]

    @property
    def asked_metrics(self) -> list[str]:
        """The names of the metrics that were looked at beside accuracy and loss: columns, too."""
        return self.names_below(TABLE)

    @property
    def metric_columns(self) -> dict[str, str]:
        """The metrics that some round has, by name, with their columns: accuracy and loss on test points first."""
        always = {metric.column: name for name, metric in METRICS.items() if metric.column is not None}
        found = {name: column for column, name in always.items() if np.isfinite(self._values(column)).any()}
        return found | {name: column_of(name) for name in self.asked_metrics}

    @property
    def unattributed(self) -> int:
        """In how many rounds the rule did not say whose updates its result rests on."""
        return int((self["attributed"] == 0.0).sum())

    @property
    def skips(self) -> list[tuple[int, str]]:
        """Rounds that changed nothing, and why."""
        rounds = np.flatnonzero(self["skipped"]).tolist()
        return [(number, self.round_reasons[number] or "the updates could not be aggregated") for number in rounds]

    @property
    def skips_text(self) -> str:
        """Why rounds were skipped, with the first round of each reason."""
        first: dict[str, int] = {}
        for number, reason in self.skips:
            first.setdefault(reason, number)
        listed = [f"round {number}, {harmless(reason, limit=120)}" for reason, number in first.items()]
        return "; ".join([*listed[:_MOST_REASONS], *(["…"] if len(listed) > _MOST_REASONS else [])])

    @property
    def fault_counts(self) -> dict[str, int]:
        """What was wrong with replies and updates, or why there were none, and how often."""
        found: Counter[str] = Counter()
        for (_, fault), count in self.faults.items():
            found[fault] += count
        return dict(found)

    @property
    def evaluated(self) -> NDArray[np.int64]:
        """The rounds after which the model was looked at."""
        return np.flatnonzero(np.logical_or.reduce([np.isfinite(self[name]) for name in EVALUATED]))

    def last_and_best(self, name: str) -> tuple[float, float, int] | None:
        """Return a figure's last value, its largest, and the first round of that; None if it was never known."""
        column = self[name]
        known = np.flatnonzero(np.isfinite(column))
        if not len(known):
            return None
        best = int(known[np.argmax(column[known])])
        return float(column[known[-1]]), float(column[best]), best

    @cached_property
    def entries(self) -> Entries:
        """What became of every client of every cohort, as columns."""
        kinds: dict[str, Any] = {"weight": np.float64, "score": np.float64}
        kinds |= dict.fromkeys(("received", "judged", "byzantine"), np.bool_)
        return Entries(**{name: np.array(each, dtype=kinds.get(name, np.int64)) for name, each in self._lines.items()})

    @cached_property
    def clients(self) -> list[ClientSummary]:
        """How the rule treated each client: numbers first, in order, then names."""
        return client_table(self.entries, self.places, self.faults, self.mean_deviations)

    @property
    def mean_deviations(self) -> dict[int, dict[str, float]]:
        """By place of a client whose updates were removed each layer's mean share of the deviation, the largest first.

        A layer that a record leaves out counts as 0 there.
        """
        return {
            place: {name: total / self.deviated[place] for name, total in sums.most_common()}
            for place, sums in self.deviations.items()
        }

    def _values(self, name: str) -> NDArray[np.float64]:
        found = np.full(len(self), np.nan)
        values = self._figures.get(name, ())
        found[: len(values)] = values
        return found

    def _put(self, name: str, value: float) -> None:
        column = self._figures.setdefault(name, array("d"))
        if len(column) < len(self):
            column.extend([math.nan] * (len(self) - len(column)))
        column.append(value)

    def _places(self, clients: Iterable[Client]) -> list[int]:
        places = self.places
        return [places.setdefault(client, len(places)) for client in clients]

    def _add_lines(self, record: RoundRecord) -> None:
        fates, received, known = fates_of(record), {*record.received}, {*record.byzantine}
        weights = record.parts_of_own_shares()
        scores = {client: score for client, score in record.by_client(record.scores).items() if score is not None}
        arrived = [client in received for client in fates]
        places = self._places(fates)
        unusable = (place for place, fate in zip(places, fates.values(), strict=True) if fate is Fate.UNUSABLE)
        self.faults.update((place, Fate.UNUSABLE.word) for place in unusable)
        lines: dict[str, list[Any]] = {
            "client": places,
            "round": [len(self)] * len(fates),
            "fate": list(fates.values()),
            "received": arrived,
            "judged": arrived if record.judges else [False] * len(fates),
            "byzantine": [client in known for client in fates],
            "weight": [weights.get(client, math.nan) for client in fates],
            "score": [scores.get(client, math.nan) for client in fates],
        }
        for name, values in lines.items():
            self._lines[name].fromlist(values)


def _figures_of(record: RoundRecord) -> dict[str, float]:
    """Return the numbers of a round, by the names of their columns."""
    found = {name: getattr(record, name) for name in NUMBERS}
    for table in TABLES:
        found |= {f"{table}.{name}": value for name, value in (getattr(record, table) or {}).items()}
    found |= {f"{TABLE}.{name}": math.nan for name, value in record.test_metrics.items() if value is None}
    if record.client_scores is not None:
        found |= {f"{CLIENT_SCORES}.{name}": value for name, value in record.client_scores.figures().items()}
    if shares := record.by_client(record.site_shares):
        found["byzantine_share"] = math.fsum(shares.get(client, 0.0) for client in record.byzantine)
    known = [score for score in record.scores if score is not None]
    if known:
        found["median_score"] = statistics.median(known)
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


def _to_float(value: float) -> float:
    """Return a number as what a column holds; JSON has whole numbers that are larger."""
    try:
        return float(value)
    except OverflowError:
        return math.nan
