"""Processes die, and clients sleep: the run goes on, and continues exactly where it was."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from tests.flower.integration.app.drilled.numbers import LIAR
from tests.flower.integration.conftest import Played
from tests.flower.integration.test_drills import TOLERANCE, Arrays, check_shapes, flat, replies
from tests.same_results import timeless

from steadfed.server._record import RoundRecord
from steadfed.states._faults import Fault

pytestmark = pytest.mark.federation


def check_mean(record: RoundRecord, before: Arrays, after: Arrays) -> None:
    """Everybody is honest, so the model is the mean of those who replied, with the weights that the rule gave them.

    One of three may get little: the rule reckons with a liar among them.
    """
    assert not record.skipped
    wanted = np.array(record.weights) @ replies(before, [int(client) for client in record.received])
    np.testing.assert_allclose(flat(after), wanted, rtol=0.0, atol=TOLERANCE)


def test_a_run_whose_superlink_and_server_app_were_killed_ends_like_one_that_was_left_alone(
    played: Callable[[str], Played],
) -> None:
    disturbed = played("disturbed")
    check_left_alone(disturbed, played("calm"))
    assert disturbed.facts["records"] == [1, 2]


def check_left_alone(play: Played, calm: Played) -> None:
    """The run is complete, and all it wrote is what it would have written if nothing had happened."""
    for each in (calm, play):
        assert each.facts["status"] == "finished:completed", each.facts
    assert timeless(play.records()) == timeless(calm.records())
    model = "model.safetensors"
    assert (play.run.path / model).read_bytes() == (calm.run.path / model).read_bytes()


def test_a_second_server_app_in_the_folder_of_a_run_ends_at_once_and_harms_nothing(
    played: Callable[[str], Played],
) -> None:
    doubled = played("doubled")
    check_left_alone(doubled, played("calm"))
    assert doubled.facts["second"] == "finished:failed"
    assert "is working in" in doubled.facts["said"]


def test_liars_that_join_in_mid_run_under_new_keys_are_not_asked(played: Callable[[str], Played]) -> None:
    sybils = played("sybils")
    check_left_alone(sybils, played("calm"))
    assert sybils.facts["online"] == 7
    assert sybils.facts["asked"] == []


def test_rounds_go_on_without_a_node_that_was_killed_and_with_it_when_it_is_back(
    played: Callable[[str], Played],
) -> None:
    losses = played("losses")
    assert losses.facts["status"] == "finished:completed", losses.facts
    assert losses.facts["same"]
    records = losses.records()
    models = [losses.model(number) for number in range(5)]
    assert [LIAR in record.received for record in records] == [True, False, False, True]
    assert not any(record.skipped for record in records)
    assert records[1].absent == (LIAR,)
    assert [(drop.client, Fault(drop.fault).means_absent) for drop in records[1].drops] == [(LIAR, True)]
    for record, (before, after) in zip(records, pairwise(models), strict=True):
        check_mean(record, before, after)
    check_shapes(models)


def test_a_client_that_stalls_is_left_out_when_the_time_is_over(played: Callable[[str], Played]) -> None:
    stalled = played("stalled")
    assert stalled.facts["status"] == "finished:completed", stalled.facts
    (record,) = stalled.records()
    assert LIAR in record.absent
    assert {drop.fault for drop in record.drops if drop.client == LIAR} == {Fault.SILENT}
    before, after = stalled.model(0), stalled.model(1)
    if record.skipped:  # the machine is so slow that others were late as well
        assert len(record.received) < 3
        np.testing.assert_array_equal(flat(before), flat(after))
    else:
        check_mean(record, before, after)
