"""Runs for TensorBoard: one event file a run, scalars by round, the configuration as hyperparameters."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steadfed._core.durable import UNFINISHED
from steadfed.errors import ParameterError
from steadfed.exports._figures import ExportedRun, ExportedSetting

_LETTERS_OF_A_SETTING = 1_000
METRICS = ("accuracy/test", "loss/test", "clients/removed")
"""What TensorBoard's table of hyperparameters shows beside them."""


def to_tensorboard(path: Path, out: Path, *, name: str | None = None) -> Path:
    """Write a run below a log folder of TensorBoard, and return its folder there.

    The event file is written as a whole and replaces the one of an earlier export, so that a run that goes on may be
    exported again and again. The same run gives the same bytes.

    Args:
        path: the folder of the run.
        out: the log folder.
        name: what the run is called there, with slashes for folders; as its own folder if left out.

    Raises:
        ParameterError: tensorboardX is not installed, or the folder cannot be written.
        CorruptRunError: there is no run, or it is damaged.
    """
    if find_spec("tensorboardX") is None:
        raise ParameterError(
            "an export to TensorBoard needs tensorboardX; get it with: pip install 'steadfed[tensorboard]'"
        )
    run = ExportedRun(path)
    settings = run.settings()
    folder = out / (run.name if name is None else name)
    target = folder / f"events.out.tfevents.{int(run.start)}.steadfed"
    unfinished = folder / f"steadfed{UNFINISHED}"  # TensorBoard reads what has tfevents in its name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(run, settings, unfinished)
        for old in folder.glob("events.out.tfevents.*.steadfed"):
            old.unlink()
        unfinished.replace(target)
    except OSError as error:
        raise ParameterError(
            f"cannot write to {str(folder)!r}: {error.strerror}; choose another place with --out"
        ) from None
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return folder


def _write(run: ExportedRun, settings: dict[str, ExportedSetting], target: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.record_writer import RecordWriter
    from tensorboardX.summary import scalar

    writer = RecordWriter(str(target))
    try:
        writer.write(Event(wall_time=run.start, file_version="brain.Event:2").SerializeToString())
        for summary in _hyperparameters(settings):
            writer.write(Event(wall_time=run.start, summary=summary).SerializeToString())
        for each in run.rounds():
            values = [scalar(name, value).value[0] for name, value in each.figures.items()]
            event = Event(wall_time=each.time, step=each.number, summary=Summary(value=values))
            writer.write(event.SerializeToString())
        writer.flush()
    finally:
        writer.close()


def _hyperparameters(settings: dict[str, ExportedSetting]) -> tuple[Any, ...]:
    """Return what says which run this is: the hyperparameters, and the metrics to show beside them."""
    from tensorboardX.summary import hparams

    short = {key: value[:_LETTERS_OF_A_SETTING] if isinstance(value, str) else value for key, value in settings.items()}
    found: tuple[Any, ...] = hparams(short, dict.fromkeys(METRICS, 0.0))
    return found
