"""How far runs and sweeps are: a bar in a terminal, lines elsewhere, nothing if nobody wants to know; on stderr."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Self, final

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from steadfed._core.downloads import DownloadBar
from steadfed._core.wording import NOTHING, clock, duration, number, percent, plural

if TYPE_CHECKING:
    from steadfed.server._record import RoundRecord

WIDE = 100
"""Columns of a terminal from which words are written out."""
STOPPING = "stopping after this round; once more stops at once, and nothing is lost"
MOST_LINES = 20
"""How many lines a run prints about where there is no terminal, unless it takes long."""
LONGEST_SILENCE = 60.0
"""After so many seconds a line is printed anyway."""


@final
class RunProgress:
    """One run, or one sweep of many cells or matrices, as it is seen from outside."""

    def __init__(
        self,
        total: int,
        done: int = 0,
        *,
        noun: str = "round",
        several: str | None = None,
        people: Callable[[RoundRecord], tuple[str, object]] | None = None,
    ) -> None:
        """Begin where the run begins.

        `noun` is what is counted, `several` its plural; `people` tells whom a round is about: in words, and by what
        is the same in two rounds that are about the same people.
        """
        self.total, self.done, self.noun, self.several = total, done, noun, several or f"{noun}s"
        self.loss: float | None = None
        self.accuracy: float | None = None
        self.verdict = ""
        self.news = ""
        """Whom the last round is about, by name, if it is about others than the one before."""
        self.named = ""
        """Whom the last round is about, by name."""
        self.waiting = ""
        """Whom the round in progress waits for."""
        self._people = people
        self._about: object = ()
        self.evaluated = False
        """Whether the last round looked at the model."""
        self._began = self._before = time.monotonic()
        self._pace: float | None = None

    def count(self, done: int, total: int) -> None:
        """Take note of how many are done, of how many there are to be now."""
        now, steps = time.monotonic(), max(1, done - self.done)
        seconds, self._before = (now - self._before) / steps, now
        self._pace = seconds if self._pace is None else 0.9 * self._pace + 0.1 * seconds
        self.done, self.total, self.evaluated = done, total, True

    def add_round(self, record: RoundRecord) -> None:
        """Take note of a round."""
        self.count(record.round + 1, self.total)
        loss = record.train_loss if record.train_loss is not None else record.test_loss
        self.evaluated = loss is not None
        self.loss = self.loss if loss is None else loss
        self.accuracy = self.accuracy if record.test_accuracy is None else record.test_accuracy
        self.verdict = verdict(record)
        told, about = ("", ()) if self._people is None else self._people(record)
        self.named = f"round {record.round}: {told}" if told else ""
        self.news, self._about = self.named if about != self._about else "", about

    def facts(self) -> list[str]:
        """Return loss, accuracy and what the rule did in the last round."""
        shown = [f"loss {number(self.loss)}"] if self.loss is not None else []
        shown += [f"accuracy {percent(self.accuracy)}"] if self.accuracy is not None else []
        told = self.named or self.verdict
        return [*shown, told] if told else shown

    def time_left(self) -> float | None:
        """Return how many seconds the rest will take at the pace of the last rounds."""
        return None if self._pace is None else self._pace * (self.total - self.done)

    def clock(self) -> str:
        """Return the time left; after the last round, and before the first, the time passed."""
        left = self.time_left()
        if left is None or self.done == self.total:
            return clock(self._before - self._began if self.done == self.total else time.monotonic() - self._began)
        return f"{clock(left)} left"


def verdict(record: RoundRecord) -> str:
    """Return whom the rule removed in a round, as far as a line has room for it."""
    from steadfed.server._history import Tally

    tally = Tally.of(record)
    if tally.skipped:
        return "skipped"
    if not record.attributed:
        return "nobody judged"
    caught = f" ({tally.byzantine_removed}/{tally.byzantine} Byzantine)" if tally.byzantine else ""
    return f"removed {tally.removed}{caught}"


class ProgressDisplay(AbstractContextManager["ProgressDisplay"]):
    """Shows rounds as they come; a context manager."""

    def __init__(self, runs: Mapping[str, RunProgress]) -> None:
        """Watch these runs, by their names."""
        self.runs = runs

    @property
    def complete(self) -> bool:
        """Whether every round of every run was seen."""
        return all(run.done >= run.total for run in self.runs.values())

    def add_round(self, name: str, record: RoundRecord) -> None:
        """Show a round."""
        self.runs[name].add_round(record)
        self.show(name)

    def count(self, name: str, done: int, total: int, verdict: str = "") -> None:
        """Show how many are done."""
        self.runs[name].count(done, total)
        self.runs[name].verdict = verdict
        self.show(name)

    def wait(self, name: str, words: str) -> None:
        """Show whom the round in progress waits for, if that is news; no words: for nobody."""
        if words != self.runs[name].waiting:
            self.runs[name].waiting = words
            self.show_waiting(name)

    @abstractmethod
    def show(self, name: str) -> None:
        """Show where a run is after a round."""

    @abstractmethod
    def show_waiting(self, name: str) -> None:
        """Show whom the round in progress waits for."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Show what is worth telling."""

    @abstractmethod
    def announce_stop(self) -> None:
        """Say that a signal was heard; called by its handler, in the middle of anything."""


@final
class ProgressLines(ProgressDisplay):
    """Prints a line now and then: at most one a second and about twenty in all, and at least one a minute."""

    def __init__(self, runs: Mapping[str, RunProgress], console: Console) -> None:
        """Print to the console."""
        super().__init__(runs)
        self._console = console
        self._last = {name: (-1.0, run.done) for name, run in runs.items()}

    def show(self, name: str) -> None:
        """Print a line, if it is time."""
        run, (before, round_before) = self.runs[name], self._last[name]
        now = time.monotonic()
        ends = before < 0 or run.done == run.total
        steps = (run.done - round_before) * MOST_LINES >= run.total
        if ends or run.news or (run.evaluated and now - before >= 1.0 and steps) or now - before >= LONGEST_SILENCE:
            self._last[name] = (now, run.done)
            width = len(f"{run.total:,}")
            counted = f"{run.done:>{width},} of {plural(run.total, run.noun, run.several)}"
            head = f"{name}  {counted}" if len(self.runs) > 1 else counted
            left = [f"{duration(run.time_left() or 0.0)} left"] if run.done < run.total else []
            self._print("  ".join([head, *run.facts(), *left]))

    def show_waiting(self, name: str) -> None:
        """Print it, if there is anybody."""
        if words := self.runs[name].waiting:
            self._print(f"{name}  {words}" if len(self.runs) > 1 else words)

    def note(self, text: str) -> None:
        """Print the note."""
        self._print(f"note: {text}")

    def announce_stop(self) -> None:
        """Write past all buffers: the signal may have come in the middle of a print."""
        if not self._console.quiet:
            os.write(2, f"{STOPPING}\n".encode())

    def __exit__(self, *_: object) -> None:
        """Leave the lines as they are."""

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


@final
class ProgressBars(ProgressDisplay):
    """Draws a bar for every run."""

    def __init__(self, runs: Mapping[str, RunProgress], console: Console) -> None:
        """Draw on the console, which is a terminal."""
        super().__init__(runs)
        wide, several = console.width >= WIDE, len(runs) > 1
        learning = all(run.noun == "round" for run in runs.values())
        cells: list[ProgressColumn] = [
            *([TextColumn("[bold]{task.description}")] if several else []),
            BarColumn(bar_width=24 if wide else 8),
            _Cell(lambda run: f"{run.done}/{run.total}" + ("" if learning else f" {run.several}")),
            *([_Cell(lambda run: f"loss {_digits(run.loss)}")] if learning and (wide or not several) else []),
            *([_Cell(lambda run: f"{'accuracy' if wide else 'acc.'} {percent(run.accuracy)}")] if learning else []),
            _Cell(lambda run: run.verdict if wide else run.verdict.replace("Byzantine", "Byz."), 28 if wide else 23),
            _Cell(RunProgress.clock),
        ]
        self._progress = _Drawing(*cells, console=console)
        self._tasks = {
            name: self._progress.add_task(name, total=run.total, completed=run.done, run=run)
            for name, run in runs.items()
        }

    def __enter__(self) -> Self:
        """Draw from now on."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bars as they are."""
        self._progress.warning = ""
        self._progress.news = ()
        self._progress.stop()

    def show(self, name: str) -> None:
        """Move the bar; whom the round is about stands below it, and stays above it if these are others than before."""
        run = self.runs[name]
        if run.news:
            self.note(run.news)
        self.show_waiting(name)
        self._progress.update(self._tasks[name], completed=run.done, total=run.total)

    def show_waiting(self, name: str) -> None:
        """Let the next drawing say whom the last round was about, and whom this one waits for."""
        del name
        self._progress.news = self.news

    @property
    def news(self) -> tuple[str, ...]:
        """The lines below the bars: whom the last round was about, and whom the next one waits for."""
        return tuple(words for run in self.runs.values() for words in (run.named, run.waiting) if words)

    def note(self, text: str) -> None:
        """Print the note above the bars."""
        self._progress.console.print(f"note: {text}", style="yellow", highlight=False, markup=False)

    def announce_stop(self) -> None:
        """Let the next drawing say so."""
        self._progress.warning = STOPPING


@final
class _Drawing(Progress):
    """The bars, and below them news and a warning; drawn several times a second, so that they hear of signals."""

    warning = ""
    news: tuple[str, ...] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Draw the bars, the news and the warning."""
        yield from super().get_renderables()
        yield from map(Text, self.news)
        if self.warning:
            yield Text(self.warning, style="yellow")


@final
class _Cell(ProgressColumn):
    """A part of the line of a run."""

    def __init__(self, content: Callable[[RunProgress], str], width: int | None = None) -> None:
        super().__init__(Column(no_wrap=True, min_width=width))
        self._content = content

    def render(self, task: Task) -> Text:
        """Return what the run says now."""
        return Text(self._content(task.fields["run"]))


def _digits(loss: float | None) -> str:
    """Return a loss with three digits after the point, so that it does not jump about."""
    return NOTHING if loss is None else f"{loss:.3f}" if abs(loss) < 1e3 else f"{loss:.1e}"


def progress_display(runs: Mapping[str, RunProgress], *, quiet: bool = False) -> ProgressDisplay:
    """Return who shows these runs: bars if stderr is a terminal, lines if not."""
    console = Console(stderr=True, quiet=quiet)
    return ProgressBars(runs, console) if console.is_terminal and not quiet else ProgressLines(runs, console)


@final
class _DownloadBar:
    """What pooch asks of a progress bar, drawn by rich."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task
        self.total = 0

    def update(self, count: int) -> None:
        """Count bytes."""
        self._progress.update(self._task, total=self.total or None, advance=count)

    def reset(self) -> None:
        """Count from 0 again."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Leave the bar as it is; the context around it takes it down."""


@contextmanager
def download_bar(url: str) -> Iterator[DownloadBar | None]:
    """Draw the bar of a download if stderr is a terminal, otherwise nothing."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _DownloadBar(progress, progress.add_task(url.rpartition("/")[2], total=None))
