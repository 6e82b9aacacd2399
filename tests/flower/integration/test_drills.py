"""One of four nodes lies on the real engine, in every way: the run goes on, and the model is that of the honest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.flower.integration.app.drilled.numbers import LIAR, initial, trained
from tests.flower.integration.conftest import Played
from tests.flower.integration.drills import EVERYTHING, FAULTS, OVERWEIGHT, USUAL

from steadfed.flower.redteam._malformed import MALFORMED
from steadfed.server._record import RoundRecord

pytestmark = pytest.mark.federation

Arrays = dict[str, NDArray[Any]]
TOLERANCE = 1e-6
"""A round with a reply that is no model is the mean of the other three, to so much per number."""
MOST_MEMORY = 2**20
"""Kilobytes that the ServerApp may take at most, the libraries it imports included; the chunk bomb is 4 GiB."""
PLAYS = [
    pytest.param(f"{kind}-{part}", lies, marks=[pytest.mark.slow] if kind == "rest" else [])
    for kind, parts in EVERYTHING.items()
    for part, lies in enumerate(parts)
]
PARAMETERS = ("weight", "bias")


def flat(arrays: Arrays) -> NDArray[np.float64]:
    return np.concatenate([arrays[name].ravel().astype(np.float64) for name in PARAMETERS])


def replies(before: Arrays, nodes: Sequence[int]) -> NDArray[np.float64]:
    """Return the parameters that honest nodes reply with."""
    return np.stack([flat(trained(before, node)) for node in nodes])


def check_round(record: RoundRecord, before: Arrays, after: Arrays, lie: str, liar: int = LIAR) -> None:
    """Compare a round with what the honest three would have made of it."""
    honest = [node for node in range(4) if node != liar]
    faults = {drop.client: drop.fault for drop in record.drops}
    sent = replies(before, honest)
    distance = np.linalg.norm(flat(after) - sent.mean(axis=0))
    assert not record.skipped
    assert record.received == (0, 1, 2, 3)
    assert 0.5 <= (record.metrics["train/loss"] or 0.0) <= 3.5  # what honest nodes say
    if lie in FAULTS:
        assert faults == {liar: FAULTS[lie]}, record.drops
        assert record.unusable == (liar,)
        np.testing.assert_allclose(flat(after), sent.mean(axis=0), rtol=0.0, atol=TOLERANCE)
        return
    assert faults == {}, record.drops
    farthest = max(np.linalg.norm(first - second) for first in sent for second in sent)
    assert distance <= farthest, f"{lie}: {distance} from the mean of the honest, who are {farthest} apart at most"


def check_shapes(models: Sequence[Arrays]) -> None:
    """Nobody changed names, shapes or dtypes, and every number is finite."""
    wanted = {name: (values.shape, values.dtype) for name, values in initial().items()}
    for model in models:
        assert {name: (values.shape, values.dtype) for name, values in model.items()} == wanted
        assert all(np.isfinite(values).all() for values in model.values())
        assert (model["norm.running_var"] >= 0).all()
    counters = [int(model["norm.num_batches_tracked"]) for model in models]
    assert counters == list(range(len(models)))


def check_play(play: Played, lies: Sequence[str], liar: int = LIAR) -> list[RoundRecord]:
    """Go through all rounds of a play."""
    assert play.facts["status"] == "finished:completed", play.facts
    records = play.records()
    assert len(records) == len(lies)
    models = [play.model(number) for number in range(len(lies) + 1)]
    check_shapes(models)
    for record, lie, (before, after) in zip(records, lies, pairwise(models), strict=True):
        check_round(record, before, after, lie, liar)
    return records


@pytest.mark.parametrize(("name", "lies"), PLAYS)
def test_no_malformed_reply_stops_the_run_or_changes_the_model(
    name: str, lies: Sequence[str], played: Callable[[str], Played]
) -> None:
    play = played(name)
    check_play(play, lies)
    assert play.report()["peak"] < MOST_MEMORY
    malformed = sum(lie in FAULTS for lie in lies)
    assert play.people()[0].startswith(f"node {LIAR}: malformed in {malformed} of {len(lies)} rounds")


def test_the_model_after_malformed_replies_alone_is_that_of_the_honest_nodes_alone(
    played: Callable[[str], Played],
) -> None:
    """Not of each round only: what honest nodes make of each other's models, from the first round on."""
    model = initial()
    first_harmless = next(place for place, lie in enumerate(USUAL) if lie not in FAULTS)
    for _ in range(first_harmless):
        mean = replies(model, [node for node in range(4) if node != LIAR]).mean(axis=0)
        sizes = np.cumsum([model[name].size for name in PARAMETERS])[:-1]
        new = zip(PARAMETERS, np.split(mean, sizes), strict=True)
        model |= {name: values.reshape(model[name].shape).astype(np.float32) for name, values in new}
    assert first_harmless
    found = played("drills-0").model(first_harmless)
    np.testing.assert_allclose(flat(found), flat(model), rtol=0.0, atol=first_harmless * TOLERANCE)


@pytest.mark.parametrize(("name", "lie", "liar"), [("sign-flip", "sign-flip", 3), ("scaling", "scaling", 1)])
def test_a_node_that_lies_with_numbers_in_every_round_is_removed(
    name: str, lie: str, liar: int, played: Callable[[str], Played]
) -> None:
    play = played(name)
    for record in check_play(play, [lie] * 2, liar):
        assert record.removed == (liar,)
    assert play.people()[0].startswith(f"node {liar}: removed in 2 of 2 rounds, its update lay ")


def test_a_node_that_sends_nan_in_every_round_changes_nothing(played: Callable[[str], Played]) -> None:
    play = played("nan")
    for record in check_play(play, ["all-nan"] * 2, 2):
        assert record.removed == (2,)
    assert play.people()[0].startswith("node 2: malformed in 2 of 2 rounds")


def test_one_lie_of_every_kind_is_told_in_the_usual_tests() -> None:
    kinds = [FAULTS.get(lie) for lie in USUAL]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == {*FAULTS.values(), None}


def test_every_lie_is_told_somewhere() -> None:
    told = [lie for parts in EVERYTHING.values() for lies in parts for lie in lies]
    assert sorted(told) == sorted(MALFORMED)
    assert all(MALFORMED[name].harmless for name in OVERWEIGHT)
    assert set(FAULTS) - set(OVERWEIGHT) == {name for name, reply in MALFORMED.items() if not reply.harmless}
