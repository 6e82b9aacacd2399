from __future__ import annotations

import pytest
from tests.sweeps.runs.grids import BASE, NAMED, SMALL

from steadfed.errors import ParameterError, SteadfedError
from steadfed.sweeps.runs._cells import CellPlanner, ComparisonCell
from steadfed.sweeps.runs._grid import parse_grid
from steadfed.theory.sampling import excess_probability


def cells(grid: str, *, head: str = "reference = false") -> list[ComparisonCell]:
    return CellPlanner(parse_grid(f"{head}\n{BASE}\n[grid]\n{grid}")).cells()


def test_where_nobody_is_byzantine_the_attack_does_not_matter() -> None:
    found = cells('rule = "rage"\nattack = ["none", "sign-flip", "nan"]\nbyzantine_fraction = [0, 0.25]')
    assert [(cell.settings["byzantine_fraction"], cell.settings["attack"]) for cell in found] == [
        (0.0, "none"),
        (0.25, "none"),
        (0.25, "sign-flip"),
        (0.25, "nan"),
    ]
    assert len({cell.key for cell in found}) == 4


def test_attacks_that_nobody_would_carry_out_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"names attacks \(nan, ones\), and no client is Byzantine in any"):
        cells('rule = "rage"\nattack = ["none", "nan", "ones"]')
    assert cells('rule = "rage"\nattack = "none"')


def test_the_reference_is_there_once_for_all_rules_and_attacks() -> None:
    found = CellPlanner(parse_grid(SMALL)).cells()
    oracles = [cell for cell in found if cell.settings["rule"] == "oracle"]
    assert len(oracles) == 4  # with and without Byzantine clients, two seeds
    assert {cell.settings["attack"] for cell in oracles} == {"any", "none"}
    assert all(cell.config.attack.__class__.__name__ == "Silence" for cell in oracles if cell.num_byzantine)


def test_lists_and_schedules_of_local_steps_are_choices_of_their_own() -> None:
    found = cells('rule = "rage"\nlocal_steps = [2, [1, 3], { name = "uniform", highest = 3 }]')
    assert [cell.settings["local_steps"] for cell in found] == [2, "1,3", "uniform highest=3"]
    assert len({cell.key for cell in found}) == 3
    assert [cell.config.step_schedule.words for cell in found] == ["2", "1 to 3", "1 to 3"]


@pytest.mark.parametrize("steps", ["[1, 3]", '{ name = "uniform", highest = 3 }'])
def test_a_base_may_have_steps_that_differ(steps: str) -> None:
    base = BASE.replace("local_steps = 1", f"local_steps = {steps}")
    (found,) = CellPlanner(parse_grid(f'reference = false\n{base}\n[grid]\nrule = "rage"')).cells()
    assert str(found.settings["local_steps"]) in {"1,3", "uniform lowest=1 highest=3"}
    assert found.config.step_schedule.most == 3


def test_shares_of_as_many_clients_are_one_run_under_two_names() -> None:
    found = cells('rule = "rage"\nattack = "nan"\nbyzantine_fraction = [0.25, 0.3]')
    assert len(found) == 2
    assert len({cell.key for cell in found}) == 1


def test_the_key_is_the_same_in_another_grid_and_with_other_checkpoints() -> None:
    (one,) = cells('rule = "krum"\nattack = "nan"\nbyzantine_fraction = 0.25')
    many = cells('checkpoint_every = 3\nrule = ["rage", { label = "k", name = "krum", num_byzantine = 2 }]\n'
                 'attack = ["none", "nan"]\nbyzantine_fraction = 0.25')  # fmt: skip
    assert one.key in {cell.key for cell in many}


@pytest.mark.parametrize(
    "other",
    [
        'rule = { name = "rage", kappa = 9.0 }',
        "lr = 0.2",
        "seed = 1",
        "rounds = 5",
        '"client.momentum" = 0.9',
        '"evaluation.every" = 2',
        'data = { name = "quadratic" }\nmodel = "quadratic"',
        'heterogeneity = { name = "dirichlet", alpha = 0.5 }',
    ],
)
def test_settings_that_differ_never_share_a_key(other: str) -> None:
    usual = 'attack = "nan"\nbyzantine_fraction = 0.25\n'
    rule = "" if "rule" in other else 'rule = "rage"\n'
    (one,), (two,) = cells(f'{usual}rule = "rage"'), cells(f"{usual}{rule}{other}")
    assert one.key != two.key


def test_rules_are_told_the_smallest_number_that_a_cohort_keeps_to() -> None:
    text = 'rule = "krum"\nattack = "nan"\nbyzantine_fraction = 0.1\nparticipation = [1.0, 0.5]\n'
    text += 'heterogeneity = { name = "iid", num_clients = 100 }'
    all_of_them, half = cells(text, head="bound_probability = 0.95\nreference = false")
    assert (all_of_them.config.cohort_size, half.config.cohort_size) == (100, 50)
    assert all_of_them.config.rule.assumed_byzantine(100) == 10
    told = half.config.rule.assumed_byzantine(50)
    chances = [
        excess_probability(num_clients=100, num_byzantine=10, cohort_size=50, tolerated=f) for f in (told - 1, told)
    ]
    assert chances[0] > 0.05 >= chances[1]


def test_a_rule_that_has_a_bound_keeps_it() -> None:
    (cell,) = cells('rule = { name = "nnm", rule = { name = "krum", num_byzantine = 1 } }\nbyzantine_fraction = 0.25')
    assert cell.config.rule.assumed_byzantine(8) == 1


def test_a_rule_that_needs_more_rows_is_refused_and_says_why() -> None:
    (cell,) = cells('rule = "bulyan"\nattack = "nan"\nbyzantine_fraction = 0.25')
    assert cell.refused is not None
    assert "needs at least 11 updates" in cell.refused


def test_one_name_for_two_runs_is_refused() -> None:
    text = (
        f'{BASE}\n[[grid]]\nrule = {{ label = "x", name = "krum" }}\n[[grid]]\nrule = {{ label = "x", name = "rage" }}'
    )
    with pytest.raises(SteadfedError, match="two different runs would be called"):
        CellPlanner(parse_grid(text)).cells()


def test_a_combination_that_means_nothing_is_named() -> None:
    with pytest.raises(SteadfedError, match=r"the combination rule = 'fltrust'.*trusted_points"):
        cells('rule = "fltrust"')


def test_rules_that_remember_are_refused_where_coordinates_change() -> None:
    found = cells(
        'rule = ["rage", "centered-clipping"]\ncompression = ["none", { name = "random-k", coordinates = 0.5 }]'
    )
    refused = {
        (cell.settings["rule"], cell.refused is not None and "remembers vectors" in cell.refused) for cell in found
    }
    assert ("centered-clipping", True) in refused
    assert [cell.refused for cell in found if cell.settings["rule"] == "rage"] == [None, None]


def test_how_inner_products_are_found_is_part_of_the_key_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = 'rule = ["rage", { label = "exact", name = "rage", gram = "exact" }]'
    usual, exact = (cell.key for cell in cells(grid))
    monkeypatch.setattr("steadfed._linalg.sketch.FEWEST_ROWS", {1: 1, 2: 1})
    monkeypatch.setattr("steadfed._linalg.sketch.BUCKETS", 2)
    sketched, still = (cell.key for cell in cells(grid))
    assert sketched != usual
    assert still == exact


def test_cells_of_named_settings_are_those_of_their_configurations() -> None:
    found = CellPlanner(parse_grid(NAMED)).cells()
    few, many = ([cell for cell in found if cell.settings["setting"] == name] for name in ("few", "many"))
    assert {cell.config.rounds for cell in few} == {2}
    assert {(cell.config.rounds, cell.num_byzantine) for cell in many} == {(4, 4)}
    assert {cell.config.rule.assumed_byzantine(8) for cell in few if cell.settings["rule"] == "rage"} == {2}
    (told,) = {cell.config.rule.assumed_byzantine(8) for cell in many if cell.settings["rule"] == "rage"}
    chances = [
        excess_probability(num_clients=16, num_byzantine=4, cohort_size=8, tolerated=f) for f in (told - 1, told)
    ]
    assert chances[0] > 0.1 >= chances[1]
    assert sum(cell.settings["rule"] == "oracle" for cell in few) == 2  # two seeds
    assert sum(cell.settings["rule"] == "oracle" for cell in many) == 1


def test_settings_share_the_runs_that_they_have_in_common() -> None:
    text = f"{BASE}\n[grid]\nrule = 'rage'\nbyzantine_fraction = 0.25\n"
    text += "[settings.one.grid]\nattack = ['none', 'nan']\n[settings.two.grid]\nattack = ['none', 'ones']"
    found = CellPlanner(parse_grid(text)).cells()
    assert len(found) == 6
    assert len({cell.key for cell in found}) == 4  # the oracle and the case without attack are there once


def test_the_name_of_a_setting_is_no_part_of_the_key() -> None:
    plain = cells('rule = "rage"\nattack = "nan"\nbyzantine_fraction = 0.25')
    text = f"reference = false\n{BASE}\n[settings.x.grid]\nrule = 'rage'\nattack = 'nan'\nbyzantine_fraction = 0.25"
    assert [cell.key for cell in CellPlanner(parse_grid(text)).cells()] == [cell.key for cell in plain]
