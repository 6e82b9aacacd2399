"""The adversary at the server forges what the simulator's adversary forges, and nobody else's rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from steadfed._core.rng import stream
from steadfed.aggregators import Krum, Median, ServerView
from steadfed.attacks import ATTACKS, EVERYTHING
from steadfed.attacks._poisoning import data_attack_of
from steadfed.errors import ParameterError
from steadfed.flower._settings import Tampering
from steadfed.flower.redteam import Omniscient
from steadfed.simulation._adversary import Adversary, AttackContext

EVERY = {name: ATTACKS.example(name) for name in ATTACKS}
CLIENTS = ["a", "b", "c", "d", "e", "f", "g", "h"]
LIARS = [1, 5]
HONEST = [0, 2, 3, 4, 6, 7]
RULE = Krum(num_byzantine=2)


def rows(number: int = 0) -> Tensor:
    return torch.from_numpy(stream(number, "rows").standard_normal((8, 6))).float()


@pytest.mark.parametrize("name", [name for name, each in EVERY.items() if data_attack_of(each) is None])
def test_the_rows_are_those_of_the_simulators_adversary(name: str) -> None:
    updates, before = rows(), rows()
    view = ServerView(round=2, model=torch.zeros(6))
    order = np.array([CLIENTS[i] for i in LIARS + HONEST], dtype=object)
    context = AttackContext(view, order)
    expected = Adversary(EVERY[name], EVERYTHING, 3).forge(before[LIARS], before[HONEST], RULE, context)
    tampering: Tampering = Omniscient(EVERY[name], byzantine={"b", "f"}, seed=3)
    tampering.tamper(updates, list(CLIENTS), RULE, view)
    assert torch.equal(updates[HONEST], before[HONEST])
    if name == "silence":
        assert bool(updates[LIARS].isnan().all())
    else:
        torch.testing.assert_close(updates[LIARS], expected.rows, equal_nan=True)


def test_a_round_without_its_clients_is_left_alone() -> None:
    updates = rows()
    Omniscient(ATTACKS.build("nan"), byzantine={"x"}).tamper(updates, list(CLIENTS), RULE, ServerView())
    assert torch.equal(updates, rows())


def test_numbers_name_clients_too() -> None:
    updates = rows()
    Omniscient(ATTACKS.build("zero"), byzantine={3}).tamper(updates, list(range(8)), RULE, ServerView())
    assert bool((updates[3] == 0.0).all())
    assert torch.equal(updates[[0, 1, 2, 4, 5, 6, 7]], rows()[[0, 1, 2, 4, 5, 6, 7]])


def test_malformed_rows_of_others_do_not_stop_it() -> None:
    updates = rows()
    updates[0] = torch.nan
    Omniscient(ATTACKS.build("ipm", epsilon=1.0), byzantine={"b", "f"}).tamper(
        updates, list(CLIENTS), Median(num_byzantine=3), ServerView()
    )
    torch.testing.assert_close(updates[LIARS], -updates[[2, 3, 4, 6, 7]].mean(0).repeat(2, 1))
    assert bool(updates[0].isnan().all())


def test_it_has_nothing_to_work_with_if_all_are_its_clients() -> None:
    updates = rows()
    Omniscient(ATTACKS.build("ipm"), byzantine=set(CLIENTS)).tamper(updates, list(CLIENTS), RULE, ServerView())
    assert bool(torch.isfinite(updates).all())


def test_what_it_remembers_lasts() -> None:
    adversary = Omniscient(ATTACKS.build("mimic", warm_up=1), byzantine={"b", "f"})
    memory: dict[str, Tensor] = {}
    for number in range(3):
        updates, before = rows(number), rows(number)
        view = ServerView(round=number)
        order = np.array([CLIENTS[i] for i in LIARS + HONEST], dtype=object)
        expected = Adversary(adversary.attack, EVERYTHING, 0).forge(
            before[LIARS], before[HONEST], RULE, AttackContext(view, order, memory)
        )
        memory = dict(expected.memory)
        adversary.tamper(updates, list(CLIENTS), RULE, view)
        torch.testing.assert_close(updates[LIARS], expected.rows)
    assert memory


@pytest.mark.parametrize("name", ["label-flip", "sleeper+label-noise"])
def test_attacks_on_data_are_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="done in the client's data"):
        Omniscient(ATTACKS.build(name), byzantine={"a"})


def test_a_name_is_not_a_set_of_names() -> None:
    with pytest.raises(ParameterError, match="must be a set of names, got 'ab'"):
        Omniscient(ATTACKS.build("zero"), byzantine="ab")
