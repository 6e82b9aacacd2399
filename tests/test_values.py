"""Value objects: rules are their configuration."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w

from steadfed._core.rng import stream
from steadfed.aggregators import RULES, Aggregator, GeometricMedian, Krum, Mean, Rage
from steadfed.errors import ParameterError, SteadfedError, UnknownNameError

EXAMPLES: list[Aggregator] = [
    Rage(byzantine_fraction=0.2),
    Rage(num_byzantine=3, mode="known", sigma0=0.5),
    Rage(num_byzantine=3, kappa=2.0, gram="fast"),
    Krum(num_byzantine=0),
    Mean(),
    GeometricMedian(smoothing=0.1),
]


@pytest.mark.parametrize("rule", EXAMPLES, ids=repr)
def test_repr_is_the_code_that_builds_the_rule(rule: Aggregator) -> None:
    assert eval(repr(rule), {kind.__name__: kind for kind in RULES.values()}) == rule  # noqa: S307  our own repr


@pytest.mark.parametrize("rule", EXAMPLES, ids=repr)
def test_toml_gives_the_same_rule_back(rule: Aggregator) -> None:
    assert RULES.from_table(tomllib.loads(tomli_w.dumps(RULES.to_table(rule)))) == rule


def test_rules_are_frozen_hashable_and_compared_by_value() -> None:
    assert len({Rage(num_byzantine=1), Rage(num_byzantine=1), Rage(num_byzantine=2)}) == 2
    with pytest.raises(Exception, match="frozen"):
        Rage(num_byzantine=1).kappa = 2.0  # type: ignore[misc]


def test_every_rule_describes_itself_as_json_schema() -> None:
    for kind in RULES.values():
        assert kind.model_json_schema()["type"] == "object"


def test_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown rule 'krumm', did you mean 'krum'"):
        RULES.build("krumm")
    assert RULES.name(Mean()) == "mean"


def test_every_error_is_of_the_one_tree() -> None:
    assert issubclass(ParameterError, (SteadfedError, ValueError))
    assert str(UnknownNameError("plain")) == "plain"


def test_streams_are_independent_and_repeatable() -> None:
    first = stream(1, "a", 2).integers(2**60, size=4)
    assert (first == stream(1, "a", 2).integers(2**60, size=4)).all()
    for other in (stream(2, "a", 2), stream(1, "b", 2), stream(1, "a", "2"), stream(1, "a", 2, 0)):
        assert not (first == other.integers(2**60, size=4)).any()
    with pytest.raises(ParameterError, match="got -1"):
        stream(-1)
