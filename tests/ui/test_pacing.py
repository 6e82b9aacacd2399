"""Work that is done once in a while."""

from __future__ import annotations

import threading

import pytest

from steadfed._ui.pacing import Paced


def test_without_patience_it_is_made_whenever_somebody_asks() -> None:
    made = iter(range(10))
    paced = Paced(lambda: next(made), patience=0)
    assert [paced.get(), paced.get()] == [0, 1]


def test_with_patience_it_is_kept() -> None:
    made = iter(range(10))
    paced = Paced(lambda: next(made), patience=60)
    assert [paced.get(), paced.get()] == [0, 0]


def test_who_asks_meanwhile_gets_what_there_is_and_does_not_wait() -> None:
    began, may_end = threading.Event(), threading.Event()
    calls = iter(range(10))

    def make() -> int:
        number = next(calls)
        if number:
            began.set()
            assert may_end.wait(10)
        return number

    paced = Paced(make, patience=0)
    assert paced.get() == 0
    other = threading.Thread(target=paced.get)
    other.start()
    assert began.wait(10)
    assert paced.get() == 0
    may_end.set()
    other.join()


def test_a_failure_is_told_and_the_next_one_tries_again() -> None:
    answers = iter([None, 5])

    def make() -> int:
        answer = next(answers)
        if answer is None:
            raise ValueError("no")
        return answer

    paced = Paced(make, patience=60)
    with pytest.raises(ValueError, match="no"):
        paced.get()
    assert paced.get() == 5
