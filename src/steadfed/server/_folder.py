"""A run on disk: a folder that is whole after every round, whatever ended the process.

    config.toml     the resolved configuration; written last of what `create` makes, so with it there is a run
    rounds.jsonl    one `RoundRecord` a line, appended; each holds the hash of the one before
    signatures.jsonl, server-signing.pub.pem    of a deployment that signs its lines: a signature each, and the key
    checkpoints/    NNNNNN.safetensors and NNNNNN.json: the state after N rounds; the last two
    snapshots/      NNNNNN.safetensors: the model after N rounds, for those that are measured and at the end
    model.safetensors, summary.json    written at the end, in this order
    lock            held by the process that works in the folder; waiting.json: whose replies it waits for

docs/decisions/0013-run-folders.md proves that a run which was killed at any moment continues exactly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from steadfed._core.digests import sha256
from steadfed._core.durable import (
    append_lines,
    check_own_folder,
    cut_file,
    is_own_file,
    last_line,
    replace_file,
    whole_lines,
)
from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.server import _checkpoint as checkpoints, _results as results, _snapshots as snapshots
from steadfed.server._chain import Chain, LineStart, hash_of_line
from steadfed.server._checkpoint import Checkpoint, Origin
from steadfed.server._lock import hold
from steadfed.server._reading import content_of, text_of
from steadfed.server._record import RoundRecord
from steadfed.server._signatures import PUBLIC_KEY, append_signature
from steadfed.server._snapshots import Snapshot

if TYPE_CHECKING:
    from torch import Tensor

    from steadfed._core.signatures import SigningKey, VerificationKey


@final
@dataclass(frozen=True, eq=False)
class RunFolder:
    """The folder of one run: `create` it or `open` it, and hold `locked()` while writing.

    A round is written as `save_snapshot` if it is measured, `append`, then `save_checkpoint`; after a crash, `rewind`.

    >>> import tempfile
    >>> folder = RunFolder.create(Path(tempfile.mkdtemp()) / "run", config="rounds = 2")
    >>> with folder.locked():
    ...     written = folder.append(RoundRecord(round=0, step=5, lr=0.1, cohort=(3, 8)))
    >>> [record.cohort for record in RunFolder.open(folder.path).records()]
    [(3, 8)]
    """

    path: Path
    notes: list[str] = field(default_factory=list, repr=False)
    """What the last call of `latest_checkpoint` passed over, a sentence each."""

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], config: str, *, server_key: VerificationKey | None = None
    ) -> RunFolder:
        """Make the folder of a new run, whose lines will be signed if a key is given.

        Raises:
            RunError: the place holds a run already, is no folder, or cannot be written.
        """
        folder = cls(Path(path))
        try:
            folder._checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"cannot make the folder {str(folder.path)!r}: {error.strerror}; choose a place that can be written"
            ) from None
        with folder.locked(), folder._reporting("start the run"):
            folder._check_vacant()
            replace_file(folder.rounds, b"")
            for left in (folder.signatures, folder.public_key):  # by a start that was interrupted
                left.unlink(missing_ok=True)
            if server_key is not None:
                replace_file(folder.public_key, server_key.to_pem())
                replace_file(folder.signatures, b"")
            replace_file(folder._config, config.encode())
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """Return the folder of a run that was started before.

        Raises:
            CorruptRunError: there is no run in it; the message says what is missing.
        """
        folder = cls(Path(path))
        if not folder.path.is_dir():
            what = "is not a folder" if folder.path.exists() else "does not exist"
            raise CorruptRunError(f"{str(folder.path)!r} {what}; expected the folder of a run")
        missing = [part.name for part in (folder._config, folder.rounds) if not is_own_file(part)]
        if missing:
            what = "no file of its own" if any((folder.path / name).is_symlink() for name in missing) else "missing"
            raise CorruptRunError(f"{str(folder.path)!r} holds no run that can be read: {' and '.join(missing)} {what}")
        for part in (folder._checkpoints, folder._snapshots):
            try:
                check_own_folder(part)
            except OSError as error:
                raise CorruptRunError(f"{str(folder.path)!r} holds no run that can be read: {error.strerror}") from None
        return folder

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other process from working in the folder.

        Raises:
            RunError: another process works in it; the message names it.
        """
        return hold(self.path / "lock")

    def config_text(self) -> str:
        """Return the configuration of the run."""
        return text_of(self._config)

    def append(self, record: RoundRecord, signer: SigningKey | None = None) -> RoundRecord:
        """Write down a round, and its signature if a key is given; it is on disk when this returns.

        The last line is read, not remembered: a round that another process wrote, where locks do not work, is noticed.

        Returns:
            The record as it is written: with the hash of the line before.

        Raises:
            RunError: it could not be written; the message says what is safe and how to go on.
        """
        with self._reporting(f"write round {record.round}"):
            record = record.model_copy(update={"previous": self._previous_of(record.round)})
            line = record.to_line().encode()
            append_lines(self.rounds, line)
            if signer is not None:
                append_signature(self.signatures, signer, line.removesuffix(b"\n"))
        return record

    def _previous_of(self, number: int) -> str | None:
        """Return the hash that the line of a round holds; None in a run of an old version, which has none."""
        last = last_line(self.rounds)
        if not last:
            return self.config_hash()
        if not last.endswith(b"\n"):
            raise RunError(f"{self.rounds} ends in the middle of a line; rewind the run to its last checkpoint first")
        start = LineStart.of(last, self.rounds)
        if start.round != number - 1:
            raise RunError(
                f"{self.rounds} ends with round {start.round}, so round {number} cannot follow: another process works "
                f"in the folder, which may happen where locks do not work (some network disks). Nothing was written; "
                f"end the other one, or this, and resume"
            )
        return None if start.previous is None else hash_of_line(last)

    def config_hash(self) -> str:
        """Return the SHA-256 of config.toml, where the chain of lines begins."""
        return sha256(content_of(self._config))

    def records(self) -> Iterator[RoundRecord]:
        """Yield the rounds that are written down as a whole; a line that is being written or was torn is left out.

        Raises:
            CorruptRunError: a line is not the record that belongs there, or does not follow from the one before; the
                message has its number.
        """
        chain = self.chain()
        for line in self.lines():
            yield chain.follow(line)

    def chain(self) -> Chain:
        """Return what goes along the lines, from the configuration on."""
        return Chain(self.rounds, self.config_hash())

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines with their ends; `CorruptRunError` if they cannot be read."""
        try:
            yield from whole_lines(self.rounds)
        except OSError as error:
            raise CorruptRunError(f"{self.rounds} cannot be read: {error.strerror}") from None

    def num_rounds(self) -> int:
        """Return how many rounds are written down as a whole, without looking at what they say."""
        return sum(1 for _ in self.lines())

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write the state after some rounds, as a whole; it and the one before it are kept.

        Raises:
            RunError: it could not be written; the earlier checkpoints are still there.
        """
        with self._reporting(f"write the checkpoint after {checkpoint.round} rounds"):
            origin = Origin(head=self._head(), config=self.config_hash())
            checkpoints.write_checkpoint(self._checkpoints, checkpoint, origin)

    def latest_checkpoint(self) -> Checkpoint | None:
        """Return the newest state that is whole and was written after the rounds that are written down; None without.

        Others are passed over and named in `notes`: damaged ones, of other runs, after lines that are not there.

        Raises:
            CorruptRunError: one of the rounds before it is not a record: the file was changed by somebody else.
        """
        self.notes.clear()
        written = self.num_rounds()
        for number in reversed(checkpoints.numbers(self._checkpoints)):
            if number > written:
                self.notes.append(f"the checkpoint after {number} rounds is ahead of the {written} rounds written down")
                continue
            try:
                found = checkpoints.read_checkpoint(self._checkpoints, number)
            except CorruptRunError as error:
                self.notes.append(f"the checkpoint after {number} rounds is not whole: {error}")
                continue
            chain = self.chain()
            for line in islice(self.lines(), number):
                chain.follow(line)
            here = Origin(self.config_hash(), chain.head)
            if problem := checkpoints.foreign(found.origin, here, protected=chain.protected):
                self.notes.append(f"the checkpoint after {number} rounds is not used: {problem}")
                continue
            return found
        if written:
            self.notes.append(f"no checkpoint can be used, so the {written} rounds written down are computed again")
        return None

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the model after some rounds, for good; it is on disk as a whole when this returns.

        Raises:
            RunError: it could not be written; the message says what is safe and how to go on.
        """
        with self._reporting(f"write the snapshot after {snapshot.round} rounds"):
            snapshots.write_snapshot(self._snapshots, snapshot, self.config_hash())

    def snapshots(self) -> list[int]:
        """Return after how many rounds the model was kept, in ascending order; none for a run that measures nothing."""
        return snapshots.numbers(self._snapshots)

    def snapshot(self, rounds: int) -> Snapshot:
        """Return the model after so many rounds, which must be among `snapshots()`.

        Raises:
            ParameterError: no model was kept there.
            CorruptRunError: the file is damaged; the message names it and says what to do.
        """
        if rounds not in (kept := self.snapshots()):
            raise ParameterError(f"{str(self.path)!r} holds snapshots after {kept or 'no'} rounds, got {rounds!r}")
        try:
            return snapshots.read_snapshot(self._snapshots, rounds, self.config_hash())
        except CorruptRunError as error:
            raise CorruptRunError(
                f"the snapshot {snapshots.path_of(self._snapshots, rounds)} is damaged: {error}. Restore it from a "
                f"copy, or run the same again, which writes the same bytes elsewhere: `steadfed run {self._config}`"
            ) from None

    def rewind(self, rounds: int) -> None:
        """Forget all after so many rounds: their records, a torn line, checkpoints and snapshots beyond, the results.

        Raises:
            RunError: fewer rounds are written down, or the folder cannot be written.
        """
        written = self.num_rounds()
        if not 0 <= rounds <= written:
            raise RunError(f"cannot rewind {str(self.path)!r} to {rounds} rounds; {written} are written down")
        with self._reporting(f"rewind to {rounds} rounds"):
            if rounds < written:
                self._summary.unlink(missing_ok=True)
                self._model.unlink(missing_ok=True)
            for part in (self._checkpoints, self._snapshots):
                check_own_folder(part)
            self._checkpoints.mkdir(exist_ok=True)
            checkpoints.drop_beyond(self._checkpoints, rounds)
            snapshots.drop_beyond(self._snapshots, rounds)
            for file in [*([self.signatures] if self.signatures.exists() else []), self.rounds]:
                cut_file(file, sum(map(len, islice(whole_lines(file), rounds))))  # never more signatures than lines

    def write_model(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the final model: its parameters and buffers by name."""
        with self._reporting("write the model"):
            results.write_model(self._model, tensors)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write what came of the run; with it the run is done. Numbers that are not finite are written as null.

        "head" is the hash of the last line, which no later line holds; "model_after" the name of the final model.
        """
        with self._reporting("write the summary"):
            results.write_summary(self._summary, summary, self._head(), self._model)

    def summary(self) -> dict[str, Any] | None:
        """Return what came of the run; None if it is not done."""
        return results.read_summary(self._summary)

    def is_done(self) -> bool:
        """Tell whether the summary is there, and belongs to the last line and to the model beside it.

        Raises:
            CorruptRunError: the summary cannot be read.
        """
        summary = self.summary()
        return summary is not None and results.fits(summary, self.head(), self._model)

    def head(self) -> str:
        """Return the hash of the last line; of config.toml if there is none."""
        try:
            return self._head()
        except OSError as error:
            raise CorruptRunError(f"{self.rounds} cannot be read: {error.strerror}") from None

    def _head(self) -> str:
        last = last_line(self.rounds)
        return hash_of_line(last) if last else self.config_hash()

    @property
    def _config(self) -> Path:
        return self.path / "config.toml"

    @property
    def rounds(self) -> Path:
        """The lines."""
        return self.path / "rounds.jsonl"

    @property
    def _checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def _snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def _model(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def _summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def signatures(self) -> Path:
        """The signatures of the lines, if the run is signed."""
        return self.path / "signatures.jsonl"

    @property
    def public_key(self) -> Path:
        """The key that they are signed with, as the folder says: not one to trust for that alone."""
        return self.path / PUBLIC_KEY

    def _check_vacant(self) -> None:
        """Refuse a folder with anything in it that a run would write."""
        found = [part.name for part in (self._config, self._model, self._summary) if os.path.lexists(part)]
        found += [part.name for part in (self.rounds, self.signatures) if part.exists() and part.stat().st_size]
        found += [self._checkpoints.name] if checkpoints.numbers(self._checkpoints) else []
        found += [self._snapshots.name] if self.snapshots() else []
        if found:
            raise RunError(
                f"{str(self.path)!r} holds a run already ({', '.join(found)}); "
                f"continue it with `steadfed resume {self.path}`, or choose another folder"
            )

    @contextmanager
    def _reporting(self, deed: str) -> Iterator[None]:
        """Turn a failure to write into an error that says what is safe and how to go on."""
        try:
            yield
        except OSError as error:
            raise RunError(f"cannot {deed} in {str(self.path)!r}: {error.strerror}; {self._safe()}") from None

    def _safe(self) -> str:
        if not self.rounds.exists():
            return f"{self.rounds} is gone, so nothing of the run is safe"
        states = checkpoints.numbers(self._checkpoints)
        state = f"with the state after {states[-1]}" if states else "without a checkpoint"
        return (
            f"{self.num_rounds()} rounds are safe on disk, {state}: remove the cause (a full disk, a limit, a missing "
            f"permission), then continue with `steadfed resume {self.path}`"
        )


def runs_in(path: Path) -> list[Path]:
    """Return the folder itself if it is a run, or else the runs in it and below.

    Raises:
        CorruptRunError: there is none.
    """
    if (path / "config.toml").is_file() or not path.is_dir():
        return [path]
    found = sorted(config.parent for config in path.rglob("config.toml"))
    if not found:
        raise CorruptRunError(f"there is no run in {str(path)!r} or below; `steadfed run` makes one")
    return found
