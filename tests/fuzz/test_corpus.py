"""Every input that ever taught the fuzzer something, played again without it."""

from __future__ import annotations

import pytest
from tests.fuzz.harness import CORPUS, Choices, Finding, Harness, corpus_of, play, promise, sized
from tests.fuzz.minimising import smallest
from tests.fuzz.table import HARNESSES

from steadfed.errors import ParameterError

_MOST = 2_000_000


@pytest.mark.parametrize("name", HARNESSES)
def test_no_input_of_the_corpus_breaks_its_decoder(name: str) -> None:
    harness = HARNESSES[name]
    read = harness.reader()
    inputs = {path.name: path.read_bytes() for path in corpus_of(name)}
    inputs |= {f"seed {number}": seed for number, seed in enumerate(harness.seeds())}
    found = {key: finding for key, data in inputs.items() if (finding := play(harness, read, data)) is not None}
    assert not found, "\n".join(f"{name}/{key}: {finding}" for key, finding in found.items())


@pytest.mark.parametrize("name", HARNESSES)
def test_a_seed_of_every_decoder_is_accepted(name: str) -> None:
    """Else nothing behind the first check would ever be played."""
    harness = HARNESSES[name]
    read = harness.reader()
    refused = []
    for seed in harness.seeds():
        try:
            read(seed)
        except harness.refusals as error:
            refused.append(str(error)[:200])
        else:
            return
    pytest.fail(f"all seeds of {name} are refused: {refused}")


def test_every_folder_of_the_corpus_is_that_of_a_decoder() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(HARNESSES)


def test_the_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < _MOST


def _harness(read: object) -> Harness:
    return Harness(name="toy", reader=lambda: read, seeds=lambda: [b""], refusals=(ParameterError,))  # type: ignore[arg-type,return-value]


def _finding(read: object, data: bytes = b"") -> Finding | None:
    return play(_harness(read), read, data)  # type: ignore[arg-type]


def test_a_refusal_of_the_tree_is_no_finding() -> None:
    def refuse(_data: bytes) -> None:
        raise ParameterError("it must be something else")

    assert _finding(refuse) is None


def test_every_other_error_a_broken_promise_and_a_long_time_are_findings() -> None:
    def fail(_data: bytes) -> None:
        raise KeyError("a")

    def spin(_data: bytes) -> None:
        while True:
            clock.append(1)
            if len(clock) > 10:
                return

    clock: list[int] = []
    assert "KeyError" in str(_finding(fail))
    assert "broken" in str(_finding(lambda _data: promise(False, "broken")))
    slow = Harness(name="toy", reader=lambda: spin, seeds=lambda: [b""], refusals=(), seconds=-1.0)
    assert "time" in str(play(slow, spin, b""))


def test_a_refusal_that_nobody_can_read_is_a_finding() -> None:
    def refuse(data: bytes) -> None:
        raise ParameterError(f"got {data.hex()}")

    assert "letters" in str(_finding(refuse, bytes(100_000)))


def test_choices_that_are_used_up_are_the_first_ones() -> None:
    choices = Choices(b"")
    assert (choices.below(5), choices.pick("ab"), choices.sized(), choices.text(), choices.whole()) == (
        0,
        "a",
        b"",
        "",
        0,
    )


def test_choices_read_parts_as_they_are_written() -> None:
    choices = Choices(sized(b"ab", b"") + b"\1\5")
    assert (choices.sized(), choices.sized(), choices.whole(), choices.left) == (b"ab", b"", 5, 0)


def test_a_corpus_is_reduced_to_the_shortest_inputs_that_reach_everything() -> None:
    harness = HARNESSES["idx"]
    inputs = [bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), bytes([0, 0, 8, 1, 0, 0, 0, 1, 7]), b"", b"abc", b"abcd"]
    kept = smallest(harness, harness.reader(), inputs)
    assert kept[0] == b""
    assert inputs[1] in kept
    assert not {inputs[0], b"abc"} & set(kept)
