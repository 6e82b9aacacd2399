"""Names of classes: a class is named where it is defined, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, final

import pytest
import torch
from pydantic import Field
from tests.aggregators import test_contract as rules_under_contract
from tests.attacks import test_contract as attacks_under_contract
from tests.cli.commands import run

import steadfed
from steadfed._cli.catalogue import PAGES
from steadfed._core.naming import Registry
from steadfed._core.values import ValueObject
from steadfed._linalg.columns import Columns
from steadfed.aggregators import RULES, Aggregation, Mean, MinorityAggregator, Rage, ServerView
from steadfed.attacks import ATTACKS, AdversaryView, Attack, Forged, Honest, Knowledge
from steadfed.errors import ParameterError, UnknownNameError
from steadfed.metrics import METRICS
from steadfed.runs import config_from_toml, config_to_toml, template
from steadfed.simulation import RunConfig
from steadfed.simulation._tables import NAMED
from steadfed.testing.contract import check_contract

pytestmark = pytest.mark.usefixtures("_registries")


def test_a_rule_that_is_defined_with_a_name_is_known_everywhere() -> None:
    @RULES.register("toy")
    @final
    class Toy(MinorityAggregator):
        """The mean, as a toy."""

        citation: ClassVar[str] = "this test"

        def aggregate(self, columns: Columns, num_byzantine: int, view: ServerView) -> Aggregation:
            return Mean().aggregate(columns, num_byzantine, view)

    assert RULES.build("nnm+toy", num_byzantine=2).claims() == RULES.build("nnm+mean", num_byzantine=2).claims()
    assert "The mean, as a toy." in run("list", "rules", "toy")
    assert "## toy\n\nThe mean, as a toy.\n\n`Toy` · defined in this test" in PAGES["rules.md"]()
    config = config_from_toml('[rule]\nname = "toy"\nnum_byzantine = 4')
    assert config.rule == Toy(num_byzantine=4)
    assert config_from_toml(config_to_toml(config)) == config
    assert ", toy, trimmed-mean," in " ".join(template(RunConfig()).replace("#", "").split())
    check_contract(rules_under_contract.registered()["toy"])


def test_an_attack_that_is_defined_with_a_name_is_known_everywhere() -> None:
    @ATTACKS.register("toy")
    @final
    class Toy(Attack):
        """Honest rows, as a toy."""

        citation: ClassVar[str] = "this test"
        needs: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.OWN})

        def forge(self, view: AdversaryView) -> Forged:
            return Honest().forge(view)

    assert ATTACKS.name(ATTACKS.build("sleeper+toy")) == "sleeper+toy"
    assert "Honest rows, as a toy." in run("list", "attacks", "toy")
    assert "## toy\n" in PAGES["attacks.md"]()
    assert config_from_toml('[attack]\nname = "toy"').attack == Toy()
    assert attacks_under_contract.registered()["toy"] == Toy()


def finals(cls: type[Any]) -> Iterator[type[Any]]:
    """Yield the classes of the package that are derived from a class and are there to be built."""
    for each in cls.__subclasses__():
        yield from finals(each)
        if "__final__" in vars(each) and each.__module__.startswith("steadfed."):
            yield each


@pytest.mark.parametrize("key", NAMED)
def test_every_class_of_a_kind_has_a_name(key: str) -> None:
    registry = NAMED[key]
    own = {registry["module:name"]} if key in {"rule", "attack"} else set()  # its name is where its code is
    assert set(finals(registry.base)) == set(registry.values()) | own
    assert len(set(registry.values())) == len(registry)
    assert list(registry) == sorted(registry)


def test_whatever_is_named_in_a_file_is_imported_by_its_package() -> None:
    folder = Path(steadfed.__file__).parent
    written = [
        (table, name)
        for path in folder.rglob("*.py")
        for table, name in re.findall(
            r'^@([A-Z]+)\.register\("([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    registries = [*NAMED.values(), METRICS]
    assert sorted(name for _, name in written) == sorted(name for registry in registries for name in registry)


class Shape(ValueObject):
    """What may be drawn."""


@pytest.fixture
def shapes() -> Registry[Shape]:
    return Registry("shape", Shape)


def test_a_name_belongs_to_one_class(shapes: Registry[Shape]) -> None:
    @shapes.register("circle")
    class Circle(Shape):
        """A circle."""

    with pytest.raises(ParameterError, match=r"the shape 'circle' is \S*Circle already, in \S*test_naming.py$"):

        @shapes.register("circle")
        class Other(Shape):
            """Not a circle."""

    assert shapes["circle"] is Circle


def test_a_class_may_be_defined_anew_as_in_a_notebook(shapes: Registry[Shape]) -> None:
    def define() -> type[Shape]:
        @shapes.register("circle")
        class Circle(Shape):
            """A circle."""

        return Circle

    define()
    assert define() is shapes["circle"]


@pytest.mark.parametrize("name", ["", "Circle", "a+b", "a_b", "a b", "-a", "a--b"])
def test_a_name_is_of_letters_digits_and_hyphens(shapes: Registry[Shape], name: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(f"got {name!r}")):
        shapes.register(name)(Shape)


def test_a_class_of_another_kind_is_refused() -> None:
    with pytest.raises(ParameterError, match="Shape cannot be a rule: it is not derived from Aggregator"):
        RULES.register("shape")(Shape)


def test_an_object_without_a_name_says_how_to_give_it_one(shapes: Registry[Shape]) -> None:
    with pytest.raises(UnknownNameError, match=r"the shape Shape has no name; give it one .*`register\(\"a-name\"\)`"):
        shapes.name(Shape())


def test_a_class_of_ones_own_is_not_taken_for_another_that_is_called_alike() -> None:
    namesake = type("Mean", (Rage,), {"__module__": __name__})
    with pytest.raises(ParameterError, match=f"at {__name__}:Mean there is another object"):
        RULES.name(namesake(num_byzantine=1))


def test_examples_have_what_has_no_default(shapes: Registry[Shape]) -> None:
    @shapes.register("circle")
    class Circle(Shape):
        radius: Annotated[float, Field(examples=[2.0])]

    @shapes.register("square")
    class Square(Shape):
        side: float

    assert shapes.example("circle") == Circle(radius=2.0)
    assert shapes.example("circle", radius=3.0, side=1.0) == Circle(radius=3.0)
    assert shapes.example("square", side=1.0) == Square(side=1.0)
    with pytest.raises(ParameterError, match="square: the field 'side' has neither a default nor"):
        shapes.example("square")


def test_what_nobody_would_choose_is_not_offered() -> None:
    assert {"given", "remote"} <= set(NAMED["data"])
    for key in ("data", "model", "partition"):
        assert not {"given", "remote"} & set(NAMED[key].offered)
    assert RULES.offered == tuple(RULES)


def test_a_registry_is_a_mapping() -> None:
    assert dict(RULES)["rage"] is Rage
    assert "krumm" not in RULES
    assert RULES.get("krumm") is None
    with pytest.raises(UnknownNameError, match="unknown rule 'krumm', did you mean 'krum'"):
        RULES["krumm"]
    assert torch.equal(RULES.build("mean")(torch.ones(3, 2)).update, torch.ones(2))
