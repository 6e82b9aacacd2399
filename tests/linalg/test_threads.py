"""Work side by side, results in order, BLAS limits put back."""

from __future__ import annotations

import threading

import pytest

from steadfed._linalg.threads import _controller, in_order, num_workers, one_blas_thread


def blas_threads() -> set[int]:
    """Return the limits of the BLAS libraries that steadfed controls; another package may have loaded more."""
    return {library.num_threads for library in _controller().lib_controllers if library.user_api == "blas"}


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_tasks_are_consumed_in_their_order_with_the_slot_they_were_worked_in(slots: int) -> None:
    scratch = [[-1] for _ in range(slots)]
    seen: list[int] = []

    def work(task: int, slot: list[int]) -> None:
        slot[0] = task

    def consume(task: int, slot: list[int]) -> None:
        assert slot[0] == task
        seen.append(task)

    in_order(work, range(50), scratch, consume)
    assert seen == list(range(50))


@pytest.mark.parametrize(("tasks", "slots", "here"), [(1, 1, True), (1, 3, True), (9, 1, True), (9, 3, False)])
def test_threads_are_started_for_several_tasks_in_several_slots_only(tasks: int, slots: int, here: bool) -> None:
    workers: set[int] = set()
    consumers: set[int] = set()
    in_order(
        lambda *_: workers.add(threading.get_ident()),
        range(tasks),
        [None] * slots,
        lambda *_: consumers.add(threading.get_ident()),
    )
    assert (threading.get_ident() in workers) is here
    assert consumers == {threading.get_ident()}


@pytest.mark.parametrize("slots", [1, 3])
def test_an_error_in_a_worker_reaches_the_caller(slots: int) -> None:
    def work(task: int, _: None) -> None:
        if task == 7:
            raise ArithmeticError("task seven")

    with pytest.raises(ArithmeticError, match="task seven"):
        in_order(work, range(20), [None] * slots, lambda *_: None)


def test_no_task_is_no_work() -> None:
    in_order(lambda *_: None, [], [None, None], lambda *_: pytest.fail("nothing to consume"))


def test_there_is_at_least_one_worker() -> None:
    assert num_workers() >= 1


def test_blas_limits_are_put_back_when_the_last_one_leaves() -> None:
    before = blas_threads()
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_blas_limits_are_put_back_when_callers_overlap() -> None:
    before = blas_threads()
    first_is_in, second_is_in, first_left = threading.Event(), threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def first() -> None:
        with one_blas_thread():
            first_is_in.set()
            second_is_in.wait(timeout=30.0)
        first_left.set()

    def second() -> None:
        first_is_in.wait(timeout=30.0)
        with one_blas_thread():
            second_is_in.set()
            first_left.wait(timeout=30.0)
            seen.append(blas_threads())

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [{1}]
    assert blas_threads() == before


def test_blas_is_limited_for_a_caller_in_any_thread() -> None:
    with one_blas_thread():
        pass
    seen: list[set[int]] = []

    def call() -> None:
        with one_blas_thread():
            seen.append(blas_threads())

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert seen == [{1}]


def test_blas_limits_are_put_back_after_an_error() -> None:
    before = blas_threads()
    with pytest.raises(ArithmeticError), one_blas_thread():
        raise ArithmeticError
    assert blas_threads() == before
