"""Numbers of local steps that differ from round to round: what is read and written, and what the rounds then do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.oracles.algorithm1 import algorithm_1
from tests.simulation.small import classes, config, played, same_bits
from tests.simulation.test_algorithm1 import assert_equal_to_the_paper

from steadfed.aggregators import FlTrust, Rage
from steadfed.attacks import FractionMembers, SignFlip
from steadfed.errors import ParameterError, SteadfedError, UnknownNameError
from steadfed.models import Architecture, MultilayerPerceptron, SoftmaxRegression
from steadfed.runs._files import config_from_toml, config_to_toml, template
from steadfed.simulation import (
    STEP_SCHEDULES,
    ConstantSteps,
    ExponentialSchedule,
    Federation,
    ListedSteps,
    RunConfig,
    ServerOptions,
    StepSchedule,
    UniformSteps,
)

pytestmark = pytest.mark.portable

DRAWN = UniformSteps(lowest=1, highest=5)
LISTED = (3, 1, 4)
numbers = st.integers(1, 10**9)
schedules = st.one_of(
    st.builds(ConstantSteps, steps=numbers),
    st.builds(ListedSteps, steps=st.lists(numbers, min_size=1, max_size=20)),
    st.tuples(numbers, numbers).map(lambda ends: UniformSteps(lowest=min(ends), highest=max(ends))),
)


def indices(what: RunConfig) -> set[int]:
    """Return I_T, added up one by one."""
    found = [0]
    for number in range(what.rounds):
        found.append(found[-1] + what.steps_of(number))
    return set(found)


@given(schedules, st.integers(0, 2**63), st.integers(0, 40), st.integers(0, 10**6))
def test_steps_do_not_depend_on_how_many_rounds_are_asked_for(
    schedule: StepSchedule, seed: int, number: int, first: int
) -> None:
    found = schedule.gaps(first, number, seed)
    assert [int(schedule.gaps(first + k, 1, seed)[0]) for k in range(number)] == found.tolist()
    assert all(schedule.fewest <= each <= schedule.most for each in found)


@given(schedules, st.integers(0, 2**63), st.integers(0, 40))
def test_what_is_taken_is_the_sum_of_the_rounds(schedule: StepSchedule, seed: int, number: int) -> None:
    assert schedule.taken(number, seed) == int(schedule.gaps(0, number, seed).sum())


@given(schedules.filter(lambda each: each.period is not None), st.integers(1, 60))
def test_the_total_tells_the_rounds_unless_steps_are_drawn(schedule: StepSchedule, rounds: int) -> None:
    assert schedule.rounds_taking(schedule.taken(rounds, 0)) == rounds
    assert DRAWN.rounds_taking(12) is None


@pytest.mark.parametrize(
    ("schedule", "period"), [(ConstantSteps(steps=5), 1), (ListedSteps(steps=LISTED), 3), (DRAWN, None)], ids=repr
)
def test_numbers_repeat_after_as_many_rounds_as_were_written_down(schedule: StepSchedule, period: int | None) -> None:
    assert schedule.period == period
    if period is not None:
        found = schedule.gaps(0, 20, seed=0)
        assert np.array_equal(found[period:], found[:-period])


@given(schedules)
def test_a_configuration_comes_back_from_its_file(schedule: StepSchedule) -> None:
    what = RunConfig(local_steps=schedule)
    assert config_from_toml(config_to_toml(what)) == what
    assert config_from_toml(template(what)) == what
    assert isinstance(what.local_steps, int) == isinstance(schedule, ConstantSteps)


def test_long_sums_of_draws_are_added_up_in_blocks() -> None:
    gaps = DRAWN.gaps(0, 10_000, seed=3)
    for rounds in (1, 4095, 4096, 4097, 8192, 10_000):
        assert DRAWN.taken(rounds, seed=3) == int(gaps[:rounds].sum())


def test_draws_are_uniform_and_differ_between_seeds() -> None:
    counts = Counter(DRAWN.gaps(0, 20_000, seed=0).tolist())
    assert set(counts) == {1, 2, 3, 4, 5}
    assert max(abs(count - 4_000) for count in counts.values()) < 5 * np.sqrt(20_000 * 0.2 * 0.8)
    assert DRAWN.gaps(0, 50, seed=0).tolist() != DRAWN.gaps(0, 50, seed=1).tolist()


def test_a_plain_number_stays_a_number_in_object_and_file() -> None:
    plain = RunConfig(local_steps=5)
    assert RunConfig(local_steps={"name": "constant", "steps": 5}) == plain == RunConfig(local_steps=np.int64(5))
    assert plain.local_steps == 5
    assert "\nlocal_steps = 5\n" in config_to_toml(plain)
    assert [plain.steps_of(k) for k in range(3)] == [5, 5, 5]


def test_settings_of_the_command_line_name_lists_and_schedules() -> None:
    text = config_to_toml(RunConfig())
    assert config_from_toml(text, ["local_steps=[1, 4, 2]"]).local_steps == ListedSteps(steps=(1, 4, 2))
    drawn = config_from_toml(text, ['local_steps={name="uniform", lowest=2, highest=8}'])
    assert drawn.local_steps == UniformSteps(lowest=2, highest=8)
    assert config_from_toml(config_to_toml(drawn), ["local_steps.highest=4"]).local_steps.most == 4  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "a whole number from 1 to 1,000,000,000, a list of such numbers.*got 0"),
        (-3, "a whole number from 1 to.*got -3"),
        (2.5, "a whole number from 1 to.*got 2.5"),
        (True, "a whole number from 1 to.*got True"),
        ("uniform", "or a table such as { name = .uniform., lowest = 1, highest = 8 }, got 'uniform'"),
        (None, "got None"),
        (10**30, "from 1 to 1,000,000,000.*got 1000000000000"),
        ([], r"1 to 1,000,000 numbers of steps, got \[\]"),
        ([1, 0], "the steps of round 1 must be a whole number from 1 to 1000000000, got 0"),
        ([1, 2.5], "the steps of round 1 must be a whole number.*got 2.5"),
        (["one", 2], "the steps of round 0 must be a whole number.*got 'one'"),
        ([[1, 2]], r"the steps of round 0 must be a whole number.*got \[1, 2\]"),
        ([1, 10**30], "the steps of round 1 must be a whole number from 1 to 1000000000"),
        ((1,) * 1_000_001, "1 to 1,000,000 numbers of steps, got 1,000,001"),
        ({}, "a whole number from 1 to.*got {}"),
        ({"name": "listed", "steps": "12"}, "a list of whole numbers, one per round, got '12'"),
        ({"name": "uniform"}, "highest: field required"),
        ({"name": "uniform", "lowest": 5, "highest": 2}, "lowest must be at most highest = 2, got 5"),
        ({"name": "uniform", "highest": 0}, "highest: input should be greater than or equal to 1, got 0"),
        ({"name": "uniform", "highest": 10**18}, "highest: input should be less than or equal to 1000000000"),
        ({"name": "uniform", "highest": 10**30}, "highest: input should be a whole number of at most 63 bits"),
        ({"name": "uniform", "hihest": 8}, "no parameter 'hihest', did you mean 'highest'"),
    ],
    ids=lambda each: f"{each!r:.30}",
)
def test_what_are_no_local_steps_is_refused_with_what_is_allowed(value: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        RunConfig(local_steps=value)


def test_an_unknown_schedule_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'uniform'"):
        RunConfig(local_steps={"name": "unifrom", "highest": 3})


@pytest.mark.parametrize(
    ("given_total", "steps", "words"),
    [
        (6, [1, 4, 2], "must be where a round ends: 1, 5, 7, 8, …, got 6"),
        (0, [1, 4, 2], "got 0"),
        ("many", [1, 4, 2], "got 'many'"),
        (6, {"name": "uniform", "highest": 3}, "cannot be given for local_steps that are drawn, give rounds; got 6"),
        (6, [0], "the steps of round 0 must be"),
    ],
)
def test_a_total_at_which_no_round_ends_is_refused(given_total: Any, steps: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        RunConfig(total_steps=given_total, local_steps=steps)  # type: ignore[call-arg]


def test_a_total_tells_the_rounds_of_a_list() -> None:
    found = RunConfig(total_steps=12, local_steps=[1, 4, 2])  # type: ignore[call-arg]
    assert (found.rounds, found.total_steps) == (5, 12)


@pytest.mark.parametrize(
    ("steps", "rounds", "words"),
    [
        ([1, 2, 3, 4], 3, "at most one number per round, got 4 for 3 rounds"),
        ([1, 2], 1, "got 2 for 1 round$"),
        (DRAWN, 1_000_001, "drawn for at most 1,000,000 rounds, got rounds = 1,000,001"),
    ],
)
def test_a_schedule_that_is_not_for_the_run_is_refused_before_it(steps: Any, rounds: int, words: str) -> None:
    with (
        pytest.raises(ParameterError, match=words),
        Federation(config(local_steps=steps, rounds=rounds), dataset=classes()),
    ):
        pass


def test_a_list_shorter_than_the_run_begins_anew() -> None:
    _, records = played(config(local_steps=LISTED, rounds=5))
    assert [record.step for record in records] == [3, 4, 8, 11, 12]


@pytest.mark.parametrize("steps", [LISTED, DRAWN], ids=repr)
@pytest.mark.parametrize("model", [SoftmaxRegression(l2=0.01), MultilayerPerceptron(hidden=(7,))], ids=repr)
@pytest.mark.parametrize("batch_size", [4, "full"])
@pytest.mark.parametrize("attacks", [False, True])
def test_a_run_is_algorithm_1_with_its_synchronisation_indices(
    steps: Any, model: Architecture, batch_size: int | str, attacks: bool
) -> None:
    adversary = {"attack": SignFlip(factor=2.0), "byzantine": FractionMembers(fraction=0.25)} if attacks else {}
    what = config(
        rounds=5, local_steps=steps, model=model, rule=Rage(byzantine_fraction=0.25), batch_size=batch_size, **adversary
    )
    assert len({b - a for a, b in pairwise(sorted(indices(what)))}) > 1
    assert_equal_to_the_paper(what, attacked=lambda row: -2.0 * row, indices=indices(what))


@pytest.mark.parametrize("engine", ["stacked", "vmap", "loop"])
def test_every_engine_is_algorithm_1_with_gaps_that_differ(engine: str) -> None:
    what = config(model=MultilayerPerceptron(hidden=(4,)), engine=engine, local_steps=DRAWN, rounds=4)
    assert_equal_to_the_paper(what, indices=indices(what))


def test_sample_space_is_algorithm_1_with_gaps_that_differ() -> None:
    """Few points of many features: the stacked engine keeps outputs, and leaves out the change after the last step."""
    points = classes(dim=200)
    what = config(local_steps=[9, 2, 5], model=SoftmaxRegression(), batch_size=8, engine="stacked")
    with Federation(what, dataset=points) as federation:
        assert federation.setting.engine._space.grams.padded.max() > 0  # type: ignore[attr-defined]  # noqa: SLF001
        states = [federation.start()]
        for _ in range(what.rounds):
            states.append(federation.play(states[-1])[0])
        layout = federation.setting.layout
    for state, parameters in zip(states[1:], algorithm_1(what, points, indices=indices(what)), strict=True):
        for view, parameter in zip(layout.parameter_views(state.model).values(), parameters, strict=True):
            np.testing.assert_allclose(view.numpy(), parameter.numpy(), atol=1e-9)


def test_the_oracle_asks_for_the_indices_of_gaps_that_differ() -> None:
    with pytest.raises(TypeError, match="synchronisation indices"):
        algorithm_1(config(local_steps=LISTED), classes())


@pytest.mark.parametrize("steps", [LISTED, DRAWN], ids=repr)
@pytest.mark.parametrize("engine", ["stacked", "vmap", "loop"])
@pytest.mark.usefixtures("two_threads")
def test_any_number_of_workers_gives_the_same_bits(steps: Any, engine: str) -> None:
    what = config(rounds=4, local_steps=steps, engine=engine, model=MultilayerPerceptron(hidden=(5,)))
    assert same_bits(played(what), played(what, jobs=3))


def test_a_list_of_equal_numbers_is_the_number() -> None:
    assert same_bits(played(config(local_steps=3)), played(config(local_steps=[3, 3])))


def test_the_server_takes_as_many_steps_for_its_own_update_as_the_clients_of_the_round() -> None:
    """A client whose update is parallel to the trusted one keeps its length: one that took other steps would not."""
    what = config(rounds=3, local_steps=[1, 6, 2], rule=FlTrust(), server=ServerOptions(trusted_points=20))
    with Federation(what, dataset=classes()) as federation:
        state = federation.start()
        for number in range(3):
            row = federation._trusted_row(state)  # noqa: SLF001
            lengths = []
            for steps in (1, 2, 6):
                alone = config(rounds=3, local_steps=steps, rule=FlTrust(), server=ServerOptions(trusted_points=20))
                with Federation(alone, dataset=classes()) as other:
                    lengths.append(bool((other._trusted_row(state) == row).all()))  # noqa: SLF001
            assert lengths == [each == what.steps_of(number) for each in (1, 2, 6)]
            state, _ = federation.play(state)


def test_step_sizes_go_by_rounds_whatever_the_numbers_of_steps_are() -> None:
    _, records = played(config(rounds=3, local_steps=LISTED, lr=0.4, schedule=ExponentialSchedule(decay=0.5)))
    assert [record.lr for record in records] == pytest.approx([0.4, 0.2, 0.1])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 5))
def test_records_hold_the_synchronisation_indices(steps: list[int], seed: int) -> None:
    what = config(rounds=4, local_steps=steps, seed=seed, batch_size="full")
    _, records = played(what)
    assert {0, *(record.step for record in records)} == indices(what)
    assert records[-1].step == what.total_steps


@pytest.mark.parametrize("name", STEP_SCHEDULES)
def test_every_schedule_is_built_from_its_name_and_says_its_range(name: str) -> None:
    schedule = STEP_SCHEDULES.example(name)
    assert STEP_SCHEDULES.from_table(STEP_SCHEDULES.to_table(schedule)) == schedule
    assert schedule.words.startswith(str(schedule.fewest))
    assert schedule.words.endswith(str(schedule.most))


def test_errors_are_of_the_tree() -> None:
    for bad in ([0], {"name": "x"}, 0):
        with pytest.raises(SteadfedError):
            RunConfig(local_steps=bad)
