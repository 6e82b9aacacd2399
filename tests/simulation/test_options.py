"""What goes beyond the paper, against the formulas written out: momentum, decay, clipping, buffers, randomness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.simulation.small import bits, classes, config, played, same_bits
from torch import Tensor
from torch.nn.functional import cross_entropy

from steadfed._core.rng import stream
from steadfed.aggregators import Mean, Rage
from steadfed.attacks import FixedMembers, NotANumber, SignFlip
from steadfed.models import ImportedModel, MultilayerPerceptron
from steadfed.simulation import ClientOptions, Federation, RunConfig, ServerOptions
from steadfed.simulation._batches import batches
from steadfed.simulation._cohorts import ListedCohorts, RoundRobinCohorts

NORMALISED = ImportedModel(factory="tests.simulation.modules:normalised")
DROPPING = ImportedModel(factory="tests.simulation.modules:dropping")


def gradient(x: Tensor, points: np.ndarray[Any, Any]) -> Tensor:
    """Return the gradient of softmax regression over some points."""
    data, at = classes(), x.clone().requires_grad_()
    outputs = data.features[points].double() @ at[:15].view(3, 5).T + at[15:]
    return torch.autograd.grad(cross_entropy(outputs, data.labels[points]), at)[0]


def by_hand(what: RunConfig) -> list[Tensor]:
    """Return the models of a run of softmax regression with every option, written out."""
    shares = what.partition.split(classes(), what.seed)
    x, velocity = torch.zeros(18).double(), torch.zeros(18).double()
    kept = {client: torch.zeros(18).double() for client in range(shares.num_clients)}
    models, options = [x], what.client
    for number in range(what.rounds):
        rows = []
        for client in what.cohorts.cohort(number, shares.num_clients, what.cohort_size, what.seed).tolist():
            own = shares.points(client)
            drawn = batches(
                what.seed, number, np.array([client]), np.array([len(own)]), steps=what.steps_of(number), batch_size=4
            )[0]
            x_r = x
            for step in drawn:
                g = gradient(x_r, own[step]) + options.weight_decay * x_r
                if options.clip is not None:
                    g = g * min(1.0, options.clip / float(g.norm()))
                kept[client] = options.momentum * kept[client] + g
                x_r = x_r - what.lr * kept[client]
            rows.append((x - x_r) / what.lr)
        velocity = what.server.momentum * velocity + torch.stack(rows).mean(0)
        x = x - what.lr * velocity
        models.append(x)
    return models


@pytest.mark.parametrize("engine", ["stacked", "vmap", "loop"])
@pytest.mark.parametrize(
    ("client", "server"),
    [
        ({"momentum": 0.8}, {}),
        ({"weight_decay": 0.3}, {}),
        ({"clip": 0.2}, {}),
        ({}, {"momentum": 0.7}),
        ({"momentum": 0.5, "weight_decay": 0.1, "clip": 0.3}, {"momentum": 0.4}),
    ],
)
def test_options_are_their_formulas(client: dict[str, float], server: dict[str, float], engine: str) -> None:
    what = config(
        rounds=5, lr=0.3, cohort_size=5, client=ClientOptions(**client), server=ServerOptions(**server), engine=engine
    )
    states, _ = played(what)
    for state, model in zip(states, by_hand(what), strict=True):
        torch.testing.assert_close(state.model, model, rtol=1e-10, atol=1e-10)
    plain, _ = played(config(rounds=5, lr=0.3, cohort_size=5, engine=engine))
    assert not torch.allclose(plain[-1].model, states[-1].model, atol=1e-4)


def test_a_client_keeps_its_momentum_until_its_next_round() -> None:
    what = config(cohorts=RoundRobinCohorts(), cohort_size=6, rounds=3, client=ClientOptions(momentum=0.9))
    with Federation(what, dataset=classes()) as federation:
        state = federation.start()
        kept = []
        for _ in range(3):
            state, _ = federation.play(state)
            momentum = federation.client_momentum
            assert momentum is not None
            kept.append(momentum.clone())
        assert kept[0][:6].any(dim=1).all()
        assert not kept[0][6:].any()
        assert torch.equal(kept[1][:6], kept[0][:6]), "they were not there"
        assert not torch.equal(kept[2][:6], kept[0][:6])
        assert torch.equal(kept[2][6:], kept[1][6:])


def test_starting_again_starts_without_momentum() -> None:
    what = config(client=ClientOptions(momentum=0.9))
    with Federation(what, dataset=classes()) as federation:
        first = federation.play(federation.start())[0]
        again = federation.play(federation.start())[0]
    assert torch.equal(first.model, again.model)


def test_a_checkpoint_holds_the_momentum_of_those_who_have_some_and_gives_it_back() -> None:
    what = config(cohorts=ListedCohorts(rounds=((3, 5),)), cohort_size=2, client=ClientOptions(momentum=0.9))
    with Federation(what, dataset=classes()) as federation:
        momentum = federation.client_momentum
        assert momentum is not None
        empty = federation.checkpoint(federation.start())
        state, _ = federation.play(federation.start())
        checkpoint, kept = federation.checkpoint(state), momentum.clone()
        assert checkpoint.tensors["clients/who"].tolist() == [3, 5]
        assert checkpoint.tensors["clients/momentum"].shape == (2, 18)
        momentum.fill_(9.0)
        found = federation.restore(checkpoint)
        assert torch.equal(momentum, kept)
        assert (found.round, found.extra) == (1, {})
        assert torch.equal(found.model, state.model)
        federation.restore(empty)
        assert not momentum.any()


@pytest.mark.portable
def test_momentum_is_the_same_for_any_number_of_processes() -> None:
    what = config(client=ClientOptions(momentum=0.9), rounds=4)
    assert same_bits(played(what), played(what, jobs=3))


@pytest.mark.parametrize(("dtype", "expected"), [("float32", torch.float32), ("float64", torch.float64)])
def test_everything_is_computed_in_the_dtype_asked_for(dtype: str, expected: torch.dtype) -> None:
    with Federation(config(dtype=dtype), dataset=classes()) as federation:
        state, _ = federation.play(federation.start())
        assert state.model.dtype == expected
        assert federation._pool.matrix.dtype == expected  # noqa: SLF001
        assert federation.setting.train.features.dtype == expected


def test_float32_follows_float64() -> None:
    exact = played(config(rounds=5))[0][-1].model
    rough = played(config(rounds=5, dtype="float32"))[0][-1].model
    torch.testing.assert_close(rough.double(), exact, rtol=1e-4, atol=1e-5)
    assert not torch.equal(rough.double(), exact)


def test_running_means_are_the_median_of_the_clients() -> None:
    cohort = ListedCohorts(rounds=((0, 1, 2),))
    what = config(model=NORMALISED, cohorts=cohort, rounds=1, local_steps=1, batch_size="full")
    states, _ = played(what)
    shares, data = what.partition.split(classes(), what.seed), classes()
    module = what.model.build(data, what.seed).double()
    weight, bias = (each.detach() for each in list(module.parameters())[:2])
    hidden = [data.features[shares.points(r)].double() @ weight.T + bias for r in range(3)]
    means = torch.stack([0.1 * each.mean(0) for each in hidden])
    variances = torch.stack([0.9 + 0.1 * each.var(0) for each in hidden])
    expected = torch.cat([means.median(0).values, variances.median(0).values])
    torch.testing.assert_close(states[1].buffers, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("attack", [NotANumber(), SignFlip(factor=1e6)])
def test_running_means_stay_sound_whoever_lies(attack: Any) -> None:
    what = config(
        model=NORMALISED,
        cohort_size=12,
        rounds=6,
        attack=attack,
        byzantine=FixedMembers(clients=(0, 5, 7)),
        rule=Rage(num_byzantine=3),
    )
    states, records = played(what)
    for state in states:
        assert bool(torch.isfinite(state.buffers).all())
        assert bool((state.buffers[6:] > 0.0).all()), "variances"
    assert not torch.equal(states[0].buffers, states[-1].buffers)
    assert all(record.test_loss is not None for record in records)


def test_counts_of_batches_are_no_part_of_a_row() -> None:
    what = config(model=NORMALISED)
    with Federation(what, dataset=classes()) as federation:
        layout = federation.setting.layout
        assert [place.name for place in layout.buffers] == ["1.running_mean", "1.running_var"]
        assert layout.buffer_dim == 12
        state, _ = federation.play(federation.start())
        assert state.buffers.dtype == torch.float64


@pytest.mark.portable
@pytest.mark.parametrize("model", [NORMALISED, DROPPING])
def test_modules_with_buffers_or_dropout_are_the_same_for_any_number_of_processes(model: ImportedModel) -> None:
    what = config(model=model, rounds=3)
    once = played(what)
    assert same_bits(once, played(what))
    assert same_bits(once, played(what, jobs=2))


def test_dropout_draws_anew_in_every_round_and_leaves_torch_alone() -> None:
    what = config(model=DROPPING, rounds=2, batch_size="full", cohorts=ListedCohorts(rounds=((0,),)), lr=1e-9)
    before = torch.random.get_rng_state()
    states, _ = played(what)
    assert torch.equal(before, torch.random.get_rng_state())
    moves = [(states[n + 1].model - states[n].model) * 1e9 for n in range(2)]
    assert not torch.allclose(moves[0], moves[1], atol=1e-3), "the same points, other neurons"


def test_the_seed_decides_everything() -> None:
    what = config(model=MultilayerPerceptron(hidden=(4,)))
    assert same_bits(played(what), played(what))
    other, _ = played(what.model_copy(update={"seed": 1}))
    assert all(not torch.equal(one, two) for one, two in zip(bits(played(what)[0]), bits(other), strict=True))


def test_a_global_random_state_changes_nothing() -> None:
    what = config(model=MultilayerPerceptron(hidden=(4,)))
    first = played(what)
    torch.rand(3)
    stream(0, "unrelated").random(5)
    assert same_bits(first, played(what))
    assert isinstance(what.rule, Mean)


@pytest.mark.parametrize("factory", ["hooked", "sharing", "Tempered"])
@pytest.mark.parametrize("engine", ["auto", "vmap"])
def test_unusual_modules_are_trained_as_they_compute(factory: str, engine: str) -> None:
    model = ImportedModel(factory=f"tests.simulation.modules:{factory}")
    looped, _ = played(config(model=model, engine="loop"))
    states, _ = played(config(model=model, engine=engine))
    assert not torch.equal(looped[0].model, looped[-1].model)
    assert torch.allclose(looped[-1].model, states[-1].model, rtol=0.0, atol=1e-12)
