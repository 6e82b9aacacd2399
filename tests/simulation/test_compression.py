"""Random coordinates in the simulator: the literal loop, who sees what, what is refused, what is sent."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import pytest
import torch
from tests.oracles.compression import algorithm_1_about_coordinates
from tests.runs.small import interrupted_run, whole_run
from tests.same_results import same_results
from tests.simulation.small import bits, classes, config, played, same_bits

from steadfed._core.coordinates import coordinates_of, seed_of_round
from steadfed._linalg.columns import Columns
from steadfed.aggregators import (
    RULES,
    Aggregation,
    Aggregator,
    CenteredClipping,
    FlTrust,
    FoolsGold,
    Mean,
    Rage,
    Rsa,
    ServerView,
    Zeno,
)
from steadfed.aggregators._base import LooselyBoundedAggregator
from steadfed.attacks import AdversaryView, ALittleIsEnough, Attack, Forged, FractionMembers, Mimic, SignFlip, Sleeper
from steadfed.attacks._base import sent_by_all
from steadfed.errors import ParameterError
from steadfed.models import Architecture, ImportedModel, MultilayerPerceptron, SoftmaxRegression
from steadfed.runs import Run, read_config
from steadfed.server._coordinates import places_of
from steadfed.server._record import RoundCoordinates
from steadfed.simulation import (
    ClientOptions,
    Evaluation,
    Federation,
    NoCompression,
    RandomK,
    RunConfig,
    ServerOptions,
    UniformSteps,
    config_from_table,
    config_table,
)
from steadfed.testing.contract import check_memory

NORMALISED = ImportedModel(factory="tests.simulation.modules:normalised")


def test_one_coordinate_is_not_the_whole_share() -> None:
    one, whole = RandomK(coordinates=1), RandomK(coordinates=1.0)
    assert one != whole
    assert len({one, whole, RandomK(coordinates=1), RandomK(coordinates=1.0)}) == 2
    assert RunConfig(compression=one) != RunConfig(compression=whole)
    assert one != 1
    assert one != NoCompression()


@pytest.mark.parametrize("model", [SoftmaxRegression(l2=0.01), MultilayerPerceptron(hidden=(7,))])
@pytest.mark.parametrize("rule", [Mean(), Rage(byzantine_fraction=0.25)])
@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("attacks", [False, True])
def test_a_run_is_the_literal_loop(model: Architecture, rule: Aggregator, momentum: float, attacks: bool) -> None:
    adversary: dict[str, Any] = {}
    if attacks:
        adversary = {"attack": SignFlip(factor=2.0), "byzantine": FractionMembers(fraction=0.25)}
    server = ServerOptions(momentum=momentum)
    what = config(rounds=5, model=model, rule=rule, server=server, compression=RandomK(coordinates=7), **adversary)
    states, records = played(what)
    expected = algorithm_1_about_coordinates(what, classes(), 7, attacked=lambda row: -2.0 * row)
    for state, wanted in zip(states[1:], expected, strict=True):
        torch.testing.assert_close(state.model, wanted, rtol=1e-9, atol=1e-9)
    assert not any(record.skipped for record in records)


@pytest.mark.parametrize("compression", [RandomK(coordinates=18), RandomK(coordinates=1.0)], ids=repr)
def test_all_coordinates_are_no_compression_to_the_last_bit(compression: RandomK) -> None:
    options: dict[str, Any] = {"rule": Rage(byzantine_fraction=0.25), "server": ServerOptions(momentum=0.5)}
    assert same_bits(played(config(**options)), played(config(compression=compression, **options)))


def test_the_chosen_coordinates_move_and_no_others_and_the_record_says_which() -> None:
    what = config(rounds=6, compression=RandomK(coordinates=0.25), server=ServerOptions(momentum=0.9))
    states, records = played(what)
    seen = set()
    for number, (before, after, record) in enumerate(zip(states[:-1], states[1:], records, strict=True)):
        moved = (before.model != after.model).nonzero().flatten().tolist()
        assert record.coordinates is not None
        assert record.coordinates.number == 5  # ⌈0.25 · 18⌉
        assert record.coordinates.seed == seed_of_round(what.seed, number)
        assert moved == coordinates_of(record.coordinates.seed, 5, 18).tolist()
        seen.add(tuple(moved))
    assert len(seen) == 6
    assert all(record.coordinates is None for record in played(config())[1])


def test_bytes_are_those_of_the_model_down_and_of_coordinates_and_buffers_up() -> None:
    whole = played(config(model=NORMALISED, rounds=1))[1][0]
    some = played(config(model=NORMALISED, rounds=1, compression=RandomK(coordinates=3)))[1][0]
    with Federation(config(model=NORMALISED), dataset=classes()) as federation:
        dim, buffers = federation.setting.layout.dim, federation.setting.layout.buffer_dim
    assert buffers > 0
    assert (whole.bytes_down, whole.bytes_up) == (6 * 8 * (dim + buffers), 6 * 8 * (dim + buffers))
    assert (some.bytes_down, some.bytes_up) == (6 * 8 * (dim + buffers), 6 * 8 * (3 + buffers))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("engine", ["stacked", "vmap", "loop"])
def test_workers_and_engines_do_not_matter(engine: str) -> None:
    what = config(
        engine=engine,
        model=MultilayerPerceptron(hidden=(4,)),
        rule=Rage(byzantine_fraction=0.25),
        attack=ALittleIsEnough(),
        byzantine=FractionMembers(fraction=0.25),
        client=ClientOptions(momentum=0.5, erasure_rate=0.2),
        compression=RandomK(coordinates=0.3),
    )
    assert same_bits(played(what), played(what, jobs=2))


@pytest.mark.parametrize("steps", [(3, 1, 4), UniformSteps(lowest=1, highest=5)], ids=repr)
def test_rounds_may_differ_in_steps_and_in_coordinates_at_once_and_a_resumed_run_is_the_same(
    tmp_path: Path, steps: Any
) -> None:
    what = config(
        rounds=5, local_steps=steps, compression=RandomK(coordinates=7), rule=Rage(byzantine_fraction=0.25),
        attack=SignFlip(factor=2.0), byzantine=FractionMembers(fraction=0.25), server=ServerOptions(momentum=0.6),
    )  # fmt: skip
    states, records = played(what)
    expected = algorithm_1_about_coordinates(what, classes(), 7, attacked=lambda row: -2.0 * row)
    for state, wanted in zip(states[1:], expected, strict=True):
        torch.testing.assert_close(state.model, wanted, rtol=1e-9, atol=1e-9)
    taken = np.diff([0, *(record.step for record in records)]).tolist()
    assert taken == [what.steps_of(number) for number in range(5)]
    assert len(set(taken)) > 1
    assert [record.coordinates.seed for record in records if record.coordinates] == [
        seed_of_round(what.seed, number) for number in range(5)
    ]
    whole = whole_run(what, tmp_path / "whole")
    for rounds in (1, 3):
        folder = interrupted_run(what, tmp_path / f"stopped{rounds}", rounds)
        list(Run.resume(folder.path, dataset=classes()).play())
        assert same_results(folder, whole) == []


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(tmp_path: Path, rounds: int) -> None:
    what = config(rounds=4, compression=RandomK(coordinates=4), server=ServerOptions(momentum=0.5), model=NORMALISED)
    whole = whole_run(what, tmp_path / "whole")
    folder = interrupted_run(what, tmp_path / "run", rounds)
    list(Run.resume(folder.path, dataset=classes()).play())
    assert same_results(folder, whole) == []


@final
class Watching(Attack):
    """Send zeros of the right length, and remember for the test what was seen."""

    citation: ClassVar[str] = "a test"
    seen: ClassVar[list[AdversaryView]] = []

    def forge(self, view: AdversaryView) -> Forged:
        self.seen.append(view)
        return sent_by_all(torch.zeros_like(view.own_rows))


def test_an_adversary_sees_what_is_sent_and_nothing_else() -> None:
    Watching.seen.clear()
    played(
        config(attack=Watching(), byzantine=FractionMembers(fraction=0.4), compression=RandomK(coordinates=5), rounds=2)
    )
    assert Watching.seen
    for view in Watching.seen:
        assert view.own.shape[1] == view.honest.shape[1] == 5
        assert view.server_view is not None
        assert view.server_view.model is not None
        assert len(view.server_view.model) == 5


@pytest.mark.parametrize(
    "rule",
    [FoolsGold(), CenteredClipping(), RULES.build("nnm+centered-clipping"), RULES.build("clustered+foolsgold")],
    ids=repr,
)
def test_a_rule_that_compares_rounds_is_refused(rule: Aggregator) -> None:
    with pytest.raises(ParameterError, match=r"remembers vectors from round to round.*choose one without memory"):
        Federation(config(rule=rule, compression=RandomK(coordinates=0.5)), dataset=classes())
    played(config(rule=rule, compression=RandomK(coordinates=1.0), rounds=2))


@pytest.mark.parametrize("attack", [Mimic(warm_up=3), Sleeper(attack=Mimic(warm_up=1))], ids=repr)
def test_an_attack_that_compares_rounds_is_refused(attack: Attack) -> None:
    with pytest.raises(ParameterError, match=r"remembers vectors from round to round.*choose one without memory"):
        Federation(config(attack=attack, compression=RandomK(coordinates=0.5)), dataset=classes())


@final
class Undeclared(LooselyBoundedAggregator):
    """A mean that remembers itself and does not say so."""

    citation: ClassVar[str] = "a test"

    def default_byzantine(self, cohort_size: int) -> int:
        del cohort_size
        return 0

    def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
        found = Mean().aggregate(columns, num_byzantine, view)
        return replace(found, memory={"last": found.update.clone()})


def test_a_rule_that_remembers_without_saying_so_is_found_out_in_the_first_round() -> None:
    with pytest.raises(ParameterError, match=r"asks to remember last and does not say so in remembers\(\)"):
        played(config(rule=Undeclared(), compression=RandomK(coordinates=0.5)))
    with pytest.raises(AssertionError, match="must say so"):
        check_memory(Undeclared(), torch.ones(3, 2))


TRUSTING = {"server": ServerOptions(trusted_points=12), "rounds": 4}


@pytest.mark.parametrize(
    "rule", [Zeno(num_byzantine=1), FlTrust(), Rsa(weight_decay=0.1), CenteredClipping(start="median")], ids=repr
)
def test_rules_that_need_the_server_are_given_the_parts_of_this_round(rule: Aggregator) -> None:
    """What a rule is told has as many numbers as the rows; a loss is that of the whole model with these changed."""
    what = config(rule=rule, compression=RandomK(coordinates=6), **TRUSTING)
    with Federation(what, dataset=classes()) as federation:
        state = federation.start()
        state, record = federation.play(state)
        places = places_of(RoundCoordinates(number=6, seed=seed_of_round(what.seed, 1)), 18)
        view, whole = (federation._server_view(state, 6, each) for each in (places, None))  # noqa: SLF001
        assert view.model is not None
        assert torch.equal(view.model, state.model[places])
        if whole.trusted_row is not None:
            assert view.trusted_row is not None
            assert torch.equal(view.trusted_row, whole.trusted_row[places])
        if whole.trusted_loss is not None:
            assert view.trusted_loss is not None
            moved = state.model.clone()
            moved[places] += 1.0
            assert view.trusted_loss(view.model + 1.0) == whole.trusted_loss(moved) != whole.trusted_loss(state.model)
    assert not record.skipped


def test_what_is_measured_is_about_the_rows_that_were_sent() -> None:
    """The spread of projected rows is at most that of the rows, and the certificate bounds what the filter did."""
    options: dict[str, Any] = {"rule": Rage(byzantine_fraction=0.25), "evaluation": Evaluation(measured_rounds=1)}
    whole, some = (
        played(config(**options, compression=each))[1][0] for each in (NoCompression(), RandomK(coordinates=6))
    )
    assert whole.honest_spread is not None
    assert some.honest_spread is not None
    assert some.honest_spread <= whole.honest_spread
    assert some.honest_error_bound is not None
    assert some.error is not None
    assert some.error <= some.honest_error_bound


@pytest.mark.parametrize("coordinates", [0, -1, 1.5, 0.0, -0.1, 2.0, True, False, "7", None, math.nan, math.inf])
def test_what_is_no_number_of_coordinates_is_refused(coordinates: Any) -> None:
    with pytest.raises(ParameterError, match="whole number of at least 1, or a share above 0 and at most"):
        RandomK(coordinates=coordinates)


def test_more_coordinates_than_the_model_has_are_refused_before_the_first_round() -> None:
    with pytest.raises(ParameterError, match=r"the model has 18 parameters; coordinates must be at most that.*got 19"):
        Federation(config(compression=RandomK(coordinates=19)), dataset=classes())


@pytest.mark.parametrize(
    ("coordinates", "dim", "number"),
    [(0.1, 650, 65), (0.1, 30, 3), (1e-9, 650, 1), (1.0, 650, 650), (1, 650, 1), (np.int64(7), 650, 7), (0.5, 3, 2)],
)
def test_a_share_is_rounded_up_and_read_as_it_was_meant(coordinates: Any, dim: int, number: int) -> None:
    assert RandomK(coordinates=coordinates).number(dim) == number


def test_it_goes_into_toml_and_comes_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('rounds = 3\ncompression = { name = "random-k", coordinates = 0.1 }\n')
    assert read_config(file, []).compression == RandomK(coordinates=0.1)
    assert read_config(file, ["compression.coordinates=1000"]).compression == RandomK(coordinates=1000)
    assert read_config(file, ["compression=none"]).compression == NoCompression()
    assert config_from_table(config_table(read_config(file, []))) == read_config(file, [])
    with pytest.raises(ParameterError, match="coordinates"):
        read_config(file, ["compression.coordinates=0"])
    assert RunConfig().compression == NoCompression()


def test_only_the_model_and_not_the_draw_of_batches_depends_on_it() -> None:
    """The first round's clients take the same steps, so the coordinates that move are those of an uncompressed run."""
    whole, some = (played(config(rounds=1, compression=each))[0] for each in (NoCompression(), RandomK(coordinates=4)))
    places = torch.from_numpy(coordinates_of(seed_of_round(0, 0), 4, 18))
    torch.testing.assert_close(bits(some)[1][places], bits(whole)[1][places], rtol=1e-12, atol=1e-14)
