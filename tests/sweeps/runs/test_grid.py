from __future__ import annotations

import pytest
from tests.sweeps.runs.grids import BASE, NAMED

from steadfed.errors import SteadfedError
from steadfed.sweeps.runs._grid import parse_grid, read_grid, shipped_grids

SETTING = "[settings.mine.base]\nlr = 0.1"


def grid(text: str) -> str:
    return f'{BASE}\n[grid]\nrule = ["rage"]\n{text}'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f'{BASE}\n[grid]\nrule = ["rge"]', ["grid.rule = 'rge'", "unknown rule 'rge'", "did you mean 'rage'"]),
        (f"{BASE}\n[grid]\nrule = []", ["grid.rule is an empty list", "at least one value"]),
        (grid('attack = ["nobody"]'), ["grid.attack = 'nobody'", "unknown attack", "known: "]),
        (grid('attack = ["alie", "alie"]'), ["grid.attack has 'alie' twice"]),
        (f'{BASE}\n[grid]\nrule = ["krum", {{ name = "krum" }}]', ["grid.rule has {'name': 'krum'} twice", "'krum'"]),
        (grid("clients.momentum = 0.9"), ["grid.clients", "with dots"]),
        (grid('"clients.momentum" = 0.9'), ["grid.clients.momentum = 0.9", "did you mean 'client'"]),
        (grid('"client.momentun" = 0.9'), ["grid.client.momentun = 0.9", "did you mean 'momentum'"]),
        (grid('"client.momentum" = [0.0, 1.5]'), ["grid.client.momentum = 1.5", "less than 1"]),
        (grid('"rounds.x" = 3'), ["grid.rounds.x = 3", "rounds is a value, not a table"]),
        (grid("byzantine_fraction = 1"), ["byzantine_fraction must be a share from 0 to below 1, got 1"]),
        (grid("participation = [0.0]"), ["participation must be a share above 0 and at most 1, got 0.0"]),
        (grid('heterogeneity = ["dirichelt"]'), ["grid.heterogeneity = 'dirichelt'", "did you mean 'dirichlet'"]),
        (grid("heterogeneity = [{ alpha = 0.1 }]"), ["takes names and tables with a name", "{'alpha': 0.1}"]),
        (grid('partition = "iid"\nheterogeneity = "iid"'), ["grid.heterogeneity and grid.partition decide the same"]),
        (grid('attack = { label = "none", name = "nan" }'), ["label 'none' of attack", "choose another word"]),
        ('metric = "auc"\n' + grid("seed = 0"), ["unknown metric 'auc'", "did you mean 'auroc'"]),
        (grid("seed = [-1]"), ["grid.seed = -1", "greater than or equal to 0"]),
        ("[base]\nlr = -1\n[grid]\nrule = 'rage'", ["[base] is no configuration", "lr", "-1"]),
        (
            f"bound_probability = 1.0\n{grid('')}",
            ["bound_probability must be a number strictly between 0 and 1, got 1.0"],
        ),
        (f'reference = "no"\n{grid("")}', ["reference must be true or false, got 'no'"]),
        (f'titel = "x"\n{grid("")}', ["no key 'titel'", "did you mean 'title'"]),
        (BASE, ["needs a table [grid]"]),
        (f"{BASE}\n[grid]\nseed = [0]", ["names none; give grid.rule"]),
        ("[grid", ["not valid TOML"]),
        (f"{BASE}\n[grid]\n{SETTING}", ["needs a table [grid]"]),
        (grid('setting = "mine"'), ["grid.setting is no choice", "[settings.NAME]"]),
        (f"settings = 3\n{grid('')}", ["settings must be tables [settings.NAME], got 3"]),
        (f"settings = {{}}\n{grid('')}", ["settings names no setting"]),
        (f'{grid("")}\n[settings."".base]', ["a setting needs a name"]),
        (f"{grid('')}\n[settings]\nmine = 1", ["settings.mine must be a table [settings.mine], got 1"]),
        (f"{grid('')}\n[settings.mine.bsae]", ["no key 'bsae' in settings.mine", "did you mean 'base'"]),
        (f"{grid('')}\n[settings.mine.base]\nlr = -1", ["settings.mine: [base] is no configuration", "lr"]),
        (f"{grid('')}\n[settings.mine.grid]\nattack = 'aile'", ["settings.mine: grid.attack = 'aile'", "'alie'"]),
        (f"{grid('')}\n[settings.mine]\nbound_probability = 2", ["settings.mine: bound_probability must be", "2"]),
        (f"{BASE}\n[settings.mine.grid]\nseed = [0]", ["settings.mine: ", "names none; give grid.rule"]),
        (f"{grid('')}\n[[published]]\nrule = 'rage'", ["[[published]] needs percent"]),
        (f"{grid('')}\n[[published]]\npercent = {{ alie = 910 }}", ["percent.alie", "from 0 to 100, got 910"]),
    ],
)
def test_what_is_wrong_is_named_with_the_key_the_value_and_what_is_allowed(text: str, wanted: list[str]) -> None:
    with pytest.raises(SteadfedError) as caught:
        parse_grid(text)
    for part in wanted:
        assert part in str(caught.value)


def test_a_file_that_does_not_exist_is_refused_with_the_shipped_names() -> None:
    with pytest.raises(
        SteadfedError, match=r"cannot read the grid 'quik'.*did you mean 'quick'.*bucketing, paper, quick, resilience"
    ):
        read_grid("quik")


@pytest.mark.parametrize("name", shipped_grids())
def test_shipped_grids_can_be_read(name: str) -> None:
    assert any(point["rule"].label == "rage" for point in read_grid(name).points())


def test_all_of_the_first_seed_comes_first_over_all_products() -> None:
    text = f'{BASE}\n[[grid]]\nrule = "rage"\nseed = [0, 1]\n[[grid]]\nrule = "mean"\nseed = [0, 1]'
    points = [(point["rule"].label, point["seed"].label) for point in parse_grid(text).points()]
    assert points == [("rage", 0), ("mean", 0), ("rage", 1), ("mean", 1)]


def test_a_label_is_what_a_choice_is_called_and_no_parameter() -> None:
    text = f'{BASE}\n[grid]\nrule = {{ label = "mine", name = "centered-clipping", radius = 3 }}'
    (point,) = parse_grid(text).points()
    assert point["rule"].label == "mine"
    assert point["rule"].value == {"name": "centered-clipping", "radius": 3}


def test_published_figures_of_the_bucketing_grid_belong_to_points_of_it() -> None:
    grid = read_grid("bucketing")
    settings = [{key: choice.label for key, choice in point.items()} for point in grid.points()]
    assert len(grid.published) == 80
    assert all(sum(figure.belongs_to(each) for each in settings) == 3 for figure in grid.published)


def test_the_paper_grid_has_the_default_and_the_mode_before_with_and_without_momentum_and_attacks_made_for_them() -> (
    None
):
    points = list(read_grid("paper").points())
    rules = [
        {point["rule"].label for point in points if ("client.momentum" in point) is momentum}
        for momentum in (False, True)
    ]
    assert rules[0] == rules[1] > {"rage", "rage-spread", "rfa", "centered-clipping", "nnm+trimmed-mean"}
    assert {point["attack"].label for point in points} > {"symmetric-pairs", "anchor-poisoning", "below-guard"}


def test_a_setting_says_only_what_is_not_so_for_all() -> None:
    few, many = parse_grid(NAMED).settings.values()
    assert (few.base["rounds"], few.bound_probability) == (2, 0.99)
    assert few.base["partition"] == {"name": "iid", "num_clients": 8}
    assert (many.base["rounds"], many.base["partition"]["name"], many.bound_probability) == (4, "dirichlet", 0.9)
    assert [each.label for each in few.products[0]["attack"]] == ["none", "sign-flip"]
    assert [each.label for each in many.products[0]["attack"]] == ["none", "nan", "ones"]
    assert [each.label for each in many.products[0]["rule"]] == ["rage", "median"]


def test_points_of_named_settings_have_the_name_and_come_by_seed() -> None:
    points = [(point["setting"].label, point["seed"].label) for point in parse_grid(NAMED).points()]
    assert points == 4 * [("few", 0)] + 6 * [("many", 0)] + 4 * [("few", 1)]


def test_every_product_of_a_setting_is_taken_with_every_one_of_the_grid() -> None:
    text = f"{BASE}\n[[grid]]\nrule = 'rage'\n[[grid]]\nrule = 'mean'\n"
    text += "[[settings.x.grid]]\nseed = 0\n[[settings.x.grid]]\nseed = 1\nattack = 'nan'"
    points = [(point["rule"].label, point["seed"].label, "attack" in point) for point in parse_grid(text).points()]
    assert points == [("rage", 0, False), ("mean", 0, False), ("rage", 1, True), ("mean", 1, True)]


def test_every_setting_of_the_resilience_grid_has_the_same_rules_and_the_case_without_attack() -> None:
    settings = read_grid("resilience").settings
    rules = [[each.label for each in setting.products[0]["rule"]] for setting in settings.values()]
    assert len(settings) == 15
    assert all(each == rules[0] for each in rules)
    assert all(setting.products[0]["attack"][0].label == "none" for setting in settings.values())


def test_a_grid_of_more_combinations_than_anybody_plays_is_refused_before_they_are_listed() -> None:
    axes = "".join(f"{key} = {list(range(1, 100))}\n" for key in ("seed", "rounds", "cohort_size", "local_steps"))
    with pytest.raises(SteadfedError, match="100,000 combinations, got 96,059,601"):
        parse_grid(f"[grid]\nrule = 'rage'\n{axes}")
