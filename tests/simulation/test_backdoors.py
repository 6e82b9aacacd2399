"""Backdoors in a federation: what clients train on in which round, what they send, whether the adversary succeeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import attacks as oracle
from tests.simulation.small import bits, classes, config, images, played, same_bits

from steadfed._core.rng import stream
from steadfed.attacks import (
    Attack,
    ChangingMembers,
    ClassFlip,
    ConstrainAndScale,
    DataAttack,
    DistributedTrigger,
    EdgeCase,
    FeatureTrigger,
    FixedMembers,
    FractionMembers,
    LabelFlip,
    ModelReplacement,
    PixelTrigger,
    ProjectedDescent,
    SemanticBackdoor,
    Sleeper,
    TrainAndScale,
)
from steadfed.data import Dataset
from steadfed.errors import ParameterError
from steadfed.models import MultilayerPerceptron
from steadfed.simulation import AlwaysCohorts, ClientOptions, Evaluation, Federation, RunConfig
from steadfed.simulation._cohorts import ListedCohorts

EVERYBODY = ListedCohorts(rounds=(tuple(range(12)),))
TRIGGER = FeatureTrigger(features=(1, 3), values=(4.0, 4.0), target_label=1, poison_fraction=0.5, num_parts=2)
BACKDOORS: dict[str, DataAttack] = {
    "trigger": TRIGGER,
    "semantic": SemanticBackdoor(source_label=2, target_label=0, share=0.3),
    "edge case": EdgeCase(source_label=2, target_label=0, share=0.3),
}


def everybody(**changes: Any) -> RunConfig:
    """Return a configuration whose cohort is all twelve clients, the first three Byzantine."""
    return config(cohort_size=12, cohorts=EVERYBODY, byzantine=FixedMembers(clients=(0, 1, 2)), **changes)


def poisoned(what: RunConfig, dataset: Dataset, attack: DataAttack) -> Dataset:
    """Return the data as they are if the first three clients poison theirs."""
    shares = what.partition.split(dataset, what.seed)
    features, labels, poisoning = dataset.features.clone(), dataset.labels.clone(), attack.poisoning(dataset)
    for client in range(3):
        points = torch.from_numpy(shares.points(client))
        share = poisoning.share(points.numpy(), client, stream(what.seed, "poison", client))
        own = dataset.features[points if share.places is None else share.places].clone()
        if share.trigger is not None and share.marked is not None:
            share.trigger.stamp_(own, share.marked)
        features[points], labels[points] = own, share.labels
    return replace(dataset, features=features, labels=labels)


@pytest.mark.portable
@pytest.mark.parametrize("engine", ["stacked", "vmap", "loop"])
@pytest.mark.parametrize("name", BACKDOORS)
def test_a_backdoor_is_training_on_poisoned_data_while_it_acts(name: str, engine: str) -> None:
    attack, dataset = BACKDOORS[name], classes()
    what = everybody(attack=Sleeper(attack=attack, start=1, stop=2), engine=engine)
    timed, _ = played(what, dataset)
    right = Federation(everybody(engine=engine), dataset=dataset)
    wrong = Federation(everybody(engine=engine), dataset=poisoned(what, dataset, attack))
    state = right.start()
    for number, truth in enumerate((right, wrong, right)):
        state = truth.play(state)[0]
        assert torch.equal(state.model, timed[number + 1].model), f"round {number}"


@pytest.mark.portable
@pytest.mark.parametrize("members", [FractionMembers(fraction=0.4), ChangingMembers(fraction=0.4)], ids=str)
@pytest.mark.parametrize("engine", ["stacked", "vmap", "loop"])
@pytest.mark.parametrize(
    "attack",
    [
        TRIGGER,
        ModelReplacement(attack=TRIGGER, local_steps=5, lr=0.05),
        ConstrainAndScale(attack=TRIGGER, alpha=0.5),
        ProjectedDescent(attack=BACKDOORS["edge case"], radius=0.1, local_steps=4),
        TrainAndScale(attack=BACKDOORS["semantic"]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_two_processes_play_the_same_bits(attack: Attack, engine: str, members: Any) -> None:
    what = config(attack=attack, byzantine=members, engine=engine, model=MultilayerPerceptron(hidden=(4,)))
    alone = played(what)
    assert same_bits(alone, played(what, jobs=2))
    assert not torch.equal(alone[0][-1].model, played(config(engine=engine, model=what.model))[0][-1].model)


def test_sample_space_is_left_to_those_who_never_attack() -> None:
    many = {"local_steps": 30, "batch_size": 8, "engine": "stacked"}
    dataset = classes(dim=40)
    for attack, apart in ((TRIGGER, True), (LabelFlip(), False), (ModelReplacement(attack=LabelFlip(), lr=0.01), True)):
        with Federation(everybody(attack=attack, **many), dataset=dataset) as federation:
            kinds = federation.setting.engine.kinds(np.arange(12))
            assert len(set(kinds[3:].tolist())) == 1
            assert (kinds[0] != kinds[3]) == apart, attack


def test_what_one_poisoned_federation_keeps_is_no_copy_of_the_data() -> None:
    with Federation(everybody(attack=TRIGGER), dataset=classes()) as federation:
        federation.play(federation.start())
        kept = federation.setting.engine.task.data._poisoned  # noqa: SLF001
        assert set(kept) == {0, 1, 2}
        assert all(share.places is None and len(share.labels) == 10 for share in kept.values())


def test_the_success_rate_is_counted_on_other_classes_with_the_whole_trigger() -> None:
    dataset = images()
    attack = PixelTrigger(trigger_size=1, target_label=2, trigger_value=3.0)
    states, records = played(everybody(attack=attack), dataset)
    module = everybody().model.build(dataset, 0).double()
    with Federation(everybody(), dataset=dataset) as federation:
        federation.setting.layout.load(module, states[-1].model, states[-1].buffers)
    stamped = np.stack([oracle.stamped(each, {(1, 1)}, [3.0]) for each in dataset.test_features.numpy()])
    guesses = module(torch.from_numpy(stamped).double()).argmax(1).tolist()
    expected = oracle.success_rate(guesses, dataset.test_labels.tolist(), target=2)
    assert records[-1].test_metrics == {"attack_success_rate": expected}


def test_a_flipped_class_has_a_rate_of_its_own_and_mere_harm_has_none() -> None:
    dataset = classes()
    states, records = played(everybody(attack=ClassFlip(source=0, target=2)), dataset)
    module = everybody().model.build(dataset, 0).double()
    with Federation(everybody(), dataset=dataset) as federation:
        federation.setting.layout.load(module, states[-1].model, states[-1].buffers)
    guesses = module(dataset.test_features.double()).argmax(1).tolist()
    expected = oracle.success_rate(guesses, dataset.test_labels.tolist(), target=2, source=0)
    assert records[-1].test_metrics["attack_success_rate"] == expected
    for attack in (LabelFlip(), None):
        changes = {} if attack is None else {"attack": attack}
        assert played(everybody(metrics=["attack_success_rate"], **changes), dataset)[1][-1].test_metrics == {}


def test_the_rate_is_looked_at_when_the_model_is_and_on_the_points_that_it_is() -> None:
    what = everybody(attack=TRIGGER, rounds=4, evaluation=Evaluation(every=2, test_points=7))
    _, records = played(what)
    assert [bool(record.test_metrics) for record in records] == [False, True, False, True]
    with Federation(what, dataset=classes()) as federation:
        (probe,) = federation.setting.probes
        assert len(probe.labels) <= 7
        assert set(probe.labels.tolist()) == {1}


def test_a_run_without_anybody_to_attack_still_tells_the_rate_of_an_honest_model() -> None:
    quiet, records = played(everybody(attack=TRIGGER).model_copy(update={"byzantine": FractionMembers(fraction=0.0)}))
    honest, plain = played(everybody().model_copy(update={"byzantine": FractionMembers(fraction=0.0)}))
    assert all(torch.equal(one, other) for one, other in zip(bits(quiet), bits(honest), strict=True))
    assert [list(record.test_metrics) for record in records] == [["attack_success_rate"]] * 3
    assert [record.model_copy(update={"test_metrics": {}, "seconds": {}}) for record in records] == [
        record.model_copy(update={"seconds": {}}) for record in plain
    ]


def test_a_mean_falls_for_a_backdoor_and_its_task_is_learned_besides() -> None:
    attack = TRIGGER.model_copy(update={"poison_fraction": 0.4})
    what = everybody(attack=attack, rounds=25, lr=0.2, evaluation=Evaluation(every=25))
    rate = played(what)[1][-1].test_metrics["attack_success_rate"]
    honest = played(what.model_copy(update={"byzantine": FractionMembers(fraction=0.0)}))[1][-1]
    assert rate is not None
    assert rate > 0.8 > (honest.test_metrics["attack_success_rate"] or 0.0) + 0.2


def test_one_replacement_is_enough_for_a_mean() -> None:
    attack = Sleeper(attack=ModelReplacement(attack=TRIGGER, local_steps=20), start=2, stop=3)
    _, records = played(everybody(attack=attack, rounds=3))
    rates = [record.test_metrics["attack_success_rate"] for record in records]
    assert rates[2] == 1.0
    assert (rates[1] or 0.0) < 0.9


def test_members_stamp_their_parts_in_the_order_of_their_numbers() -> None:
    what = config(attack=DistributedTrigger(trigger_size=1, trigger_gap=0), byzantine=FixedMembers(clients=(7, 2, 9)))
    with Federation(what, dataset=images()) as federation:
        data = federation.setting.engine.task.data
        triggers = [data.poisoned(client).trigger for client in (2, 7, 9)]
    assert [each.coordinates.tolist() for each in triggers if each is not None] == [[0], [1], [2]]


def test_momentum_and_dropped_updates_are_no_obstacle() -> None:
    options = ClientOptions(momentum=0.5, weight_decay=0.1, erasure_rate=0.3)
    what = everybody(attack=ConstrainAndScale(attack=TRIGGER), client=options, rounds=4)
    assert same_bits(played(what), played(what, jobs=2))


@pytest.mark.parametrize("number", [4, 6])
def test_some_clients_are_always_asked_and_the_others_drawn(number: int) -> None:
    cohorts = AlwaysCohorts(clients=(9, 0, 4))
    seen: set[int] = set()
    for round in range(40):
        cohort = cohorts.cohort(round, 12, number, seed=1).tolist()
        assert cohort[:3] == [9, 0, 4]
        assert len(set(cohort)) == number
        seen |= set(cohort)
    assert seen == set(range(12))
    with pytest.raises(ParameterError, match=r"clients must lie in 0 \.\. 8 for 9 clients, got 9"):
        cohorts.check(9, 5)
    with pytest.raises(ParameterError, match="cohort_size must be at least 3, who are always asked; got 2"):
        cohorts.check(12, 2)


def test_a_trigger_that_makes_no_sense_is_refused_before_the_first_round() -> None:
    with pytest.raises(ParameterError, match=r"PixelTrigger.* needs images.*use feature-trigger"):
        Federation(everybody(attack=Sleeper(attack=PixelTrigger())), dataset=classes())
