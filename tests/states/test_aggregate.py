"""State dicts in, a state dict out: nothing that a client sends ends the round, and what comes out is a model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from tests.oracles.states import aggregated
from tests.states.models import BAD, NAMES, SECRET, UNUSUAL, State, honest, inference, reference, replies
from torch import Tensor, nn

from steadfed import (
    CenteredClipping,
    FlTrust,
    Krum,
    Mean,
    Median,
    Rage,
    ServerView,
    TrimmedMean,
    aggregate_state_dicts,
)
from steadfed._core.rng import stream
from steadfed.errors import DtypeError, MissingKnowledgeError, ParameterError
from steadfed.server import Fate
from steadfed.states import StateRound

RULE = Rage(num_byzantine=2)


def like(new: State, model: State) -> None:
    """Refuse a state that does not look like the model."""
    assert list(new) == list(model)
    for name, value in model.items():
        assert type(new[name]) is (Tensor if isinstance(value, Tensor) else np.ndarray)
        assert (new[name].shape, new[name].dtype) == (value.shape, value.dtype), name
        assert np.isfinite(np.asarray(new[name].double() if isinstance(value, Tensor) else new[name])).all()


def same(one: State, other: State) -> bool:
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", BAD)
def test_a_reply_that_is_no_model_counts_as_byzantine_and_nothing_else_happens(kind: str) -> None:
    fault, make = BAD[kind]
    good = replies()
    found = aggregate_state_dicts(reference(), good | {"site-3": make(good["site-3"])}, RULE)
    assert found.skipped is None
    like(found.state, reference())
    assert found.fates["site-3"] is Fate.MALFORMED
    assert found.dropped["site-3"].startswith(f"{fault}: ")
    assert len(found.dropped["site-3"]) < 350
    assert found.weights["site-3"] == 0.0
    assert str(SECRET)[:6] not in repr(found) + found.record.to_line()
    assert "tensor(" not in found.dropped["site-3"]
    without = aggregate_state_dicts(
        reference(),
        {name: reply for name, reply in good.items() if name != "site-3"},
        Rage(num_byzantine=1),
        view=ServerView(cohort_size=8),
    )
    assert all(torch.allclose(found.state[name], without.state[name], atol=1e-6) for name in found.state)


@pytest.mark.parametrize("kind", UNUSUAL)
def test_a_reply_that_is_stored_in_an_unusual_way_is_a_model_all_the_same(kind: str) -> None:
    good = replies()
    sent = UNUSUAL[kind](good["site-3"])
    plain = {
        name: value.detach().resolve_neg().numpy() if isinstance(value, Tensor) else value
        for name, value in sent.items()
    }
    plain = {name: torch.from_numpy(value.copy()) for name, value in plain.items()}
    found = aggregate_state_dicts(reference(), good | {"site-3": sent}, Mean())
    assert not found.dropped
    assert same(found.state, aggregate_state_dicts(reference(), good | {"site-3": plain}, Mean()).state)


def test_every_bad_reply_at_once_leaves_the_reference_as_it_is_and_says_why() -> None:
    good = replies()
    bad = {kind: make(good["site-0"]) for kind, (_, make) in BAD.items()}
    found = aggregate_state_dicts(reference(), good | bad, RULE)
    assert same(found.state, reference())
    assert found.skipped == (
        f"{len(bad)} of {len(bad) + 8} updates are unusable, more than the 2 clients assumed to be Byzantine"
    )
    assert found.aggregation is None
    assert set(found.weights.values()) == {0.0}
    assert found.record.assumption_violated
    assert not found.removed
    assert {name for name, fate in found.fates.items() if fate is Fate.MALFORMED} == set(bad)
    assert {found.fates[name] for name in good} == {Fate.SKIPPED}


def test_nobody_and_too_few_leave_the_reference_too() -> None:
    assert aggregate_state_dicts(reference(), {}, RULE).skipped == "no client sent an update"
    few = aggregate_state_dicts(reference(), replies(names=NAMES[:3]), RULE)
    assert few.skipped is not None
    assert "needs at least 5 updates" in few.skipped
    assert same(few.state, reference())


def test_a_model_that_would_not_be_finite_is_not_taken() -> None:
    huge = {"w": torch.full((2,), 3e38)}
    found = aggregate_state_dicts(
        huge, {name: {"w": torch.full((2,), 1e38)} for name in "ab"}, Mean(), kind="difference"
    )
    assert found.skipped is not None
    assert same(found.state, huge)


@pytest.mark.parametrize("lie", [-20.0, 1e6])
def test_a_liar_is_removed_and_the_layers_say_where_it_deviates(lie: float) -> None:
    good = replies()
    good["site-5"] = {**good["site-5"], "0.bias": reference()["0.bias"] + lie}
    found = aggregate_state_dicts(reference(), good, Rage(num_byzantine=1))
    assert found.removed == ("site-5",)
    assert next(iter(found.layers["site-5"])) == "0.bias"
    assert found.layers["site-5"]["0.bias"] > 0.99
    assert sum(found.layers["site-5"].values()) == pytest.approx(1.0, abs=1e-5)
    (deviation,) = found.record.deviations
    assert deviation.client == "site-5"
    assert set(deviation.layers) <= set(found.layers["site-5"])
    assert repr(found) == (
        "StateAggregation(7 arrays, {'site-0': kept, 'site-1': kept, 'site-2': kept, 'site-3': kept, 'site-4': kept, "
        "'site-5': removed, 'site-6': kept, 'site-7': kept})"
    )


@pytest.mark.parametrize("rule", [RULE, Median(), Krum(num_byzantine=2), TrimmedMean(num_byzantine=1), Mean()])
@pytest.mark.parametrize("kind", ["weights", "difference"])
def test_the_new_model_is_what_the_definition_says(rule: Any, kind: Any) -> None:
    model, sent = reference(), replies()
    told = sent
    if kind == "difference":
        told = {name: {key: reply[key] - model[key] for key in model} for name, reply in sent.items()}
    found = aggregate_state_dicts(model, told, rule, kind=kind, view=ServerView(secret=7))
    expected = aggregated(model, told, rule, kind=kind)
    for name in model:
        torch.testing.assert_close(found.state[name], expected[name], rtol=0, atol=2e-6)


@given(st.permutations(NAMES), st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_the_order_of_replies_does_not_matter(order: list[str], number: int) -> None:
    rule = (RULE, Median(), Krum(num_byzantine=2), CenteredClipping(radius=1.0))[number]
    sent = replies() | {"site-2": None, "site-6": {name: value * 9 for name, value in honest(6).items()}}
    one = aggregate_state_dicts(reference(), sent, rule, view=ServerView(secret=1))
    other = aggregate_state_dicts(reference(), {name: sent[name] for name in order}, rule, view=ServerView(secret=1))
    assert same(one.state, other.state)
    assert one.record.model_copy(update={"drops": ()}) == other.record.model_copy(update={"drops": ()})
    assert (one.weights, one.fates, one.dropped, one.layers) == (
        other.weights,
        other.fates,
        other.dropped,
        other.layers,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_model_keeps_its_dtypes(dtype: torch.dtype) -> None:
    model = reference(dtype)
    found = aggregate_state_dicts(model, replies(model), RULE)
    assert not found.dropped
    like(found.state, model)
    expected = aggregated(model, replies(model), RULE)
    for name in model:
        torch.testing.assert_close(found.state[name], expected[name], rtol=torch.finfo(dtype).eps, atol=1e-6)
    assert found.aggregation is not None
    assert found.aggregation.update.dtype == (torch.float64 if dtype is torch.float64 else torch.float32)


@pytest.mark.parametrize("sent", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("wanted", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_only_with_conversion_other_floats_are_taken(sent: torch.dtype, wanted: torch.dtype) -> None:
    model = reference(wanted)
    told = {name: {key: value.to(sent) if key[0] != "1" else value for key, value in reply.items()}
            for name, reply in replies(model).items()}  # fmt: skip
    plain = aggregate_state_dicts(model, told, RULE)
    assert (len(plain.dropped) == 8) == (sent != wanted)
    converted = aggregate_state_dicts(model, told, RULE, convert_dtypes=True)
    assert not converted.dropped
    like(converted.state, model)
    numpy = {name: {key: (value.float() if value.dtype == torch.bfloat16 else value).numpy()
             for key, value in reply.items()} for name, reply in told.items()}  # fmt: skip
    assert same(aggregate_state_dicts(model, numpy, RULE, convert_dtypes=True).state, converted.state)


@pytest.mark.parametrize(("dtype", "largest"), [(torch.float16, 65504.0), (torch.bfloat16, 3.3895313892515355e38)])
def test_what_a_narrow_dtype_cannot_hold_is_not_finite_in_a_reply_and_the_largest_in_the_model(
    dtype: torch.dtype, largest: float
) -> None:
    model = {"w": torch.zeros(2, dtype=dtype)}
    beyond = {"w": torch.tensor([largest, 1.1 * largest], dtype=torch.float64)}
    found = aggregate_state_dicts(model, {"a": beyond, "b": model}, Mean(), convert_dtypes=True)
    assert found.dropped == {"a": "not finite: array 'w': every number must be finite, got NaN or Inf"}
    near = {"w": torch.full((2,), largest / 2, dtype=dtype)}
    start = {"w": torch.full((2,), largest, dtype=dtype)}
    if dtype is torch.float16:
        moved = aggregate_state_dicts(start, {"a": near}, Mean(), kind="difference")
        assert moved.state["w"].tolist() == [largest, largest]


def test_arrays_of_numpy_come_out_as_arrays_of_numpy() -> None:
    model = {name: value.numpy() for name, value in reference().items()}
    found = aggregate_state_dicts(model, replies(), RULE)
    like(found.state, model)
    tensors = aggregate_state_dicts(reference(), replies(), RULE)
    assert all((found.state[name] == tensors.state[name].numpy()).all() for name in model)


def test_nothing_that_was_handed_over_is_changed_or_shared() -> None:
    model, sent = reference(), replies()
    model |= {"3.numpy": np.ones(3, np.float32), "4.counts": np.arange(3)}
    sent = {
        name: {**reply, "3.numpy": np.ones(3, np.float32), "4.counts": np.arange(3)} for name, reply in sent.items()
    }
    sent["site-2"] = model  # the reference itself, as a reply
    sent["site-4"] = sent["site-3"]  # and one reply of two clients
    before = copy.deepcopy((model, sent))
    for rule, kind in ((RULE, "weights"), (Mean(), "difference"), (Krum(num_byzantine=9), "weights")):
        found = aggregate_state_dicts(model, sent, rule, kind=kind)  # type: ignore[arg-type]
        handed = [*model.values(), *(value for reply in sent.values() for value in reply.values())]
        places = {np.asarray(value).__array_interface__["data"][0] for value in handed}
        assert not places & {np.asarray(value).__array_interface__["data"][0] for value in found.state.values()}
        for value in found.state.values():
            value[...] = 3
        for name, value in before[0].items():
            assert (model[name] == value).all()
        for client, reply in before[1].items():
            assert all((sent[client][name] == value).all() for name, value in reply.items())


def test_a_reference_that_asks_for_gradients_gives_plain_tensors() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    state = model.state_dict(keep_vars=True)
    sent = {name: {key: value.detach() for key, value in state.items()} for name in NAMES}
    found = aggregate_state_dicts(state, sent, RULE)
    assert not any(value.requires_grad for value in found.state.values())
    model.load_state_dict(found.state)


def test_the_order_of_memory_is_that_of_the_reference() -> None:
    model = {"w": torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last), "i": inference()}
    found = aggregate_state_dicts(model, {"a": {"w": torch.ones(2, 3, 4, 5), "i": torch.ones(4, 3)}}, Mean())
    assert found.state["w"].stride() == model["w"].stride()
    assert found.state["w"].eq(1).all()


def test_statistics_and_counters_are_medians_and_no_variance_becomes_negative() -> None:
    sent = replies()
    for place, name in enumerate(NAMES):
        lie = place >= 6
        sent[name] |= {
            "1.running_mean": torch.full((4,), 1e30 if lie else float(place)),
            "1.running_var": torch.full((4,), -5.0 if lie else 2.0),
            "1.num_batches_tracked": torch.tensor(2**63 - 1 if lie else 10 * place),
        }
    found = aggregate_state_dicts(reference(), sent, RULE)
    assert found.state["1.running_mean"].tolist() == [3.5] * 4
    assert found.state["1.running_var"].tolist() == [2.0] * 4
    assert found.state["1.num_batches_tracked"].tolist() == 30  # the lower of 30 and 40
    all_lie = {name: {**reply, "1.running_var": torch.full((4,), -5.0)} for name, reply in sent.items()}
    assert aggregate_state_dicts(reference(), all_lie, RULE).state["1.running_var"].tolist() == [1.0] * 4


def test_what_is_a_buffer_is_the_operators_choice_and_no_rule_sees_it() -> None:
    model = {"w": torch.zeros(2), "ema.w": torch.zeros(2)}
    sent = {name: {"w": torch.full((2,), float(place)), "ema.w": torch.full((2,), float(place**2))}
            for place, name in enumerate("abcde")}  # fmt: skip
    found = aggregate_state_dicts(model, sent, Mean(), buffers=["ema.*"])
    assert found.aggregation is not None
    assert found.aggregation.update.tolist() == [-2.0, -2.0]
    assert found.state["ema.w"].tolist() == [4.0, 4.0]


def test_differences_of_buffers_are_differences_and_lies_about_them_overflow_alone() -> None:
    model = {"w": torch.zeros(2), "running_var": torch.tensor([2.0]), "n": torch.tensor([5], dtype=torch.uint8),
             "m": torch.tensor([True]), "i": torch.tensor(7)}  # fmt: skip
    moved = {"w": torch.ones(2), "running_var": torch.tensor([-0.5]), "n": torch.tensor([3], dtype=torch.uint8),
             "m": torch.tensor([False]), "i": torch.tensor(2)}  # fmt: skip
    liar = {"w": torch.ones(2), "running_var": torch.tensor([3e38]), "n": torch.tensor([255], dtype=torch.uint8),
            "m": torch.tensor([True]), "i": torch.tensor(2**63 - 1)}  # fmt: skip
    found = aggregate_state_dicts(model, {"a": moved, "b": moved, "c": liar}, Median(), kind="difference")
    assert {name: value.tolist() for name, value in found.state.items()} == {
        "w": [1.0, 1.0], "running_var": [1.5], "n": [8], "m": [False], "i": 9,
    }  # fmt: skip


def test_a_part_of_a_model_is_aggregated_like_a_whole_one_and_unequal_ranks_are_refused_by_name() -> None:
    base = "base_model.model.layers.0.q_proj"

    def adapter(rank: int) -> State:
        return {f"{base}.lora_A.weight": torch.ones(rank, 6), f"{base}.lora_B.weight": torch.zeros(5, rank)}

    sent = {name: adapter(4) for name in NAMES} | {"Ulm": adapter(8)}
    found = aggregate_state_dicts(adapter(4), sent, RULE)
    assert found.dropped == {
        "Ulm": f"shape: array '{base}.lora_A.weight': the shape must be (4, 6), got (8, 6): an adapter of rank 8 in "
        "place of 4, and adapters of unequal rank have no average"
    }
    wider = {**adapter(4), f"{base}.lora_A.weight": torch.ones(4, 7)}
    assert aggregate_state_dicts(adapter(4), sent | {"Ulm": wider}, RULE).dropped["Ulm"].endswith("got (4, 7)")
    other = {**adapter(4), f"{base}.lora_B.weight": torch.ones(5, 2)}
    assert "rank 2 in place of 4" in aggregate_state_dicts(adapter(4), {"Ulm": other}, Mean()).dropped["Ulm"]


def test_rules_that_remember_get_their_memory_back() -> None:
    rule, model, view = CenteredClipping(radius=0.1), reference(), ServerView()
    for number in range(2):
        found = aggregate_state_dicts(model, replies(model), rule, view=view)
        assert found.aggregation is not None
        assert found.aggregation.memory
        assert found.record.round == number
        view, model = ServerView(round=number + 1, memory=found.aggregation.memory), found.state


def test_rules_that_need_what_the_server_trusts_say_so_and_get_it() -> None:
    with pytest.raises(MissingKnowledgeError, match=r"pass view=ServerView\(trusted_row=...\)"):
        aggregate_state_dicts(reference(), replies(), FlTrust())
    trusted = StateRound(reference(), NAMES).update_of(honest(99))
    found = aggregate_state_dicts(reference(), replies(), FlTrust(), view=ServerView(trusted_row=trusted))
    assert found.skipped is None


def test_who_was_silent_counts_for_a_fraction() -> None:
    rule = Rage(byzantine_fraction=0.25)
    sent = replies() | dict.fromkeys("abc")
    assert aggregate_state_dicts(reference(), sent, rule).skipped is None  # 3 of 11
    assert aggregate_state_dicts(reference(), sent | {"d": None}, rule).skipped is not None  # 4 of 12
    asked = ServerView(cohort_size=16)
    assert aggregate_state_dicts(reference(), sent | {"d": None}, rule, view=asked).skipped is None


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"reference": [torch.ones(2)]}, ParameterError, "the reference must be a dict of arrays by name, got 'list'"),
        ({"reference": {}}, ParameterError, "at least one parameter"),
        ({"reference": {"w": 3.0}}, ParameterError, "the array 'w' of the model must be a plain tensor or numpy array"),
        ({"reference": {3: torch.ones(2)}}, ParameterError, "names of a model's arrays must be text, got 'int'"),
        ({"reference": {"w": torch.tensor([SECRET, torch.nan])}}, ParameterError, "'w' of the model has NaN or Inf"),
        ({"reference": {"w": torch.ones(2, device="meta")}}, ParameterError, "on the device meta"),
        ({"reference": {"w": torch.ones(2).to_sparse()}}, ParameterError, "a dense tensor is needed"),
        ({"reference": {"w": torch.ones(2, dtype=torch.complex64)}}, DtypeError, "'w' of the model is complex64"),
        ({"reference": {"w": torch.ones(2).to(torch.float8_e5m2)}}, DtypeError, "bfloat16, float32, float64"),
        ({"reference": {"w": torch.tensor([1, 2])}}, ParameterError, "at least one parameter"),
        ({"replies": [honest(0)]}, ParameterError, "replies must be a dict of what each client sent, by name"),
        ({"replies": {(1, 2): honest(0)}}, ParameterError, "text or a whole number, got 'tuple'"),
        ({"replies": {1: honest(0), "1": honest(1)}}, ParameterError, "a name of its own, got '1' more than once"),
        ({"rule": Rage}, ParameterError, r"the rule must be one such as Rage\(num_byzantine=1\), got 'ModelMetaclass'"),
        ({"rule": "rage"}, ParameterError, "got 'str'"),
        ({"view": {"round": 3}}, ParameterError, "the view must be a ServerView, got 'dict'"),
        ({"buffers": "*mean"}, ParameterError, r"buffers must be a list of patterns for names of arrays, got '\*mean'"),
        ({"buffers": None}, ParameterError, "a list of patterns for names of arrays, got None"),
        ({"buffers": [3]}, ParameterError, r"a list of patterns for names of arrays, got \[3\]"),
        ({"kind": "gradients"}, ParameterError, "kind must be one of 'weights', 'difference', got 'gradients'"),
    ],
)  # fmt: skip
def test_what_the_operator_gets_wrong_is_said(change: dict[str, Any], error: type[Exception], words: str) -> None:
    asked: dict[str, Any] = {"reference": reference(), "replies": replies(), "rule": RULE}
    with pytest.raises(error, match=words) as caught:
        aggregate_state_dicts(**asked | change)
    assert str(SECRET)[:6] not in str(caught.value)


numbers = st.sampled_from([0.0, 1.0, -2.5, 1e20, -1e38, 3e38, float("nan"), float("inf"), 1e-45])
dtypes = st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool])
shapes = st.sampled_from([(), (1,), (2,), (0,), (2, 3), (3, 2), (6,)])


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    shape, dtype = draw(shapes), draw(dtypes)
    value = torch.full(shape, draw(numbers), dtype=torch.float64)
    if not dtype.is_floating_point:
        value = torch.nan_to_num(value).clamp(-1e9, 1e9)
    made = value.to(dtype)
    return made.numpy() if dtype is not torch.bfloat16 and draw(st.booleans()) else made


states = st.dictionaries(st.sampled_from(["a", "b", "running_var", "n"]), arrays(), max_size=4)
anything = st.none() | st.integers() | st.text(max_size=5) | st.lists(arrays(), max_size=2) | states


@given(states, st.dictionaries(st.sampled_from(NAMES), anything, max_size=7), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_is_sent_the_model_stays_finite_and_like_the_reference(
    model: State, sent: dict[str, Any], convert: bool, data: st.DataObject
) -> None:
    for name in data.draw(st.sets(st.sampled_from(NAMES))):
        sent[name] = copy.deepcopy(model)
    kind: Any = data.draw(st.sampled_from(["weights", "difference"]))
    rule = data.draw(st.sampled_from([Median(), Rage(num_byzantine=1), Mean(), Krum(num_byzantine=0)]))
    try:
        found = aggregate_state_dicts(model, sent, rule, kind=kind, convert_dtypes=convert)
    except (ParameterError, DtypeError) as error:
        assert "of the model" in str(error) or "at least one parameter" in str(error)  # noqa: PT017  the operator's own
        return
    assert list(found.state) == list(model)
    like(found.state, model)
    assert set(found.weights) == set(found.fates) == set(sent)
    assert sum(found.weights.values()) == pytest.approx(0.0 if found.skipped else 1.0)
    if found.skipped:
        assert all(
            np.array_equal(np.asarray(_plain(found.state[name])), np.asarray(_plain(model[name]))) for name in model
        )


def _plain(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype is torch.bfloat16 else value


def test_one_seed_gives_the_same_bits_whatever_else_the_process_did() -> None:
    draw = stream(5, "states")
    model = {"w": torch.from_numpy(draw.standard_normal(1000)).float()}
    sent = {name: {"w": model["w"] + torch.from_numpy(draw.standard_normal(1000)).float()} for name in NAMES}
    one, other = (aggregate_state_dicts(model, sent, RULE) for _ in range(2))
    assert one.state["w"].numpy().tobytes() == other.state["w"].numpy().tobytes()
    assert one.record.to_line() == other.record.to_line()
