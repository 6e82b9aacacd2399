"""Worker processes: the same bits, clear errors, no hang, nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tests.simulation.small import classes, config, played, same_bits

from steadfed._linalg import threads
from steadfed.aggregators import Rage
from steadfed.attacks import FractionMembers, LabelFlip
from steadfed.data import LogisticPoints
from steadfed.errors import ParameterError, RunError
from steadfed.models import (
    Architecture,
    ConvolutionalNetwork,
    ImportedModel,
    LogisticRegression,
    MultilayerPerceptron,
    SoftmaxRegression,
)
from steadfed.partitions import IidPartition, UnequalPartition
from steadfed.simulation import ClientOptions, Federation
from steadfed.simulation._worker_pool import WorkerPool, _shared, _work

FAILING = ImportedModel(factory="tests.simulation.modules:Failing")
DROPPING = ImportedModel(factory="tests.simulation.modules:dropping")
DYING = ImportedModel(factory="tests.simulation.modules:Dying")


def workers(federation: Federation) -> list[int]:
    """Return the numbers of the worker processes."""
    return [worker._process.pid for worker in federation._pool._workers if worker._process is not None]  # type: ignore[misc]  # noqa: SLF001


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has asked for its exit code does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def eventually(happens: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait until it happens, at most so long."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.portable
@pytest.mark.parametrize("model", [SoftmaxRegression(), MultilayerPerceptron(hidden=(6,))])
@pytest.mark.parametrize("engine", ["auto", "vmap", "loop"])
def test_any_number_of_processes_gives_the_same_bits(model: Architecture, engine: str) -> None:
    what = config(
        model=model,
        engine=engine,
        cohort_size=9,
        batch_size=8,
        dtype="float32",
        partition=UnequalPartition(num_clients=12, spread=0.5),
        attack=LabelFlip(),
        byzantine=FractionMembers(fraction=0.25),
        rule=Rage(byzantine_fraction=0.25),
    )
    alone = played(what)
    for jobs in (2, 3, 20):
        assert same_bits(alone, played(what, jobs=jobs))


@pytest.mark.portable
@pytest.mark.parametrize("batch_size", [7, 20])
def test_logistic_regression_has_the_same_bits_in_any_number_of_processes(batch_size: int) -> None:
    what = config(
        rounds=20,
        data=LogisticPoints(num_points=960, dim=40, num_groups=24),
        partition=IidPartition(num_clients=24),
        model=LogisticRegression(l2=0.01),
        cohort_size=11,
        local_steps=5,
        batch_size=batch_size,
        lr=0.5,
        dtype="float32",
    )
    dataset = what.data.load()
    alone = played(what, dataset)
    for jobs in (2, 3):
        assert same_bits(alone, played(what, dataset, jobs=jobs))


@pytest.mark.portable
@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_any_chunk_size_gives_the_same_bits(engine: str, size: int) -> None:
    what = config(engine=engine, model=MultilayerPerceptron(hidden=(6,)), dtype="float32", cohort_size=11)
    states, _ = played(what)
    with Federation(what, dataset=classes()) as federation:
        federation.setting.engine.chunk_size = size
        state = federation.start()
        for number in range(what.rounds):
            state, _ = federation.play(state)
            assert torch.equal(state.model, states[number + 1].model)


def test_chunks_do_not_depend_on_the_number_of_processes_if_company_matters() -> None:
    what = config(engine="vmap", cohort_size=40, partition=UnequalPartition(num_clients=40, spread=0.3))
    chunks = []
    for jobs in (1, 2, 3, 40):
        federation = Federation(what, dataset=classes(), jobs=jobs)
        clients = federation._sort_by_kind(torch.arange(40).numpy())  # noqa: SLF001
        chunks.append(list(federation._pool._chunks(clients)))  # noqa: SLF001
    assert all(each == chunks[0] for each in chunks)
    assert max(last - first for first, last in chunks[0]) <= 10  # or one worker would do all the work


@pytest.mark.portable
def test_convolutions_have_the_same_bits_in_any_number_of_processes() -> None:
    images = classes(dim=64)
    square = images.features.view(-1, 1, 8, 8)
    from dataclasses import replace

    data = replace(images, features=square, test_features=images.test_features.view(-1, 1, 8, 8))
    what = config(model=ConvolutionalNetwork(channels=(3, 4), kernel_size=3), rounds=2, dtype="float32")
    assert same_bits(played(what, data), played(what, data, jobs=3))


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_worker_that_was_killed_is_reported_and_not_waited_for(victim: int) -> None:
    with Federation(config(), dataset=classes(), jobs=3) as federation:
        state, _ = federation.play(federation.start())
        os.kill(workers(federation)[victim], signal.SIGKILL)
        with pytest.raises(RunError, match=r"worker process ended with exit code -9 \(killed"):
            federation.play(state)
        with pytest.raises(RunError, match="no worker process is running"):
            federation.play(state)
    with federation:
        assert torch.equal(federation.play(state)[0].model, played(config())[0][2].model)


def test_workers_that_die_in_the_middle_of_a_round_are_reported() -> None:
    with (
        Federation(config(model=DYING, engine="loop"), dataset=classes(), jobs=2) as federation,
        pytest.raises(RunError, match="a worker process ended with exit code -9"),
    ):
        federation.play(federation.start())


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_model_that_fails_is_an_error_with_its_message(jobs: int) -> None:
    with (
        Federation(config(model=FAILING, engine="loop"), dataset=classes(), jobs=jobs) as federation,
        pytest.raises(RunError, match=r"local steps failed: (.|\n)*the dog ate the gradient"),
    ):
        federation.play(federation.start())


def test_workers_end_with_the_federation() -> None:
    with Federation(config(), dataset=classes(), jobs=3) as federation:
        pids = workers(federation)
        assert len(pids) == 3
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))


def test_playing_outside_of_the_with_block_says_so() -> None:
    federation = Federation(config(), dataset=classes(), jobs=2)
    with pytest.raises(RunError, match="enter the `with` block"):
        federation.play(federation.start())
    alone = Federation(config(), dataset=classes())
    assert alone.play(alone.start())[0].round == 1


def test_workers_end_when_the_parent_is_killed() -> None:
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        torch.set_num_threads(1)  # threads of the parent's do not exist here
        try:
            with Federation(config(client=ClientOptions(momentum=0.1)), dataset=classes(), jobs=2) as federation:
                federation.play(federation.start())
                os.write(writer, " ".join(map(str, workers(federation))).encode() + b"\n")
                signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as file:
        pids = [int(word) for word in file.readline().split()]
    assert len(pids) == 2
    assert all(map(is_running, pids))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    try:
        assert eventually(lambda: not any(map(is_running, pids)))
    finally:
        for pid in filter(is_running, pids):  # a failure must leave nobody behind
            os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux shows what a process has open")
def test_workers_hold_no_file_of_the_parent_open(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w"), Federation(config(), dataset=classes(), jobs=2) as federation:
        federation.play(federation.start())
        for pid in workers(federation):
            files = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]  # noqa: PTH115
            assert not any("lock" in file for file in files)


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "2", None])
def test_a_number_of_processes_that_is_none_is_refused(jobs: object) -> None:
    with pytest.raises(ParameterError, match=f"jobs must be a whole number of at least 1, got {jobs!r}"):
        Federation(config(), dataset=classes(), jobs=jobs)  # type: ignore[arg-type]


def test_shared_memory_has_no_name_and_no_file() -> None:
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()  # noqa: PTH112, PTH208, S108
    with Federation(config(client=ClientOptions(momentum=0.5)), dataset=classes(), jobs=2) as federation:
        federation.play(federation.start())
        for pid in (os.getpid(), *workers(federation)):
            assert "/dev/shm" not in Path(f"/proc/{pid}/maps").read_text()  # noqa: S108
        after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()  # noqa: PTH112, PTH208, S108
        assert not {name for name in after - before if str(os.getpid()) in name}


def test_orders_are_few_numbers_and_chunks_cover_the_cohort_once() -> None:
    what = config(cohort_size=12, batch_size=8, partition=UnequalPartition(num_clients=12, spread=1.0))
    for jobs in (1, 3):
        federation = Federation(what, dataset=classes(), jobs=jobs)
        pool: WorkerPool = federation._pool  # noqa: SLF001
        clients = federation._sort_by_kind(torch.arange(12).numpy())  # noqa: SLF001
        chunks = list(pool._chunks(clients))  # noqa: SLF001
        assert [row for first, last in chunks for row in range(first, last)] == list(range(12))
        kinds = federation.setting.engine.kinds(clients)
        assert all(len(set(kinds[first:last].tolist())) == 1 for first, last in chunks)
        assert list(pool._chunks(clients[:0])) == []  # noqa: SLF001


@pytest.mark.parametrize("jobs", [1, 2])
def test_federations_in_threads_do_not_disturb_each_other(jobs: int) -> None:
    configs = [config(model=DROPPING, seed=seed, dtype="float32") for seed in range(3)]
    alone = [played(each) for each in configs]
    with ThreadPoolExecutor(3) as executor:
        for _ in range(3):
            together = executor.map(lambda each: played(each, jobs=jobs), configs)
            assert all(map(same_bits, alone, together))


def test_workers_do_not_wait_for_a_lock_that_a_thread_held() -> None:
    with threads._blas_limit.lock, ThreadPoolExecutor(1) as executor:  # noqa: SLF001  as another federation may at any moment
        reader, writer = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=_work, args=(reader, [], None, None), daemon=True)
        executor.submit(process.start).result()
    reader.close()
    writer.close()
    process.join(10.0)
    code = process.exitcode
    process.kill()
    assert code == 0


def test_more_memory_than_there_is_is_an_error_that_says_for_what() -> None:
    with pytest.raises(RunError, match=r"bytes of memory for 1000000 × 1000000000000 numbers cannot be had"):
        _shared((10**6, 10**12), torch.float32)


def test_processes_that_may_not_start_others_are_told_so() -> None:
    reader, writer = multiprocessing.Pipe(duplex=False)

    def start() -> None:
        try:
            with Federation(config(), dataset=classes(), jobs=2):
                writer.send("started")
        except ParameterError as error:
            writer.send(str(error))

    process = multiprocessing.get_context("fork").Process(target=start, daemon=True)
    process.start()
    assert reader.poll(20.0)
    assert "may not start others; use jobs = 1, got 2" in reader.recv()
    process.join(10.0)
