"""What the folder of a run proves, to somebody who was not there: found offline, without torch, without the data.

    config.toml ──► line 1 ──► line 2 ──► … ──► last line ──► checkpoint, summary ──► model
                      └─ signature └─ signature   └─ signature, by the server's key

Every arrow is a SHA-256. Nothing is repaired, and nothing that is found is believed further than it was checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, final

from steadfed._core.digests import sha256
from steadfed._core.durable import last_line
from steadfed._core.parsing import parse_json
from steadfed._core.signatures import VerificationKey
from steadfed._core.version import VERSION
from steadfed._core.wording import plural
from steadfed.errors import CorruptRunError, RunError
from steadfed.server import _checkpoint as checkpoints, _snapshots as snapshots
from steadfed.server._chain import hash_of_line
from steadfed.server._checkpoint import Origin
from steadfed.server._folder import RunFolder
from steadfed.server._history.files import (
    PROVENANCE,
    Stamp,
    is_deployed,
    part_of_configuration,
    raw_table,
    stamp_of,
)
from steadfed.server._history.rounds import Rounds
from steadfed.server._history.summary import summary_of
from steadfed.server._reading import content_of
from steadfed.server._record import RoundRecord
from steadfed.server._results import HEAD, MODEL, model_digest, rendered
from steadfed.server._signatures import SERVER_KEY, check_signed, key_in

_TRIES = 5
"""How often a run in progress is looked at, at most."""


class Proof(StrEnum):
    """How far something was proved."""

    PROVED = "proved"
    UNPROVED = "not proved"
    """Nothing speaks against it, and nothing proves it: the sentence says why."""
    BROKEN = "BROKEN"
    """It is not what a run has written."""


@final
@dataclass(frozen=True)
class Finding:
    """What was found out about one part of a run."""

    what: str
    outcome: Proof
    words: str


@final
@dataclass(frozen=True)
class Verification:
    """What a run or a single round proves."""

    path: Path
    findings: tuple[Finding, ...]
    records: tuple[RoundRecord, ...] = field(repr=False)
    """The rounds up to the first damage."""

    @property
    def broken(self) -> bool:
        """Whether anything is not what a run has written."""
        return any(finding.outcome is Proof.BROKEN for finding in self.findings)

    @property
    def signed(self) -> bool:
        """Whether signatures were checked with a key that is trusted because it was given."""
        return Proof.PROVED in self._of_signatures

    @property
    def wholly_signed(self) -> bool:
        """Whether, besides, nothing is there that needs a signature and has none."""
        return set(self._of_signatures) == {Proof.PROVED}

    @property
    def _of_signatures(self) -> list[Proof]:
        return [finding.outcome for finding in self.findings if finding.what.startswith("signature")]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "path": str(self.path),
            "broken": self.broken,
            "findings": [
                {"what": each.what, "outcome": each.outcome.value.lower(), "words": each.words}
                for each in self.findings
            ],
            "rounds": [record.model_dump(mode="json") for record in self.records],
        }


def verify_run(path: str | os.PathLike[str], key: VerificationKey | None = None) -> Verification:
    """Check the folder of a run.

    Args:
        path: the folder, complete, interrupted or running.
        key: the server's public key, from a place that is trusted; None takes the one in the folder, which proves less.

    Raises:
        CorruptRunError: there is no run in the folder.
        RunError: it is written faster than it can be looked at.
    """
    folder = RunFolder.open(path)
    for _ in range(_TRIES):
        before = _stamps(folder)
        look = _Look(folder, key)
        found = Verification(Path(path), tuple(look.findings()), tuple(look.records))
        if not found.broken or _stamps(folder) == before:
            return found  # else a round was written meanwhile, and parts from before and after it do not fit
    raise RunError(f"{str(folder.path)!r} is written faster than it can be checked; wait, or check a copy")


@final
class _Look:
    """Looks at one part of a folder after the other."""

    def __init__(self, folder: RunFolder, key: VerificationKey | None) -> None:
        self.records: list[RoundRecord] = []
        self._folder, self._key = folder, key
        self._heads: list[str] = []
        self._chain = folder.chain()
        self._torn = False

    def findings(self) -> Iterator[Finding]:
        """Yield what is found; what cannot be read is broken."""
        parts: list[tuple[str, Callable[[], Iterator[tuple[Proof, str]]]]] = [
            ("configuration", self._configuration),
            ("rounds", self._rounds),
            ("signatures", self._signatures),
            ("checkpoints", self._checkpoints),
            ("snapshots", self._snapshots),
            ("model", self._model),
            ("summary", self._summary),
        ]
        for what, part in parts:
            try:
                for outcome, words in part():
                    yield Finding(what, outcome, words)
            except CorruptRunError as error:
                yield Finding(what, Proof.BROKEN, str(error))

    @cached_property
    def _table(self) -> dict[str, Any]:
        try:
            return raw_table(self._folder.config_text())
        except CorruptRunError:
            return {}

    @property
    def _made_with(self) -> dict[str, Any]:
        found = self._table.get(PROVENANCE)
        return found if isinstance(found, dict) else {}

    @property
    def _done(self) -> bool:
        return os.path.lexists(self._folder.path / "summary.json")

    def _configuration(self) -> Iterator[tuple[Proof, str]]:
        text = self._folder.config_text()
        raw_table(text)
        if "data_sha256" not in self._made_with:
            yield Proof.BROKEN, "config.toml does not end with the table [provenance] that a run writes"
        elif (then := self._made_with.get("config_sha256")) is None:
            yield Proof.UNPROVED, "config.toml has no checksum: an old version of steadfed wrote it"
        elif then != sha256(part_of_configuration(text).encode()):
            yield Proof.BROKEN, "config.toml was changed after the run had started: its checksum does not fit"
        else:
            yield Proof.PROVED, "config.toml has the checksum that the run was started with"

    def _rounds(self) -> Iterator[tuple[Proof, str]]:
        for line in self._folder.lines():
            self.records.append(self._chain.follow(line))
            self._heads.append(hash_of_line(line))
        self._torn = not last_line(self._folder.rounds).endswith(b"\n") and self._folder.rounds.stat().st_size > 0
        number, planned = len(self.records), self._table.get("rounds")
        if self._done and (number != planned or self._torn):
            yield Proof.BROKEN, f"the run is complete by its summary, and {number} of {planned} rounds are there"
        elif not number:
            yield Proof.UNPROVED, "no round is written down yet"
        elif not self._chain.protected:
            yield Proof.UNPROVED, f"{plural(number, 'round')} of an old version, whose lines hold no hashes"
        else:
            end = "; a line at the end was torn by a crash, resuming drops it" if self._torn else ""
            first = "the first line holds the hash of config.toml, every other that of the line before it"
            last = f"the last has the SHA-256 {self._chain.head}"
            yield Proof.PROVED, f"{number} of {planned} rounds: {first}; {last}{end}"
        for before, after in pairwise(self.records):
            if before.model_after != after.model_before:
                between = f"round {before.round} ended with the model {before.model_after}"
                yield Proof.BROKEN, f"{between}, and round {after.round} sent out {after.model_before}"

    def _signatures(self) -> Iterator[tuple[Proof, str]]:
        folder, named = self._folder, self._made_with.get(SERVER_KEY)
        if named is None and not os.path.lexists(folder.signatures):
            if self._key is not None:
                yield Proof.BROKEN, f"the lines are not signed, with the key {short(self._key.keyid)} or any other"
            else:
                yield Proof.UNPROVED, _UNSIGNED
            return
        own = key_in(folder)
        if own.keyid != named:
            yield Proof.BROKEN, f"{folder.public_key.name} is not the key that config.toml names: it was swapped"
        elif self._key is not None and self._key.keyid != own.keyid:
            keys = f"{short(own.keyid)} by what the folder says, not with {short(self._key.keyid)}, which you gave"
            yield Proof.BROKEN, f"the lines are signed with the key {keys}"
        else:
            yield from self._signed(own)

    def _signed(self, key: VerificationKey) -> Iterator[tuple[Proof, str]]:
        number, signed = self._folder.num_rounds(), check_signed(self._folder, key)
        if signed < number - 1 or (signed < number and self._has_more_after(number)):
            yield Proof.BROKEN, f"only {signed} of {plural(number, 'line')} are signed; {_UNSIGNED_END}"
            return
        all_of = "every line is" if signed == number else f"the first {signed} of {number} lines are"
        if self._key is None:
            yield Proof.UNPROVED, f"{all_of} signed with the key {short(key.keyid)} {_SELF_MADE}"
        elif not signed:
            yield Proof.UNPROVED, "no line is signed yet"
        else:
            yield Proof.PROVED, f"{all_of} signed with the key {short(key.keyid)} that you gave"
        if signed < number:
            yield Proof.UNPROVED, f"line {number} is not signed: {_UNSIGNED_LINE}"

    def _has_more_after(self, number: int) -> bool:
        """Whether there is what a server writes only when so many lines are signed."""
        model = self._folder.path / "model.safetensors"
        return self._done or os.path.lexists(model) or number in checkpoints.numbers(self._folder.path / "checkpoints")

    def _checkpoints(self) -> Iterator[tuple[Proof, str]]:
        place, config = self._folder.path / "checkpoints", self._folder.config_hash()
        for number in checkpoints.numbers(place):
            facts, _ = checkpoints.check_checkpoint(place, number)
            head = self._heads[number - 1] if 0 < number <= len(self._heads) else None
            if head is None:
                yield Proof.BROKEN, f"the state after {number} rounds is there, and the line before it is not"
            elif problem := checkpoints.foreign(
                checkpoints.origin_of(facts), Origin(config, head), protected=self._chain.protected
            ):
                yield Proof.BROKEN, f"the state after {number} rounds does not belong here: {problem}"
            elif not self._chain.protected:
                yield Proof.UNPROVED, f"the state after {number} rounds is whole; it is of an old version"
            else:
                named = self.records[number - 1].state_after
                yield _state(number, named, checkpoints.state_digest(facts["sha256"], facts["facts"]))

    def _snapshots(self) -> Iterator[tuple[Proof, str]]:
        config, kept = self._folder.config_hash(), self._folder.snapshots()
        whole = 0
        for number in kept:
            try:
                _, sealed = snapshots.check_snapshot(self._folder.path / "snapshots", number, config)
                whole += sealed
            except CorruptRunError as error:
                yield Proof.BROKEN, f"the model kept after {number} rounds is damaged: {error}"
        if whole:
            models = f"{whole} of {plural(len(kept), 'model')} kept on the way"
            yield Proof.PROVED, f"{models} are whole by their own hashes, and name this run"
        if old := len(kept) - whole:
            yield Proof.UNPROVED, f"{plural(old, 'model')} kept on the way: damaged, or of an old version"

    def _model(self) -> Iterator[tuple[Proof, str]]:
        path = self._folder.path / "model.safetensors"
        if not os.path.lexists(path):
            if self._done:
                yield Proof.BROKEN, "the run is complete by its summary, and model.safetensors is not there"
            return
        found = model_digest(path)
        last = self.records[-1].model_after if self.records else None
        said = (self._folder.summary() or {}).get(MODEL)
        named = {name: each for name, each in (("the last line", last), ("the summary", said)) if each is not None}
        for name, each in named.items():
            if each != found:
                yield Proof.BROKEN, f"model.safetensors is {found}, and {name} names {each}"
                return
        if named:
            yield Proof.PROVED, f"model.safetensors is {found}, as said by {' and '.join(named)}"
        else:
            yield Proof.UNPROVED, f"model.safetensors is {found}; an old version of steadfed wrote it down nowhere"

    def _summary(self) -> Iterator[tuple[Proof, str]]:
        summary = self._folder.summary()
        if summary is None:
            return
        wanted = summary_of(Rounds.of(self.records, deployed=is_deployed(self._table)))
        ends: dict[str, Any] = {key: summary[key] for key in (HEAD, MODEL) if key in summary}
        if HEAD not in summary and not self._chain.protected:
            yield Proof.UNPROVED, "summary.json is of an old version, which did not say to which line it belongs"
        elif summary.get(HEAD) != self._chain.head:
            yield Proof.BROKEN, "summary.json was not written after the last line"
        elif content_of(self._folder.path / "summary.json") == rendered({**wanted, **ends}):
            yield Proof.PROVED, "summary.json was written after the last line, and says what the rounds say"
        elif self._made_with.get("steadfed") == VERSION or not _agree(summary, parse_json(rendered(wanted))):
            yield Proof.BROKEN, "summary.json does not say what the rounds say"
        else:
            yield Proof.UNPROVED, f"{_OTHER_VERSION} (here {VERSION}, begun with {self._made_with['steadfed']})"


_UNSIGNED_END = (
    "lines were added, or signatures removed; or the run was killed while it went back to its last state, which "
    "resuming mends"
)
_UNSIGNED_LINE = (
    "nothing vouches for it. The server writes the signature after the line and may have been stopped in between, or "
    "is about to; or somebody else wrote it. Resuming drops it and plays the round again"
)
_OTHER_VERSION = (
    "summary.json was written after the last line and contradicts no round, but holds other counts than this version "
    "of steadfed makes"
)
_UNSIGNED = (
    "the lines are not signed: whoever could write in the folder could have made all of it. A simulation proves itself "
    "by being repeated; a deployment is signed if its strategy has a signing_key"
)
_SELF_MADE = (
    "that lies in the folder: since then nobody without it has changed them, but whoever could replace the folder as a "
    "whole could have made the key, too. Give the server's own with --key"
)


def _state(number: int, named: str | None, found: str) -> tuple[Proof, str]:
    """Return what is proved of a state that is whole, if a line names it or not."""
    if named not in {None, found}:
        return Proof.BROKEN, f"the state after {number} rounds is not the one that line {number} names"
    words = f"the state after {number} rounds is whole by its own hash, and names line {number}"
    return Proof.PROVED, f"{words}, which names it" if named else words


def _agree(one: Any, other: Any) -> bool:
    """Whether two tables of tables say the same under the keys that both have."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_agree(one[key], other[key]) for key in one.keys() & other.keys())
    return bool(one == other)


def _stamps(folder: RunFolder) -> list[Stamp | None]:
    """Return by what a folder is known to be as it was."""
    parts = (folder.rounds, folder.signatures, folder.path / "checkpoints", folder.path / "summary.json")
    return [stamp_of(part) for part in parts]


def short(keyid: str) -> str:
    """Return the name of a key as a sentence shows it."""
    return f"{keyid[:16]}…"
