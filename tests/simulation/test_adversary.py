"""The adversary's turn: when it lies, about what, and what the server is not told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
import pytest
import torch
from tests.simulation.attackers import Copycat, Counter
from tests.simulation.small import bits, classes, config, images, played

from steadfed._linalg.columns import Columns
from steadfed.aggregators import (
    Aggregation,
    Aggregator,
    CenteredClipping,
    FlTrust,
    FoolsGold,
    Mean,
    Median,
    Need,
    Rage,
    ServerView,
    Zeno,
)
from steadfed.attacks import (
    ATTACKS,
    AdversaryView,
    Alternating,
    Attack,
    ChangingMembers,
    DistributedTrigger,
    EdgeCase,
    FeatureTrigger,
    FixedMembers,
    Forged,
    FractionMembers,
    Gaussian,
    HillClimb,
    Honest,
    LabelFlip,
    ModelAttack,
    NotANumber,
    Optimal,
    PixelTrigger,
    SemanticBackdoor,
    SignFlip,
    Silence,
    Sleeper,
    Zero,
)
from steadfed.data import Dataset
from steadfed.simulation import ClientOptions, Federation, RunConfig, ServerOptions
from steadfed.simulation._cohorts import ListedCohorts

TRIGGER = FeatureTrigger(features=(1,))
FITTING: dict[str, Attack] = {
    "hill-climb": HillClimb(num_trials=4, num_directions=2),
    "optimal": Optimal(attack=SignFlip()),
    "edge-case": EdgeCase(share=0.9),
    "semantic-backdoor": SemanticBackdoor(share=0.9),
    "distributed-trigger": DistributedTrigger(trigger_size=1, trigger_gap=0),
    "pixel-trigger": PixelTrigger(trigger_size=1),
    **{name: ATTACKS.build(name, attack=TRIGGER) for name, kind in ATTACKS.items() if issubclass(kind, ModelAttack)},
}
"""Attacks that suit small points, in place of those that take large images, or long."""
EVERYBODY = ListedCohorts(rounds=(tuple(range(12)),))


def everybody(**changes: Any) -> RunConfig:
    """Return a configuration whose cohort is all twelve clients, the first three Byzantine."""
    return config(cohort_size=12, cohorts=EVERYBODY, byzantine=FixedMembers(clients=(0, 1, 2)), **changes)


def relabelled(what: RunConfig, dataset: Dataset) -> Dataset:
    """Return the data with the labels of the first three clients turned round."""
    shares = what.partition.split(dataset, what.seed)
    labels = dataset.labels.clone()
    theirs = torch.from_numpy(shares.order[: shares.offsets[3]])
    labels[theirs] = 2 - labels[theirs]
    return replace(dataset, labels=labels)


@contextmanager
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[torch.Tensor, ServerView]]]:
    """Collect what the rule is called with."""
    heard: list[tuple[torch.Tensor, ServerView]] = []
    original = Mean.__call__

    def call(self: Mean, updates: Any, view: ServerView | None = None) -> Aggregation:
        assert view is not None
        heard.append((updates.clone(), view))
        return original(self, updates, view)

    with monkeypatch.context() as patch:
        patch.setattr(Mean, "__call__", call)
        yield heard


def test_an_attack_on_labels_is_training_on_wrong_labels() -> None:
    what = everybody(attack=LabelFlip())
    wrong = relabelled(what, classes())
    attacked, records = played(what)
    honest, _ = played(everybody(), wrong)
    assert all(torch.equal(one, other) for one, other in zip(bits(attacked), bits(honest), strict=True))
    assert records[0].byzantine == (0, 1, 2)
    assert not torch.equal(attacked[-1].model, played(everybody())[0][-1].model)


@pytest.mark.parametrize("engine", ["stacked", "vmap", "loop"])
def test_labels_are_wrong_only_while_the_attack_acts(engine: str) -> None:
    what = everybody(attack=Sleeper(attack=LabelFlip(), start=1, stop=2), engine=engine)
    timed, _ = played(what)
    with Federation(what, dataset=classes()) as federation:
        plain = {"attack": Honest(), "engine": engine}
        right = Federation(everybody(**plain), dataset=classes())
        wrong = Federation(everybody(**plain), dataset=relabelled(what, classes()))
        state = federation.start()
        for number, truth in enumerate((right, wrong, right)):
            state = truth.play(state)[0]
            assert torch.equal(state.model, timed[number + 1].model), f"round {number}"


def test_a_timed_attack_acts_in_its_rounds_only() -> None:
    what = everybody(attack=Alternating(attack=Zero(), active=1, period=2), rounds=4)
    states, _ = played(what)
    with (
        Federation(everybody(), dataset=classes()) as honest,
        Federation(everybody(attack=Zero()), dataset=classes()) as lying,
    ):
        for number, truth in enumerate((lying, honest, lying, honest)):
            assert torch.equal(truth.play(states[number])[0].model, states[number + 1].model)
            other = honest if truth is lying else lying
            assert not torch.equal(other.play(states[number])[0].model, states[number + 1].model)


def test_forged_rows_come_first_and_the_rule_is_not_told_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(monkeypatch) as heard:
        _, records = played(config(attack=Zero(), byzantine=FractionMembers(fraction=0.5), rounds=4))
    known = set(ServerView.__dataclass_fields__)
    told = {
        "round",
        "clients",
        "cohort_size",
        "weights",
        "cohort_weight",
        "sampled",
        "model",
        "trusted_row",
        "trusted_loss",
        "memory",
        "secret",
    }
    assert known == told
    for (rows, view), record in zip(heard, records, strict=True):
        forged = (rows == 0.0).all(dim=1)
        liars = [client for client, lies in zip(record.received, forged.tolist(), strict=True) if lies]
        assert sorted(liars) == sorted(record.byzantine)
        assert forged.tolist() == sorted(forged.tolist(), reverse=True)
        assert list(view.clients or ()) == list(record.received)
        assert view.round == record.round


def test_the_number_of_byzantine_clients_in_a_cohort_varies() -> None:
    for members in (FractionMembers(fraction=0.25), ChangingMembers(fraction=0.25)):
        _, records = played(config(attack=SignFlip(), byzantine=members, rounds=12))
        numbers = [len(record.byzantine) for record in records]
        assert len(set(numbers)) > 1
        assert max(numbers) <= 3
        assert {record.num_byzantine for record in records} == {0}  # what the rule assumes, whoever is there


def test_fixed_members_stay_and_changing_ones_change() -> None:
    fixed = [record.byzantine for record in played(everybody(attack=Zero()))[1]]
    assert fixed == [(0, 1, 2)] * 3
    what = config(cohort_size=12, cohorts=EVERYBODY, byzantine=ChangingMembers(fraction=0.25), rounds=6)
    changing = [record.byzantine for record in played(what)[1]]
    assert all(len(liars) == 3 for liars in changing)
    assert len(set(changing)) > 1


def test_silent_clients_shrink_the_cohort_and_are_recorded() -> None:
    what = everybody(attack=Silence())
    states, records = played(what)
    alone = config(cohort_size=12, cohorts=ListedCohorts(rounds=(tuple(range(3, 12)),)))
    assert all(record.absent == (0, 1, 2) for record in records)
    assert all(record.byzantine == (0, 1, 2) for record in records)
    assert all(set(record.received) == set(range(3, 12)) for record in records)
    assert torch.equal(states[-1].model, played(alone)[0][-1].model)


def test_absent_clients_shrink_the_cohort_and_are_recorded() -> None:
    what = everybody(client=ClientOptions(erasure_rate=0.4), rounds=8)
    states, records = played(what)
    for record in records:
        assert len(record.cohort) == 12
        assert sorted(record.absent + record.received) == list(range(12))
        assert record.byzantine == (0, 1, 2), "absent or not"
        assert len(record.weights) == len(record.received)
    assert 20 < sum(len(record.absent) for record in records) < 57
    assert len({record.absent for record in records}) == 8
    received = ListedCohorts(rounds=tuple(tuple(map(int, record.received)) for record in records))
    alike, _ = played(config(cohort_size=12, cohorts=received, rounds=8))
    torch.testing.assert_close(alike[-1].model, states[-1].model, rtol=1e-12, atol=1e-12)


def test_erasures_of_a_client_do_not_depend_on_the_others() -> None:
    options = ClientOptions(erasure_rate=0.5)
    _, whole = played(config(cohort_size=12, cohorts=EVERYBODY, client=options))
    _, part = played(config(cohorts=ListedCohorts(rounds=((4, 2, 9),)), client=options))
    for one, other in zip(whole, part, strict=True):
        assert set(other.absent) == set(one.absent) & {2, 4, 9}


@pytest.mark.parametrize("attack", [Honest(), SignFlip(), Silence(), Copycat(), Optimal(attack=SignFlip())])
def test_a_round_without_any_update_changes_nothing_and_is_recorded(attack: Attack) -> None:
    rates = ClientOptions(erasure_rate=0.999999)
    what = config(
        client=rates, attack=attack, byzantine=FractionMembers(fraction=0.5), server=ServerOptions(momentum=0.5)
    )
    with Federation(what, dataset=classes()) as federation:
        before = replace(federation.start(), velocity=torch.ones(18).double(), rule_memory={"mark": torch.ones(1)})
        after, record = federation.play(before)
    assert record.skipped
    assert record.reason == "no client sent an update"
    assert sorted(record.absent) == sorted(record.cohort)
    assert torch.equal(after.model, before.model)
    assert (after.velocity, after.rule_memory, after.round) == (before.velocity, before.rule_memory, 1)
    assert record.test_loss is not None


def test_a_cohort_that_is_too_small_for_the_rule_is_skipped_and_the_next_one_counts() -> None:
    lists = ListedCohorts(rounds=((0, 1), tuple(range(6))))
    for attack in (SignFlip(), Optimal(attack=SignFlip())):
        what = config(cohorts=lists, rule=Rage(num_byzantine=1), attack=attack, byzantine=FixedMembers(clients=(0,)))
        states, records = played(what)
        assert [record.skipped for record in records] == [True, False, True]
        assert records[0].reason is not None
        assert "at least" in records[0].reason
        assert torch.equal(states[0].model, states[1].model)
        assert not torch.equal(states[1].model, states[2].model)


def test_a_round_of_nothing_but_unusable_rows_is_skipped() -> None:
    what = everybody(attack=NotANumber(), rounds=1)
    what = what.model_copy(update={"byzantine": FixedMembers(clients=tuple(range(12)))})
    states, records = played(what)
    assert records[0].skipped
    assert torch.equal(states[0].model, states[1].model)


def test_a_diverged_model_is_told_apart_and_the_run_goes_on() -> None:
    what = everybody(rule=CenteredClipping(), attack=Optimal(attack=SignFlip()))
    with Federation(what, dataset=classes()) as federation:
        broken = replace(federation.start(), model=torch.full((18,), torch.inf).double())
        after, record = federation.play(broken)
    assert record.skipped
    assert record.reason == "the model is not finite: training has diverged"
    assert after.round == 1


@pytest.mark.parametrize("attack", [Copycat(), Counter(), SignFlip(), Zero(), Optimal(attack=SignFlip()), HillClimb()])
def test_a_cohort_of_the_adversary_alone_does_not_stop_a_run(attack: Attack) -> None:
    what = config(byzantine=FractionMembers(fraction=1.0), attack=attack, rule=FoolsGold())
    states, records = played(what)
    assert all(len(record.byzantine) == 6 for record in records)
    assert all(record.error is None for record in records)
    if isinstance(attack, Copycat):  # it has nobody to copy, so its clients send what they computed
        assert torch.equal(states[-1].model, played(config(rule=FoolsGold()))[0][-1].model)


def test_what_an_attack_remembers_survives_rounds_in_which_it_cannot_act() -> None:
    lists = ListedCohorts(rounds=((0, 3), (0,), (3, 4), (0, 4)))
    what = config(cohorts=lists, attack=Counter(), byzantine=FixedMembers(clients=(0,)), rounds=4)
    states, _ = played(what)
    assert [float(state.extra.get("attack/count", torch.zeros(1))) for state in states] == [0, 1, 1, 1, 2]


@pytest.mark.parametrize("rule", [FoolsGold(), Rage(num_byzantine=3), Median()])
@pytest.mark.parametrize("knows", [("own", "rule"), ("own", "honest", "rule")])
def test_adversaries_that_try_the_rule_can_try_every_kind_of_rule(rule: Aggregator, knows: tuple[str, ...]) -> None:
    what = everybody(attack=Optimal(attack=SignFlip()), rule=rule, adversary_knows=knows, rounds=2)
    assert [record.skipped for record in played(what)[1]] == [False, False]


def test_an_adversary_that_tries_a_remembering_rule_stands_unusable_honest_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    what = everybody(attack=Optimal(attack=SignFlip()), rule=FoolsGold(), rounds=1)
    with Federation(what, dataset=classes()) as federation:
        train = federation._pool.train  # noqa: SLF001

        def spoiled(*arguments: Any, **keywords: Any) -> None:
            train(*arguments, **keywords)
            federation._pool.matrix[5] = torch.nan  # noqa: SLF001

        monkeypatch.setattr(federation._pool, "train", spoiled)  # noqa: SLF001
        _, record = federation.play(federation.start())
    assert record.unusable == (record.received[5],)
    assert not record.skipped


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_every_attack_runs_and_is_the_same_with_two_processes(name: str) -> None:
    attack = FITTING[name] if name in FITTING else ATTACKS.example(name)
    what = config(rounds=2, attack=attack, byzantine=FractionMembers(fraction=0.4), rule=Rage(byzantine_fraction=0.25))
    dataset = images() if name in {"pixel-trigger", "distributed-trigger"} else classes()
    states, records = played(what, dataset, jobs=2)
    skipped = [record.skipped for record in records]
    assert skipped == [len(record.received) < 5 for record in records], "f is 2 of the 6 who were asked"
    assert any(skipped) == (name == "silence")
    assert bool(torch.isfinite(states[-1].model).all())
    assert torch.equal(states[-1].model, played(what, dataset)[0][-1].model)


@pytest.mark.parametrize("rule", [FlTrust(), Zeno(num_byzantine=2)])
def test_the_servers_points_are_nobody_elses(rule: Aggregator) -> None:
    what = everybody(rule=rule, server=ServerOptions(trusted_points=15), attack=SignFlip())
    with Federation(what, dataset=classes()) as federation:
        shares, setting = federation.setting.shares, federation.setting
        own = set(shares.points(12).tolist())
        assert len(own) == 15
        assert setting.num_clients == 12
        assert setting.trusted is not None
        assert len(setting.trusted.features) == 15
        theirs = set(setting.client_shares.order.tolist())
        assert not own & theirs
        assert len(own | theirs) == 120
        _, record = federation.play(federation.start())
        assert not record.skipped
        assert set(record.cohort) == set(range(12))


def test_the_servers_own_update_is_that_of_a_client_with_its_points() -> None:
    what = config(rule=FlTrust(), server=ServerOptions(trusted_points=10), batch_size="full", rounds=1)
    what = what.model_copy(update={"client": ClientOptions(momentum=0.5)})
    with Federation(what, dataset=classes()) as federation:
        state = federation.start()
        first = federation._server_view(state, 6).trusted_row  # noqa: SLF001
        again = federation._server_view(state, 6).trusted_row  # noqa: SLF001
        points = torch.from_numpy(federation.setting.shares.points(12))
        momentum = federation.client_momentum
    assert first is not None
    assert again is not None
    data = classes()
    x, m = torch.zeros(18).double(), torch.zeros(18).double()
    for _ in range(2):
        x.requires_grad_()
        outputs = data.features[points].double() @ x[:15].view(3, 5).T + x[15:]
        gradient = torch.autograd.grad(torch.nn.functional.cross_entropy(outputs, data.labels[points]), x)[0]
        m = 0.5 * m + gradient
        x = (x - 0.1 * m).detach()
    torch.testing.assert_close(first, -x / 0.1, rtol=1e-10, atol=1e-10)
    assert torch.equal(first, again)
    assert momentum is not None
    assert not momentum.any()


@final
class _Weighing(Aggregator):
    """The mean of the rows, of a rule that remembers what the server says of two models."""

    citation: ClassVar[str] = "a test"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.MODEL, Need.TRUSTED_LOSS})

    def assumed_byzantine(self, cohort_size: int) -> int:
        return 0

    def smallest_cohort(self, num_byzantine: int) -> int:
        return 1

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        loss, model = view.needed_loss(self), view.needed_vector(Need.MODEL, columns, self)
        weighed = torch.tensor([loss(model), loss(model + torch.arange(18.0))], dtype=torch.float64)
        return replace(Mean().aggregate(columns, num_byzantine, view), memory={"weighed": weighed})


def test_the_trusted_loss_is_that_of_the_model_on_the_servers_own_points() -> None:
    what = config(rule=_Weighing(), server=ServerOptions(trusted_points=10), rounds=2)
    data = classes()
    with Federation(what, dataset=data) as federation:
        points = torch.from_numpy(federation.setting.shares.points(12))
        before, _ = federation.play(federation.start())
        after, _ = federation.play(before)
    for x, said in zip((before.model, before.model + torch.arange(18.0)), after.rule_memory["weighed"], strict=True):
        outputs = data.features[points].double() @ x[:15].view(3, 5).T + x[15:]
        torch.testing.assert_close(said, torch.nn.functional.cross_entropy(outputs, data.labels[points]))
    assert float(after.rule_memory["weighed"].min()) > 0.0


@final
class _Watching(Aggregator):
    """The mean of the rows, of a rule that remembers how often it was called."""

    citation: ClassVar[str] = "a test"

    def assumed_byzantine(self, cohort_size: int) -> int:
        return 0

    def smallest_cohort(self, num_byzantine: int) -> int:
        return 3

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        calls = view.memory.get("calls", torch.zeros(1)) + 1.0
        return replace(Mean().aggregate(columns, num_byzantine, view), memory={"calls": calls})


def test_what_a_rule_remembers_is_kept_over_skipped_rounds() -> None:
    lists = ListedCohorts(rounds=((0, 1, 2), (3,), (4, 5, 6)))
    states, records = played(config(cohorts=lists, rule=_Watching()))
    assert [record.skipped for record in records] == [False, True, False]
    assert [float(state.rule_memory.get("calls", torch.zeros(1))) for state in states] == [0, 1, 1, 2]


def test_noise_of_attackers_differs_from_round_to_round_and_is_reproducible() -> None:
    one, other = (played(everybody(attack=Gaussian()))[0] for _ in range(2))
    assert all(torch.equal(a.model, b.model) for a, b in zip(one, other, strict=True))
    steps = [b.model - a.model for a, b in pairwise(one)]
    assert not np.allclose(steps[0], steps[1])


def test_an_attack_is_not_shown_the_secret_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int | None] = []
    forge = Zero.forge

    def listen(self: Zero, view: AdversaryView) -> Forged:
        shown.append(None if view.server_view is None else view.server_view.secret)
        return forge(self, view)

    monkeypatch.setattr(Zero, "forge", listen)
    with listening(monkeypatch) as heard:
        played(config(attack=Zero(), byzantine=FractionMembers(fraction=0.5), rounds=4))
    secrets = {view.secret for _, view in heard}
    assert len(secrets) == 4
    assert set(shown) == {0}


@pytest.mark.parametrize(("cohort_size", "sampled"), [(6, True), (12, False)])
def test_the_rule_is_told_whether_cohorts_are_sampled_and_records_keep_what_it_saw(
    cohort_size: int, sampled: bool
) -> None:
    _, records = played(config(rule=Rage(num_byzantine=1), cohort_size=cohort_size, rounds=2))
    for record in records:
        assert (record.guard is not None) is sampled
        assert record.anchor is not None
        assert record.anchor["spread"] <= record.spread_before
        assert record.certificate is not None
        assert record.certificate["error_bound"] <= record.certificate["unconditional_bound"]
        assert type(record).from_line(record.to_line()) == record
