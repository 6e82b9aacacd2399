"""Runs in progress: shown round by round, stopped by a signal between two rounds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, final

if TYPE_CHECKING:
    from steadfed._cli.progress import ProgressDisplay
    from steadfed.runs import Run
    from steadfed.server._record import RoundRecord

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@final
class Stopper:
    """Turns the first Ctrl-C (or SIGTERM) into a wish to stop, and the second into `KeyboardInterrupt`.

    The third ends the process as if nobody listened. Worker processes inherit the handler; there it does nothing.
    """

    def __init__(self, announce: Callable[[], None]) -> None:
        """Listen from `with` on; `announce` is called when somebody wishes to stop."""
        self.signal: int | None = None
        """What was heard."""
        self._announce = announce
        self._process = os.getpid()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Listen."""
        for each in SIGNALS:
            self._before[each] = signal.signal(each, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the signals to those who had them before."""
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if os.getpid() != self._process:
            return
        if self.signal is None:
            self.signal = number
            self._announce()
            return
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt


def follow(runs: Mapping[str, Run], progress_display: ProgressDisplay) -> int | None:
    """Play the runs, a round of each in turn, and show every round.

    After the first signal the round in progress is finished; after the second nothing is. Either way the runs can be
    resumed.

    Returns:
        The signal that ended this before all was done; None if none did.
    """
    with Stopper(progress_display.announce_stop) as stopper:
        try:
            with progress_display, ExitStack() as stack:
                playing = {name: stack.enter_context(closing(run.play())) for name, run in runs.items()}
                return _in_turn(runs, playing, progress_display, stopper)
        except KeyboardInterrupt:
            return stopper.signal


def _in_turn(
    runs: Mapping[str, Run],
    playing: dict[str, Generator[RoundRecord, None, None]],
    progress_display: ProgressDisplay,
    stopper: Stopper,
) -> int | None:
    noted: list[str] = []
    while playing:
        for name, rounds in list(playing.items()):
            record = next(rounds, None)
            for note in runs[name].notes:
                if note not in noted:
                    noted.append(note)
                    progress_display.note(note)
            if record is None:
                del playing[name]
                continue
            progress_display.add_round(name, record)
            if stopper.signal is not None and not progress_display.complete:
                return stopper.signal
    return None
