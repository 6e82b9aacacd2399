"""Rules of the user's own: functions, objects that are called, classes of rules; and what is wrong with some."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests import own_code
from tests.own_code import HERE, First

from steadfed._core.own_code import loaded
from steadfed.aggregators import RULES, Aggregator, Claim, ImportedRule, Median, ServerView, Stop
from steadfed.errors import CohortTooSmallError, OwnCodeError, ParameterError, UnknownNameError

ROWS = torch.tensor([[1.0, 2.0], [2.0, 9.0], [6.0, 1.0], [3.0, 4.0], [100.0, 100.0]])
WITH_BAD = torch.cat([torch.tensor([[float("nan"), 0.0]]), ROWS])


def rule(name: str, **parameters: object) -> Aggregator:
    return RULES.build(f"{HERE}:{name}", **parameters)


def test_a_plain_function_is_a_rule_that_does_not_say_whom_it_trusts() -> None:
    found = rule("median")(ROWS)
    assert found.update.tolist() == [3.0, 4.0]
    assert (found.attributed, found.stop) == (False, Stop.NOT_SAID)
    assert found.weights.tolist() == [0.2] * 5
    said = found.evidence()
    assert (said["weights"], said["kept"], said["scores"]) == (None, None, None)
    assert rule("median").claims() == frozenset()


def test_bad_rows_are_removed_before_a_function_sees_them_and_count_as_byzantine() -> None:
    assert rule("by_f", num_byzantine=2)(WITH_BAD).update.tolist() == [1.0, 1.0]
    found = rule("median", num_byzantine=2)(WITH_BAD)
    assert found.update.tolist() == [3.0, 4.0]
    assert found.usable.tolist() == [False, *[True] * 5]
    assert rule("median", num_byzantine=0)(WITH_BAD).stop is Stop.TOO_MANY_UNUSABLE


def test_a_function_that_asks_for_bad_rows_gets_them_all() -> None:
    assert rule("counted")(WITH_BAD).update.tolist() == pytest.approx([1.006, 1.006])


def test_a_function_gets_what_it_asks_for_by_name() -> None:
    assert rule("trimmed", num_byzantine=1)(ROWS).update.tolist() == pytest.approx([11 / 3, 5.0])
    assert rule("trimmed", num_byzantine=2, share=0.5)(ROWS).update.tolist() == pytest.approx([11 / 3, 5.0])
    view = ServerView(round=7, clients=[5, 6, 7, 8, 9, 10])
    assert rule("round_number")(WITH_BAD, view).update.tolist() == [7.0, 6.0]
    assert rule("by_f")(ROWS).update.tolist() == [2.0, 2.0], "told nothing, any minority"


def test_an_array_is_given_where_one_is_annotated_and_nothing_of_the_input_can_be_spoiled() -> None:
    before = ROWS.clone()
    assert rule("array")(ROWS).update.tolist() == pytest.approx(ROWS.mean(0).tolist())
    assert torch.equal(before, ROWS)
    assert rule("array")(ROWS.double()).update.dtype == torch.float64
    assert rule("array")(np.asarray(ROWS)).update.dtype == torch.float32


def test_weights_that_a_function_returns_are_shares_of_all_clients() -> None:
    found = rule("heaviest")(torch.cat([ROWS, WITH_BAD[:1]]))
    assert found.weights.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    assert found.removed == [0, 1, 2, 3, 5]
    assert (found.attributed, found.stop) == (True, Stop.OWN_WEIGHTS)
    assert found.scores.tolist() == [1.0, 1.0, 1.0, 1.0, 0.0, float("inf")]


def test_an_object_that_is_called_is_built_anew_every_time_so_that_it_remembers_nothing() -> None:
    own = rule("Nearest", num_byzantine=1, scale=2.0)
    first, second = own(ROWS), own(ROWS)
    assert first.update.tolist() == second.update.tolist() == [6.0, 8.0]


def test_a_class_of_rules_is_the_rule_itself() -> None:
    own = rule("First", num_byzantine=1, weight=2.0)
    assert loaded(own) == First(num_byzantine=1, weight=2.0)
    assert own(ROWS).update.tolist() == Median()(ROWS).update.tolist()
    assert own(ROWS).attributed
    assert loaded(rule("an_object")) == Median(num_byzantine=2)


def test_a_wrapper_takes_one_inside() -> None:
    name = f"nnm+{HERE}:trimmed"
    own = RULES.build(name, num_byzantine=1)
    assert RULES.name(own) == name
    assert RULES.from_table(RULES.to_table(own)) == own
    assert not own(ROWS).attributed
    inside = loaded(RULES.build(f"nnm+{HERE}:First", num_byzantine=1))
    assert [type(each).__name__ for each in inside.chain()] == ["NearestNeighborMixing", "First"]
    assert own(ROWS).update.tolist() == RULES.build("nnm+trimmed-mean", num_byzantine=1)(ROWS).update.tolist()


def test_a_table_and_the_rule_are_the_same() -> None:
    table = {"import": f"{HERE}:trimmed", "num_byzantine": 5, "share": 0.5, "words": ["a", "b"]}
    own = RULES.from_table(table)
    assert RULES.to_table(own) == table
    assert own == RULES.build(f"{HERE}:trimmed", num_byzantine=5, share=0.5, words=("a", "b"))
    assert eval(repr(own), {"ImportedRule": ImportedRule}) == own  # noqa: S307  the repr is the code that builds it
    assert RULES.to_table(First(num_byzantine=2)) == {"import": f"{HERE}:First", "num_byzantine": 2}


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("of_torch", {}, r"got a tuple of 2; of torch's own, such as median\(0\), take \.values"),
        ("too_short", {}, r"one number for each of the 2 columns, got shape \(1,\)"),
        ("not_finite", {}, "must return finite numbers, got NaN or Inf in 2 of 2 numbers"),
        ("failing", {}, "failed on 5 x 2 updates with ZeroDivisionError: no 5$"),
        ("words", {}, "must return a tensor or an array of real numbers, got str"),
        ("negative", {}, "must return finite weights from 0 on, not all 0; got"),
        ("numpys", {}, r"to be given an array, write `updates: np\.ndarray` for its first parameter"),
    ],
)
def test_what_a_function_returns_is_looked_at(name: str, parameters: dict[str, object], said: str) -> None:
    with pytest.raises(OwnCodeError, match=said):
        rule(name, **parameters)(ROWS)
    with pytest.raises(ParameterError, match=f"tried on random numbers, {HERE}:{name}"):
        ImportedRule(import_path=f"{HERE}:{name}").try_on(5, 2)


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("nothing", {}, f"{HERE} has no 'nothing'"),
        ("mediam", {}, "did you mean 'median'"),
        ("wants_more", {}, "takes 'radius', which it was not given: write radius = … beside its import path"),
        ("trimmed", {"shaer": 1.0}, "takes no 'shaer', did you mean 'share'"),
        ("takes_nothing", {}, "must take the updates, a matrix with one row for each client, first"),
        ("not_callable", {}, "must be a function of the updates, a class of such, or of Aggregator, got int"),
        ("an_object", {"share": 1.0}, "is an object and takes no 'share'; name its class, Median"),
        ("First", {"num_byzantine": 1, "wieght": 1.0}, "no parameter 'wieght', did you mean 'weight'"),
        ("Nearest", {"num_byzantine": 1, "scael": 1.0}, "takes no 'scael', did you mean 'scale'"),
        ("median", {"share": {"import": "a"}}, "the import path of the rule is written"),
    ],
)
def test_what_cannot_be_called_says_why(name: str, parameters: dict[str, object], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        rule(name, **parameters).load()  # type: ignore[attr-defined]


def test_paths_that_are_none_are_refused_without_being_looked_for() -> None:
    for path in ("my_rules", "my_rules:", ":median", "my rules:median", "os:system(1)"):
        with pytest.raises((ParameterError, UnknownNameError), match=r"is written 'package.module:attribute'|unknown"):
            RULES.build(path)
    with pytest.raises(UnknownNameError, match="did you mean 'my_rules:median'"):
        RULES.build("my_rules.median")
    with pytest.raises(ParameterError, match="one of name and import"):
        RULES.from_table({"name": "krum", "import": "a:b"})
    with pytest.raises(ParameterError, match="an argument is a number, a word, true, false, or a list of such"):
        RULES.build("a:b", what=object())


def test_a_cohort_needs_an_honest_majority() -> None:
    with pytest.raises(CohortTooSmallError, match="needs at least 7"):
        rule("median", num_byzantine=3)(ROWS)


def test_what_stands_for_a_rule_is_one() -> None:
    assert RULES.of(own_code.median) == rule("median")
    assert RULES.of("median") == Median()
    assert RULES.of(Median) == RULES.of(Median()) == Median()
    assert RULES.of(own_code.Nearest) == rule("Nearest")
    assert RULES.of(3) == 3


def test_what_cannot_be_written_down_says_why() -> None:
    def inner(updates: torch.Tensor) -> torch.Tensor:
        return updates.mean(0)

    for value, said in [
        (lambda updates: updates.mean(0), "it is a lambda; define it with a name"),
        (inner, "defined inside 'test_what_cannot_be_written_down_says_why'"),
        (own_code.Nearest(1), "is neither a function nor a class; name what makes it"),
    ]:
        with pytest.raises(ParameterError, match=said):
            RULES.of(value)
        here = RULES.of(value, written=False)
        assert here(ROWS).update.shape == (2,)
        with pytest.raises(ParameterError, match="cannot be named by import"):
            RULES.to_table(here)


def test_what_a_program_defines_itself_cannot_be_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code.median, "__module__", "__main__")
    with pytest.raises(ParameterError, match="'median' is defined in the program that runs, or in a notebook"):
        RULES.of(own_code.median)


def test_making_one_executes_nothing() -> None:
    own = RULES.from_table({"import": "no_such_module:rule", "num_byzantine": 2, "share": 0.5})
    assert own.assumed_byzantine(10) == 2
    assert repr(own) == "ImportedRule(import_path='no_such_module:rule', num_byzantine=2, share=0.5)"
    assert {*own.claims(), *own.all_needs()} == set()
    assert Claim.HULL in own.breaks()
    with pytest.raises(ParameterError, match="there is no module 'no_such_module'"):
        own(ROWS)


def test_a_method_written_in_c_is_a_rule_like_any_function() -> None:
    found = RULES.of(torch.Tensor.mean, written=False)
    assert found.import_path.endswith(":Tensor.mean") or found.import_path == "builtins:TensorBase.mean"
