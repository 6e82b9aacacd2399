"""Progress: what is shown, how often, and what a signal does."""

from __future__ import annotations

import io
import os
import signal

import pytest
from rich.console import Console

from steadfed._cli import progress
from steadfed._cli.progress import ProgressBars, ProgressLines, RunProgress, verdict
from steadfed._cli.run_loop import Stopper
from steadfed.server._record import RoundRecord


def record(number: int, **facts: object) -> RoundRecord:
    given = {"cohort": (1, 2, 3), "received": (1, 2, 3), "kept": (1, 2), "weights": (0.5, 0.5, 0.0), **facts}
    return RoundRecord(round=number, step=number + 1, lr=0.1, train_loss=0.5, test_accuracy=0.25, **given)


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(progress, "time", moved)
    return moved


def test_a_verdict_counts_whom_the_rule_removed() -> None:
    assert verdict(record(0)) == "removed 1"
    assert verdict(record(0, byzantine=(2, 3))) == "removed 1 (1/2 Byzantine)"
    assert verdict(record(0, skipped=True, kept=(), weights=())) == "skipped"


def test_whom_a_round_is_about_is_told_when_it_is_about_others() -> None:
    words = ["removed: Barcelona (41 standard deviations)", "removed: Barcelona (39 standard deviations, 2nd time)"]
    said = iter([(words[0], "B"), (words[1], "B"), ("", ""), ("", ""), ("silent: Jena", "J")])
    run = RunProgress(5, people=lambda _: next(said))
    news, facts = [], []
    for number in range(5):
        run.add_round(record(number))
        news.append(run.news)
        facts.append(run.facts()[-1])
    assert news == [f"round 0: {words[0]}", "", "", "", "round 4: silent: Jena"]
    assert facts == [news[0], f"round 1: {words[1]}", "removed 1", "removed 1", news[4]]


def test_names_are_whole_on_a_narrow_terminal() -> None:
    names = "removed: Barcelona (41 standard deviations); silent: Erfurt, Frankfurt am Main"
    for display in (ProgressLines, ProgressBars):
        screen = io.StringIO()
        shown = display(
            {"": RunProgress(3, people=lambda _: (names, names))}, Console(file=screen, width=80, force_terminal=True)
        )
        with shown:
            shown.add_round("", record(0))
        for name in ("Barcelona", "Erfurt", "Frankfurt", "Main"):
            assert name in screen.getvalue()


def test_whom_a_round_waits_for_is_said_once_and_goes_when_they_have_come() -> None:
    words = "round 1: 4 of 6 replied, waiting for Erfurt, 31 s left"
    screen = io.StringIO()
    with ProgressLines({"": RunProgress(3)}, Console(file=screen, width=80)) as lines:
        for said in ("", words, words, "", ""):
            lines.wait("", said)
    assert screen.getvalue() == f"{words}\n"
    screen = io.StringIO()
    console = Console(file=screen, width=80, force_terminal=True, color_system=None)
    with ProgressBars({"": RunProgress(3, people=lambda _: ("silent: Erfurt", "E"))}, console) as bars:
        bars.add_round("", record(0))
        bars.wait("", words)
        assert list(bars.news) == ["round 0: silent: Erfurt", words]
        bars.wait("", "")
        assert list(bars.news) == ["round 0: silent: Erfurt"]
    assert "note: round 0: silent: Erfurt" in screen.getvalue()


def lines_of(clock: Clock, rounds: int, seconds: float) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    display = ProgressLines({"": RunProgress(rounds)}, console)
    for number in range(rounds):
        clock.now += seconds
        display.add_round("", record(number))
    assert display.complete
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_lines_are_few_whether_rounds_are_fast_or_slow(clock: Clock) -> None:
    fast, slow = lines_of(clock, rounds=5000, seconds=0.001), lines_of(clock, rounds=1000, seconds=2.0)
    assert len(fast) == 2 + 4
    assert 20 <= len(slow) <= 1000 * 2 / 60 + 2
    assert fast[0] == "    1 of 5,000 rounds  loss 0.5  accuracy 25.0 %  removed 1  5.0 s left"
    assert fast[-1].startswith("5,000 of 5,000 rounds")


def test_a_sweep_counts_its_cells_and_says_what_failed(clock: Clock) -> None:
    console = Console(file=io.StringIO(), width=200)
    display = ProgressLines({"": RunProgress(0, noun="cell")}, console)
    for done in range(4):
        clock.now += 30.0
        display.count("", done, 3, "1 failed" if done else "")
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().splitlines()
    assert shown[0].startswith("0 of 3 cells")
    assert shown[-1] == "3 of 3 cells  1 failed"
    assert "loss" not in console.file.getvalue()


def test_the_gauntlet_counts_matrices() -> None:
    screen = io.StringIO()
    display = ProgressLines({"": RunProgress(2, noun="matrix", several="matrices")}, Console(file=screen, width=200))
    display.count("", 1, 2)
    assert screen.getvalue().startswith("1 of 2 matrices")


def test_a_download_is_drawn_in_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress.download_bar("https://example.org/points.gz") as bar:
        assert bar is None
    screen = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=100))
    with progress.download_bar("https://example.org/points.gz") as bar:
        assert bar is not None
        bar.total = 1000
        bar.update(250)
    assert "points.gz" in screen.getvalue()


def test_bars_fit_eighty_columns_and_say_that_they_stop(clock: Clock) -> None:
    file = io.StringIO()
    lanes = {name: RunProgress(1000) for name in ("mean", "rage", "oracle")}
    bars = ProgressBars(lanes, Console(file=file, width=80, force_terminal=True, color_system=None))
    with bars:
        for name in lanes:
            clock.now += 2.0
            bars.add_round(name, record(432, byzantine=(2, 3)))
        bars.announce_stop()
    shown = [line for line in file.getvalue().replace("\r", "\n").splitlines() if "oracle" in line]
    assert "433/1000 acc. 25.0 % removed 1 (1/2 Byz.)" in shown[-1]
    assert "…" not in file.getvalue()
    assert "stopping after this round" not in shown[-1]


def test_the_first_signal_is_a_wish_and_the_second_an_interrupt() -> None:
    heard: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with Stopper(lambda: heard.append("wish")) as stopper:
        os.kill(os.getpid(), signal.SIGINT)
        assert (heard, stopper.signal) == (["wish"], signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is before
