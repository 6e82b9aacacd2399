"""What there is to say of clients, in words: of one over all rounds, and of all in one round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from steadfed._core.wording import harmless, ordinal, percent, plural
from steadfed.server._history.clients import ClientSummary, in_order
from steadfed.server._history.entries import Entries
from steadfed.server._history.fate import LITTLE, Fate, fate_of_fault, fates_of, nearly_removed
from steadfed.server._history.rounds import Rounds
from steadfed.server._history.scores import ScoreMeaning
from steadfed.server._history.suspicion import wilson_lower_bound
from steadfed.server._record import Client, RoundRecord

_TOLD = {
    Fate.REMOVED: "removed",
    Fate.MALFORMED: "malformed",
    Fate.UNUSABLE: "unusable",
    Fate.ABSENT: "silent",
}
"""What is worth telling of a client, in this order."""
MOSTLY = 0.5
"""A layer with more than this share of a deviation is named."""
_NEARLY = "nearly removed"
_LONGEST = 40
"""Letters of a name."""


@final
@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How often what happened to a client, whose replies were not always kept."""

    summary: ClientSummary
    counts: Mapping[Fate, int]
    """In how many rounds what became of it; a round counts once, for the worst."""
    scores: tuple[float, ...]
    """The scores with which its updates were removed, as the rule has them."""
    nearly: int = 0
    """In how many rounds its update was kept with less than a tenth of an equal share."""
    nearly_scores: tuple[float, ...] = ()
    """The scores of these updates."""
    deployed: bool
    """Whether it is a node of a deployment."""

    @property
    def client(self) -> Client:
        """Who it is."""
        return self.summary.client

    @property
    def name(self) -> str:
        """Who it is, as it may be shown: a node of a deployment, a client of a simulation."""
        return f"{'node' if self.deployed else 'client'} {harmless(self.client, limit=_LONGEST)}"

    def words(self, meaning: ScoreMeaning) -> str:
        """Return what there is to say, and how far out its updates lay where the rule removed them."""
        said = []
        for fate, word in _TOLD.items():
            if count := self.counts.get(fate, 0):
                often = f"{word} in {count:,} of {plural(self.summary.asked, 'round')}"
                said.append(f"{often}{self._because(fate, meaning)}")
        if self.nearly:
            often = f"{_NEARLY} in {self.nearly:,} of {plural(self.summary.asked, 'round')}"
            far = f", {meaning.told(self.nearly_scores)}" if self.nearly_scores else ""
            said.insert(int(Fate.REMOVED in self.counts), f"{often}{far}")
        return "; ".join(said)

    @property
    def suspicion(self) -> float:
        """The least plausible share of its judged replies that was worth nothing, or next to nothing."""
        line = self.summary
        return wilson_lower_bound(line.against + self.nearly, line.judged) if line.judged else line.suspicion or 0.0

    def as_dict(self, meaning: ScoreMeaning) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        counts = {word: self.counts.get(fate, 0) for fate, word in _TOLD.items()}
        counts[_NEARLY.replace(" ", "_")] = self.nearly
        return {"client": self.client, "asked": self.summary.asked, **counts, "words": self.words(meaning)}

    def _where(self) -> str:
        """Return in which layer its removed updates deviate, if more than half of the deviation is in one."""
        layer, share = next(iter(self.summary.layers.items()), ("", 0.0))
        return f", mostly in {harmless(layer, limit=_LONGEST)} ({percent(share, 0)})" if share > MOSTLY else ""

    def _because(self, fate: Fate, meaning: ScoreMeaning) -> str:
        if fate is Fate.REMOVED:
            return f", {meaning.told(self.scores) if self.scores else meaning.infinite}{self._where()}"
        faults = [
            fault for fault in self.summary.faults if fate_of_fault(fault) is fate and fault != Fate.UNUSABLE.word
        ]
        if not faults or faults == [_TOLD[fate]]:
            return ""
        return f" ({', '.join(harmless(fault, limit=_LONGEST) for fault in faults)})"


def conduct_of(rounds: Rounds) -> list[Conduct]:
    """Return what can be said of clients, the worst first: by suspicion, then by how often they were silent."""
    entries, meant = rounds.entries, len(Fate)
    size = max(1, len(rounds.places))
    cells = np.bincount(entries.client * meant + entries.fate, minlength=size * meant).reshape(size, meant)
    little = (entries.fate == Fate.KEPT) & (entries.weight < LITTLE)
    nearly = np.bincount(entries.client[little], minlength=size).tolist()
    scores, nearly_scores = (_scores_by_place(entries, mask) for mask in (entries.fate == Fate.REMOVED, little))
    found = []
    for line in rounds.clients:
        place = rounds.places[line.client]
        counts = {fate: int(cells[place, fate]) for fate in _TOLD if cells[place, fate]}
        if counts or nearly[place]:
            conduct = Conduct(
                summary=line,
                counts=counts,
                scores=tuple(scores.get(place, ())),
                nearly=nearly[place],
                nearly_scores=tuple(nearly_scores.get(place, ())),
                deployed=rounds.deployed,
            )
            found.append(conduct)
    return sorted(found, key=_badness)


def _scores_by_place(entries: Entries, chosen: NDArray[np.bool_]) -> dict[int, list[float]]:
    """Return the scores of some entries by place of the client, as far as they have any."""
    known = chosen & ~np.isnan(entries.score)
    scores: dict[int, list[float]] = {}
    for place, score in zip(entries.client[known].tolist(), entries.score[known].tolist(), strict=True):
        scores.setdefault(place, []).append(score)
    return scores


@final
class Narrator:
    """Tells rounds one after the other: who was removed, malformed, unusable or silent, by name, and how often by now.

    >>> from steadfed.server._history import meaning_of
    >>> replies = {"received": ("Jena", "Ulm"), "weights": (0.0, 1.0), "scores": (1681.0, 1.0), "kept": ("Ulm",)}
    >>> record = RoundRecord(round=0, step=1, lr=0.1, cohort=("Jena", "Ulm", "Gera"), **replies)
    >>> narrator = Narrator(meaning_of({"name": "rage"}))
    >>> narrator.told(record)
    ['removed: Jena (41 standard deviations)', 'silent: Gera']
    >>> narrator.told(record)
    ['removed: Jena (41 standard deviations, 2nd time)', 'silent: Gera (2nd time)']
    """

    def __init__(self, meaning: ScoreMeaning, before: Iterable[RoundRecord] = ()) -> None:
        """Begin after some rounds, which count, too."""
        self._meaning = meaning
        self._times: Counter[tuple[str, Client]] = Counter()
        self.people: tuple[tuple[str, Client], ...] = ()
        """Whom the last round was about, and what became of each."""
        for record in before:
            self._count(record)

    def told(self, record: RoundRecord) -> list[str]:
        """Return a phrase for everything that became of somebody in a round, with everybody whom it became of."""
        self._count(record)
        reasons = self._reasons(record)
        said: dict[str, list[str]] = {}
        for word, client in self.people:
            times = self._times[word, client]
            why = [*reasons.get((word, client), ()), *([f"{ordinal(times)} time"] if times > 1 else [])]
            name = harmless(client, limit=_LONGEST)
            said.setdefault(word, []).append(f"{name} ({', '.join(why)})" if why else name)
        return [f"{word}: {', '.join(names)}" for word, names in said.items()]

    def _count(self, record: RoundRecord) -> None:
        fates = fates_of(record)
        people = [(word, client) for fate, word in _TOLD.items() for client, found in fates.items() if found is fate]
        removed = sum(word == _TOLD[Fate.REMOVED] for word, _ in people)
        people[removed:removed] = [(_NEARLY, client) for client in nearly_removed(record)]
        self.people = tuple(people)
        self._times.update(people)

    def _reasons(self, record: RoundRecord) -> dict[tuple[str, Client], list[str]]:
        """Return what else there is to say: how far out an update lay, or the fault, if the word does not say it."""
        found: dict[tuple[str, Client], list[str]] = {}
        for client, score in record.by_client(record.scores).items():
            if score is not None:
                for word in (_TOLD[Fate.REMOVED], _NEARLY):
                    found[word, client] = [self._meaning.briefly(score)]
        for drop in record.drops:
            word = _TOLD.get(fate_of_fault(drop.fault), "")
            if drop.fault != word:
                found[word, drop.client] = [harmless(drop.fault, limit=_LONGEST)]
        return found


def _badness(conduct: Conduct) -> tuple[float, float, float, tuple[bool, int, str]]:
    line = conduct.summary
    silent = line.absent / max(1, line.asked)
    return -conduct.suspicion, -silent, -(line.mean_rank or 0.0), in_order(line.client)
