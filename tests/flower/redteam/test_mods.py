"""Byzantine clients as mods of a real ClientApp: they forge what the simulator forges."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from tests.flower.redteam.clients import (
    answer,
    app_of,
    arrays_in,
    context_of,
    message_of,
    metrics_in,
    update_in,
)
from tests.simulation.engines.tasks import mlp, poisoned_task
from tests.simulation.small import classes, config
from torch import Tensor

from steadfed.aggregators import Mean, ServerView
from steadfed.attacks import (
    ATTACKS,
    Attack,
    DataAttack,
    EdgeCase,
    FeatureTrigger,
    FixedMembers,
    Forged,
    Knowledge,
    LabelFlip,
)
from steadfed.attacks._base import sent_by_all
from steadfed.attacks._view import AdversaryView
from steadfed.errors import ParameterError, UnknownNameError
from steadfed.flower.redteam import (
    BEHAVIOURS,
    MALFORMED,
    SilentClientError,
    attack_mod,
    byzantine,
    crash_mod,
    exit_mod,
    poisoned_labels,
    poisoned_points,
    stall_mod,
)
from steadfed.flower.redteam._mods import MEMORY, malformed
from steadfed.simulation import Federation
from steadfed.simulation._adversary import Adversary, AttackContext

OWN = frozenset({Knowledge.OWN})
EVERY = {name: ATTACKS.example(name) for name in ATTACKS}
ABLE = {
    name: attack
    for name, attack in EVERY.items()
    if attack.all_needs() <= OWN and not any(isinstance(each, DataAttack) for each in attack.chain())
}
UNABLE = {name: attack for name, attack in EVERY.items() if name not in ABLE}


def simulated(attack: Attack, own: Tensor, *, seed: int, number: int, cohort_size: int) -> Forged:
    """Return what the simulator's adversary forges with one client, if it sees nothing else."""
    honest = torch.ones(cohort_size - 1, len(own))
    context = AttackContext(ServerView(round=number), np.arange(cohort_size))
    return Adversary(attack, OWN, seed).forge(own[None], honest, Mean(), context)


@cache
def honest_answer() -> RecordDict:
    return answer()


def test_most_attacks_can_be_done_by_a_client() -> None:
    assert {"sign-flip", "gaussian", "alie", "mimic", "sleeper", "nan", "silence", "none"} <= set(ABLE)
    assert {"optimal", "hill-climb", "label-flip"} <= set(UNABLE)


@pytest.mark.parametrize("name", sorted(set(ABLE) - {"silence"}))
@pytest.mark.parametrize(("number", "cohort_size"), [(3, 10), (12, 50)])
def test_a_client_forges_the_row_that_the_simulator_forges(name: str, number: int, cohort_size: int) -> None:
    message = message_of(round=number)
    own = update_in(answer(message=message))
    expected = simulated(ABLE[name], own, seed=4, number=number, cohort_size=cohort_size).rows[0]
    forged = update_in(answer([attack_mod(ABLE[name], seed=4)], message_of(round=number)))
    torch.testing.assert_close(forged, expected, rtol=1e-5, atol=1e-4, equal_nan=True)


def test_an_honest_attacker_sends_the_very_bytes_of_the_honest_client() -> None:
    assert answer([byzantine("none")]) == answer()
    assert answer([byzantine("sleeper+sign-flip")]) == answer()  # it sleeps until round 10
    assert answer([byzantine("sleeper+sign-flip")], message_of(round=10)) != answer(message=message_of(round=10))


def test_buffers_and_metrics_are_sent_as_they_are() -> None:
    honest, forged = answer(), answer([byzantine("sign-flip")])
    names = [name for name in arrays_in(honest) if "running" in name or "num_batches" in name]
    assert len(names) == 3
    assert all(arrays_in(honest)[name] == arrays_in(forged)[name] for name in names)
    assert metrics_in(honest) == metrics_in(forged)
    assert list(arrays_in(honest)) == list(arrays_in(forged))
    assert [each.dtype for each in arrays_in(honest).values()] == [each.dtype for each in arrays_in(forged).values()]


def test_without_a_step_size_or_a_round_flowers_own_words_are_used() -> None:
    seen: list[tuple[int, Tensor]] = []

    class Watching(Attack):
        citation = "for this test"
        needs = OWN

        def forge(self, view: AdversaryView) -> Forged:
            seen.append((view.round, view.own_rows[0]))
            return sent_by_all(view.own_rows.clone())

    message, mod = message_of(), attack_mod(Watching())
    record = ConfigRecord({"server-round": 6})
    message.content["config"] = record
    reply = Message(RecordDict({"arrays": arrays_in(answer())}), reply_to=message)
    mod(message, context_of(), lambda _message, _context: reply)
    assert seen[0][0] == 5
    torch.testing.assert_close(seen[0][1], update_in(reply.content, lr=1.0))
    del message.content["config"]
    mod(message, context_of(), lambda _message, _context: reply)
    assert seen[1][0] == 0


def test_the_memory_of_an_attack_lasts_from_round_to_round() -> None:
    class Counting(Attack):
        citation = "for this test"
        needs = OWN

        def forge(self, view: AdversaryView) -> Forged:
            count = view.memory.get("count", torch.zeros(1)) + 1
            return sent_by_all(view.own_rows * count, {"count": count})

    context, own = context_of(), update_in(answer())
    for factor in (1, 2, 3):
        forged = update_in(answer([attack_mod(Counting())], context=context))
        torch.testing.assert_close(forged, factor * own, rtol=1e-5, atol=1e-5)
    record = context.state[MEMORY]
    assert isinstance(record, ArrayRecord)
    assert record["count"].numpy().tolist() == [3.0]


def test_mimic_remembers_as_it_does_in_the_simulator() -> None:
    attack, context = ATTACKS.build("mimic", warm_up=2), context_of()
    memory: Any = {}
    for number in range(3):
        own = update_in(answer(message=message_of(round=number)))
        moment = AttackContext(ServerView(round=number), np.arange(10), memory)
        expected = Adversary(attack, OWN, 0).forge(own[None], torch.ones(9, len(own)), Mean(), moment)
        memory = expected.memory
        forged = update_in(answer([attack_mod(attack)], message_of(round=number), context))
        torch.testing.assert_close(forged, expected.rows[0], rtol=1e-5, atol=1e-4)


def test_a_client_that_keeps_silent_sends_nothing() -> None:
    with pytest.raises(SilentClientError, match=r"Silence\(\) sends nothing in round 3"):
        answer([byzantine("silence")])


@pytest.mark.parametrize("name", UNABLE)
def test_what_a_client_cannot_do_is_refused_with_what_can(name: str) -> None:
    on_data = any(isinstance(each, DataAttack) for each in UNABLE[name].chain())
    wanted = r"poisoned_labels" if on_data else "use Omniscient at the server of a test"
    with pytest.raises(ParameterError, match=wanted):
        attack_mod(UNABLE[name])


def test_an_attack_on_data_inside_another_is_refused_too() -> None:
    with pytest.raises(ParameterError, match="done in the client's data"):
        byzantine("sleeper+label-flip")


def test_poisoned_labels_are_those_of_the_simulator() -> None:
    task = poisoned_task(mlp())
    honest = task.data.labels[torch.from_numpy(task.data.shares.points(3))]
    poisoned = poisoned_labels(LabelFlip(), honest, num_classes=4, client=3, seed=1)
    assert torch.equal(poisoned, task.data.poisoned(3).labels)
    assert not torch.equal(poisoned, honest)


@pytest.mark.parametrize("attack", [FeatureTrigger(features=(1, 3), num_parts=2), EdgeCase(), LabelFlip()])
def test_poisoned_points_are_those_of_the_simulator(attack: DataAttack) -> None:
    dataset, members = classes(), FixedMembers(clients=(1, 4))
    what = config(attack=attack, byzantine=members)
    with Federation(what, dataset=dataset) as federation:
        task = federation.setting.engine.task
        points = task.data.shares.points(4)
        features, labels = poisoned_points(attack, dataset, points, client=4, member=1, seed=what.seed)
        share = task.data.poisoned(4)
    own = dataset.features[torch.from_numpy(points) if share.places is None else share.places].clone()
    if share.trigger is not None and share.marked is not None:
        share.trigger.stamp_(own, share.marked)
    assert torch.equal(features, own)
    assert torch.equal(labels, share.labels)
    assert not torch.equal(labels, dataset.labels[torch.from_numpy(points)])


@pytest.mark.parametrize("name", MALFORMED)
def test_a_mod_sends_the_malformed_reply_of_its_name(name: str) -> None:
    expected = MALFORMED[name].forge(honest_answer(), message_of().content)
    assert answer([malformed(name)]).object_id == expected.object_id


def test_evaluations_are_honest_except_for_what_can_be_forged_in_them() -> None:
    honest = answer(message=message_of("evaluate"))
    for name in ("sign-flip", "all-nan", "stale"):
        assert answer([byzantine(name)], message_of("evaluate")) == honest
    assert np.isnan(list(metrics_in(answer([byzantine("nan-metric")], message_of("evaluate"))).values())).all()
    assert len(answer([byzantine("empty-content")], message_of("evaluate"))) == 0


def test_a_client_that_fails_by_itself_is_left_alone() -> None:
    message = message_of()
    error = Message(Error(code=2, reason="its own"), reply_to=message)
    for name in ("sign-flip", "all-nan"):
        reply = byzantine(name)(message, context_of(), lambda _message, _context: error)
        assert reply.has_error()


def test_a_train_reply_without_arrays_cannot_be_forged() -> None:
    message = message_of()
    empty = Message(RecordDict(), reply_to=message)
    for name in ("sign-flip", "all-nan"):
        with pytest.raises(ParameterError, match="must be an ArrayRecord to forge, got nothing"):
            byzantine(name)(message, context_of(), lambda _message, _context: empty)


def test_a_stalling_client_answers_late(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert answer([stall_mod(20.0)]) == answer()
    assert answer([byzantine("stall", seconds=5.0)]) == answer()
    assert slept == [20.0, 5.0]


def test_a_crashing_client_raises() -> None:
    for mod in (crash_mod(), byzantine("crash")):
        with pytest.raises(RuntimeError, match="crashes on purpose"):
            app_of([mod])(message_of(), context_of())


def test_an_exiting_client_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class EndedError(Exception):
        pass

    def end(code: int) -> None:
        raise EndedError(code)

    monkeypatch.setattr(os, "_exit", end)
    for mod, code in ((exit_mod(7), 7), (byzantine("exit"), 1)):
        with pytest.raises(EndedError, match=str(code)):
            app_of([mod])(message_of(), context_of())


@pytest.mark.parametrize(
    ("name", "nearest"), [("sign-flop", "sign-flip"), ("all-nans", "all-nan"), ("stal", "stall"), ("crash!", "crash")]
)
def test_an_unknown_behaviour_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{nearest}'"):
        byzantine(name)
    assert nearest in BEHAVIOURS


def test_parameters_go_to_the_attack() -> None:
    own = update_in(answer())
    torch.testing.assert_close(update_in(answer([byzantine("scaling", factor=3)])), 3 * own, rtol=1e-5, atol=1e-5)
    with pytest.raises(ParameterError, match="no parameter 'fctor', did you mean 'factor'"):
        byzantine("scaling", fctor=3)


@pytest.mark.parametrize(("name", "parameters"), [("wrong-shape", {"factor": 2}), ("stall", {"factor": 2})])
def test_parameters_of_what_has_none_are_refused(name: str, parameters: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match=f"'{name}' has no such parameters: factor; 'stall' has seconds"):
        byzantine(name, **parameters)
