"""A run on disk: a folder that is whole after every round, whatever ended the process.

    config.toml     the resolved configuration; written last of what `create` makes, so with it there is a run
    rounds.jsonl    one `RoundRecord` a line, appended
    checkpoints/    NNNNNN.safetensors and NNNNNN.json: the state after N rounds; the last two
    snapshots/      NNNNNN.safetensors: the model after N rounds, for those that are measured and at the end
    model.safetensors, summary.json    written at the end, in this order
    lock            held by the process that works in the folder

docs/decisions/0013-run-folders.md proves that a run which was killed at any moment continues exactly.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from steadfed._core.durable import append_lines, cut_file, ends_with_a_line, replace_file, sole_holder, whole_lines
from steadfed._core.parsing import parse_json
from steadfed.errors import CorruptRunError, ParameterError, RunError
from steadfed.server import _checkpoint as checkpoints, _snapshots as snapshots
from steadfed.server._checkpoint import Checkpoint
from steadfed.server._record import RoundRecord, finite_or_none
from steadfed.server._snapshots import Snapshot

if TYPE_CHECKING:
    from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class RunFolder:
    """The folder of one run: `create` it or `open` it, and hold `locked()` while writing.

    A round is written as `save_snapshot(snapshot)` if it is measured, `append(record)`, then
    `save_checkpoint(checkpoint)`. To go on after a crash, take `latest_checkpoint()` and `rewind` to its round, or to 0
    if there is none.

    >>> import tempfile
    >>> folder = RunFolder.create(Path(tempfile.mkdtemp()) / "run", config="rounds = 2")
    >>> with folder.locked():
    ...     folder.append(RoundRecord(round=0, step=5, lr=0.1, cohort=(3, 8)))
    >>> [record.cohort for record in RunFolder.open(folder.path).records()]
    [(3, 8)]
    """

    path: Path
    notes: list[str] = field(default_factory=list, repr=False)
    """What the last call of `latest_checkpoint` passed over, a sentence each."""

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: str) -> RunFolder:
        """Make the folder of a new run.

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
        with folder.locked():
            folder._check_vacant()
            with folder._reporting("start the run"):
                replace_file(folder._rounds, b"")
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
        missing = [part.name for part in (folder._config, folder._rounds) if not part.is_file()]
        if missing:
            raise CorruptRunError(
                f"{str(folder.path)!r} holds no run that can be read: {' and '.join(missing)} missing"
            )
        return folder

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other process from working in the folder.

        Raises:
            RunError: another process works in it; the message names it.
        """
        return _hold(self.path / "lock")

    def config_text(self) -> str:
        """Return the configuration of the run."""
        return self._text(self._config)

    def append(self, record: RoundRecord) -> None:
        """Write down a round; it is on disk when this returns.

        Raises:
            RunError: it could not be written; the message says what is safe and how to go on.
        """
        with self._reporting(f"write round {record.round}"):
            if not ends_with_a_line(self._rounds):
                raise RunError(
                    f"{self._rounds} ends in the middle of a line; rewind the run to its last checkpoint first"
                )
            append_lines(self._rounds, record.to_line().encode())

    def records(self) -> Iterator[RoundRecord]:
        """Yield the rounds that are written down as a whole; a line that is being written or was torn is left out.

        Raises:
            CorruptRunError: a line is not the record that belongs there; the message has its number.
        """
        try:
            for number, line in enumerate(whole_lines(self._rounds)):
                yield record_at(number, line, self._rounds)
        except OSError as error:
            raise CorruptRunError(f"{self._rounds} cannot be read: {error.strerror}") from None

    def num_rounds(self) -> int:
        """Return how many rounds are written down as a whole, without looking at what they say."""
        try:
            return sum(1 for _ in whole_lines(self._rounds))
        except OSError as error:
            raise CorruptRunError(f"{self._rounds} cannot be read: {error.strerror}") from None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write the state after some rounds, as a whole; it and the one before it are kept.

        Raises:
            RunError: it could not be written; the earlier checkpoints are still there.
        """
        with self._reporting(f"write the checkpoint after {checkpoint.round} rounds"):
            checkpoints.write_checkpoint(self._checkpoints, checkpoint)

    def latest_checkpoint(self) -> Checkpoint | None:
        """Return the newest state that is whole and whose rounds are all written down; None if there is none.

        Those that are not are passed over and named in `notes`.

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
            for _ in islice(self.records(), number):
                pass  # reading is the check
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
            snapshots.write_snapshot(self._snapshots, snapshot)

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
            return snapshots.read_snapshot(self._snapshots, rounds)
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
            self._checkpoints.mkdir(exist_ok=True)
            checkpoints.drop_beyond(self._checkpoints, rounds)
            snapshots.drop_beyond(self._snapshots, rounds)
            cut_file(self._rounds, sum(map(len, islice(whole_lines(self._rounds), rounds))))

    def write_model(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the final model: its parameters and buffers by name."""
        from steadfed.server._tensors import to_bytes

        with self._reporting("write the model"):
            replace_file(self._model, to_bytes(tensors))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write what came of the run; with it the run is done. Numbers that are not finite are written as null."""
        try:
            text = json.dumps(finite_or_none(dict(summary)), indent=2, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise ParameterError(f"a summary must hold plain JSON values, got {summary!r}: {error}") from None
        with self._reporting("write the summary"):
            replace_file(self._summary, text.encode())

    def summary(self) -> dict[str, Any] | None:
        """Return what came of the run; None if it is not done."""
        if not self._summary.exists():
            return None
        try:
            summary = parse_json(self._text(self._summary))
        except ParameterError as error:
            raise CorruptRunError(
                f"{self._summary} is not JSON: {error}; delete it and resume the run to have it written again"
            ) from None
        if not isinstance(summary, dict):
            raise CorruptRunError(
                f"{self._summary} must hold a table, got {type(summary).__name__}; delete it and resume the run"
            )
        return summary

    @property
    def _config(self) -> Path:
        return self.path / "config.toml"

    @property
    def _rounds(self) -> Path:
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

    def _text(self, path: Path) -> str:
        try:
            return path.read_bytes().decode()
        except OSError as error:
            raise CorruptRunError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise CorruptRunError(f"{path} is not UTF-8: {error}") from None

    def _check_vacant(self) -> None:
        """Refuse a folder with anything in it that a run would write."""
        parts = (self._config, self._model, self._summary)
        found = [part.name for part in parts if part.exists()]
        found += [self._rounds.name] if self._rounds.exists() and self._rounds.stat().st_size else []
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
        if not self._rounds.exists():
            return f"{self._rounds} is gone, so nothing of the run is safe"
        states = checkpoints.numbers(self._checkpoints) if self._checkpoints.is_dir() else []
        state = f"with the state after {states[-1]}" if states else "without a checkpoint"
        return (
            f"{self.num_rounds()} rounds are safe on disk, {state}: remove the cause (a full disk, a limit, a missing "
            f"permission), then continue with `steadfed resume {self.path}`"
        )


def record_at(number: int, line: bytes, path: Path) -> RoundRecord:
    """Return the record of a line of a file; the n-th line must hold round n.

    Raises:
        CorruptRunError: it does not; the message says what is whole, and what to do.
    """
    try:
        record = RoundRecord.from_line(line.decode())
        problem = None if record.round == number else f"it holds round {record.round} in the place of {number}"
    except (UnicodeDecodeError, CorruptRunError) as error:
        problem = str(error)
    if problem is None:
        return record
    raise CorruptRunError(
        f"line {number + 1} of {path} is damaged: {problem}. The {number} before it are whole: restore the file from a "
        f"copy, or cut it to its first {number} lines and resume, which computes the rest again"
    )


@contextmanager
def _hold(lock: Path) -> Iterator[None]:
    """Hold the lock, with the number of this process in it."""
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(sole_holder(lock))
            os.truncate(descriptor, 0)
            os.write(descriptor, b"%d\n" % os.getpid())
        except BlockingIOError:
            raise RunError(_say_who_holds(lock)) from None
        except OSError as error:
            raise RunError(
                f"cannot lock {str(lock)!r}: {error.strerror}; a run needs a folder that can be written and locked"
            ) from None
        yield


def _say_who_holds(lock: Path) -> str:
    """Say who holds the lock."""
    try:
        holder = f"process {int(lock.read_bytes())}"
    except (OSError, ValueError):
        holder = "another process"  # it has not written its number yet
    return f"{holder} is working in {str(lock.parent)!r}; wait until it is done, or end it"


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
