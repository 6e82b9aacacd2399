"""What every model keeps, and what each one is."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
import tomli_w
import torch
from tests.models.points import numbers, points, texts
from torch import nn

from steadfed.data._base import Dataset
from steadfed.errors import DataError, ParameterError, UnknownNameError
from steadfed.models import (
    MODELS,
    Architecture,
    ConvolutionalNetwork,
    GatedRecurrent,
    ImportedModel,
    LinearRegression,
    LogisticRegression,
    LongShortTermMemory,
    MultilayerPerceptron,
    PerceptronRegression,
    Quadratic,
    RemoteModel,
    ResidualNetwork,
    SoftmaxRegression,
)
from steadfed.models._layout import Layout
from steadfed.partitions._base import Shares
from steadfed.simulation._engines.loop import LoopEngine
from steadfed.simulation._local import Chunk, ClientData, LocalSteps, TrainingTask

VARIANTS: list[tuple[Architecture, Dataset]] = [
    (LogisticRegression(), points(4, num_classes=2)),
    (LogisticRegression(bias=False, l2=0.01), points(4, num_classes=2, dtype=torch.float64)),
    (SoftmaxRegression(), points(1, 3, 3)),
    (SoftmaxRegression(bias=False), points(5)),
    (MultilayerPerceptron(), points(1, 4, 4)),
    (MultilayerPerceptron(hidden=(7,)), points(5, dtype=torch.float64)),
    (MultilayerPerceptron(hidden=()), points(5)),
    (ConvolutionalNetwork(channels=(4, 6), hidden=9), points(1, 8, 8)),
    (ConvolutionalNetwork(kernel_size=5, channels=(3, 4), hidden=9), points(3, 9, 7)),
    (ResidualNetwork(depth=8, width=4, groups=2), points(3, 8, 8)),
    (GatedRecurrent(hidden=12, layers=1), texts()),
    (LongShortTermMemory(hidden=12, embedding=4), texts()),
    (Quadratic(strong_convexity=0.5, smoothness=2.0), numbers()),
    (Quadratic(l2=0.1), numbers(1)),
    (LinearRegression(), numbers()),
    (LinearRegression(criterion="huber", delta=0.5, bias=False), numbers()),
    (PerceptronRegression(hidden=(7,)), numbers(dtype=torch.float64)),
    (PerceptronRegression(criterion="huber"), numbers()),
    (ImportedModel(factory="tests.models.factories:fitted"), points(4)),
    (ImportedModel(factory="tests.models.factories:fixed"), points(4)),
    (ImportedModel(factory="tests.models.factories:normalised"), points(4, dtype=torch.float64)),
    (ImportedModel(factory="tests.models.factories:fitted", criterion="half-squares"), numbers()),
    (ImportedModel(factory="tests.models.factories:fitted", criterion="tests.models.factories:LOSS"), numbers()),
]
EVERY = pytest.mark.parametrize(("model", "dataset"), VARIANTS, ids=[str(model) for model, _ in VARIANTS])


def mean_loss(model: Architecture, module: nn.Module, dataset: Dataset) -> float:
    with torch.no_grad():
        return model.loss().mean(module(dataset.features), dataset.labels).item()


@EVERY
def test_steps_of_the_loop_make_the_loss_smaller(model: Architecture, dataset: Dataset) -> None:
    module = model.build(dataset, seed=0)
    layout = Layout.of(module)
    start = layout.parameters_of(module, next(module.parameters()).dtype)
    buffers = layout.buffers_of(module, start.dtype)
    before = mean_loss(model, module, dataset)
    shares = Shares(np.arange(24), np.array([0, 24]))
    data = ClientData(
        dataset.features, dataset.labels, dataset.num_classes, shares, torch.from_numpy(shares.order), None, 0
    )
    task = TrainingTask(module, layout, model.loss(), model.l2, LocalSteps(steps=3, batch_size="full"), data, 0)
    rows, buffer_rows = start[None].clone(), buffers[None].clone()
    chunk = Chunk(0, 0.05, 3, np.array([0]), np.array([False]))
    LoopEngine(task).train(rows, chunk, buffers=buffer_rows if buffers.numel() else None)
    trained = model.build(dataset, seed=0)
    layout.load(trained, rows[0], buffer_rows[0])
    assert mean_loss(model, trained.train(), dataset) < before
    assert torch.isfinite(rows).all()


@EVERY
def test_weights_come_from_the_seed_and_torchs_generator_is_left_alone(model: Architecture, dataset: Dataset) -> None:
    state = torch.get_rng_state()
    one, same, other = (model.build(dataset, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    if not isinstance(model, (LinearRegression, LogisticRegression, SoftmaxRegression, Quadratic)):
        assert not all(torch.equal(one[name], other[name]) for name in one)


@EVERY
def test_outputs_have_the_shape_of_the_loss_and_the_dtype_of_the_points(model: Architecture, dataset: Dataset) -> None:
    outputs = model.build(dataset, seed=0)(dataset.features)
    assert outputs.shape == (24, *model.loss().output_shape(dataset))
    assert outputs.dtype == (dataset.features.dtype if dataset.features.is_floating_point() else torch.float32)


def test_every_model_is_tried_and_says_where_it_comes_from() -> None:
    assert {type(model) for model, _ in VARIANTS} == set(MODELS.values()) - {RemoteModel}
    assert list(MODELS) == sorted(MODELS)
    for kind in MODELS.values():
        assert kind.citation
        assert ">>>" in str(kind.__doc__)
        assert kind.model_json_schema()["type"] == "object"


@pytest.mark.parametrize(
    ("model", "shape", "num_classes", "expected"),
    [
        (SoftmaxRegression(), (1, 28, 28), 10, 7850),
        (LogisticRegression(), (123,), 2, 124),
        (LogisticRegression(bias=False), (123,), 2, 123),
        (MultilayerPerceptron(), (1, 28, 28), 10, 784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10),
        (MultilayerPerceptron(hidden=(25,)), (1, 28, 28), 10, 19_885),
        (ConvolutionalNetwork(), (1, 28, 28), 10, 421_642),
        (ConvolutionalNetwork(), (1, 8, 8), 10, 53_002),
        (ConvolutionalNetwork(kernel_size=5, hidden=512), (1, 28, 28), 10, 1_663_370),
        (ResidualNetwork(), (3, 32, 32), 10, 269_722),
        (Quadratic(), (7,), 2, 7),
    ],
    ids=str,
)
def test_parameters_are_as_many_as_known(
    model: Architecture, shape: tuple[int, ...], num_classes: int, expected: int
) -> None:
    module = model.build(points(*shape, num_classes=num_classes, num_points=num_classes), seed=0)
    assert Layout.of(module).dim == expected
    assert Layout.of(module).buffer_dim == 0


def test_perceptrons_are_plain_stacks() -> None:
    module = MultilayerPerceptron(hidden=(7, 6)).build(points(5), seed=0)
    assert isinstance(module, nn.Sequential)
    assert [type(part) for part in module] == [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]


@pytest.mark.parametrize("kind", [LogisticRegression, SoftmaxRegression, Quadratic])
def test_convex_models_start_at_zero(kind: type[Architecture]) -> None:
    module = kind().build(points(4, num_classes=2), seed=3)
    assert all(not parameter.any() for parameter in module.parameters())


def test_residual_blocks_start_near_the_identity_of_their_shortcut() -> None:
    module = ResidualNetwork(depth=8, width=4, groups=2).build(points(3, 8, 8), seed=0)
    block = module.get_submodule("4")  # the first that halves the image
    images = torch.rand(2, 4, 8, 8)
    for parameter in block.parameters():
        nn.init.zeros_(parameter)
    outputs = block(images)
    assert torch.equal(outputs[:, 2:6], images[:, :, ::2, ::2])
    assert not outputs[:, :2].any()


def test_quadratics_have_the_objective_they_say() -> None:
    dataset = numbers(3, dtype=torch.float64)
    model = Quadratic(strong_convexity=0.5, smoothness=8.0)
    module = model.build(dataset, seed=0)
    w = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    with torch.no_grad():
        next(module.parameters()).copy_(w)
    literal = sum(
        0.5 * (curvature * (w[j] - point[j]) ** 2).item()
        for point in dataset.features
        for j, curvature in enumerate((0.5, 2.0, 8.0))
    )
    assert mean_loss(model, module, dataset) == pytest.approx(literal / 24)


@pytest.mark.parametrize(
    ("model", "dataset", "said"),
    [
        (ConvolutionalNetwork(), points(4), r"cnn takes images, .* a point of points has shape \(4,\) of float32"),
        (ConvolutionalNetwork(), points(1, 3, 8), r"sides of at least 4; a point of points has shape \(1, 3, 8\)"),
        (ResidualNetwork(), points(8, 8), r"resnet takes images, .* shape \(8, 8\)"),
        (MultilayerPerceptron(), texts(), r"mlp takes points of floats; a point of texts has shape \(8,\) of int64"),
        (SoftmaxRegression(), numbers(), "cross-entropy needs classes, and the labels of numbers are none"),
        (LogisticRegression(), points(4), "the logistic loss needs two classes, points has 3 classes"),
        (
            GatedRecurrent(),
            points(4),
            r"gru takes texts, one row of int64 tokens per point; .* shape \(4,\) of float32",
        ),
        (LongShortTermMemory(), numbers(), "lstm takes texts"),
        (Quadratic(), texts(), "quadratic takes points of floats"),
    ],
    ids=str,
)
def test_data_that_do_not_fit_are_refused(model: Architecture, dataset: Dataset, said: str) -> None:
    with pytest.raises(DataError, match=said):
        model.build(dataset, seed=0)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"factory": "tests.models.factories:fitte"}, "has no 'fitte', did you mean 'fitted'"),
        ({"factory": "tests.models.factories:greedy"}, "must take nothing or the data set, it takes one, two"),
        ({"factory": "tests.models.factories:failing"}, "failing failed with RuntimeError: out of luck"),
        ({"factory": "tests.models.factories:no_module"}, r"must return a torch.nn.Module, got str"),
        (
            {"factory": "tests.models.factories:NUMBER"},
            "^tests.models.factories:NUMBER must be a function or a class, got int",
        ),
        ({"factory": "tests.models.factories:fixed"}, r"points of shape \(2, 5\) fail with RuntimeError"),
        ({"factory": "tests.models.factories:Pair"}, "the module must return a tensor, got tuple"),
        ({"factory": "torch.nn:Identity"}, r"outputs of shape \(2, 5\), the loss takes \(2, 3\)"),
        ({"factory": "torch.nn:Identity", "criterion": "crossentropy"}, "unknown loss 'crossentropy', did you mean"),
        ({"factory": "torch.nn:Identity", "criterion": "tests.models.factories:NUMBER"}, "must be a .*Loss, got int"),
    ],
    ids=str,
)
def test_imported_models_that_do_not_work_say_why(parameters: dict[str, str], said: str) -> None:
    with pytest.raises((ParameterError, DataError, UnknownNameError), match=said):
        ImportedModel(**parameters).build(points(5), seed=0)


def test_trying_an_imported_model_leaves_its_buffers_and_mode() -> None:
    module = ImportedModel(factory="tests.models.factories:normalised").build(points(4), seed=0)
    assert module.training
    assert not module.state_dict()["0.running_mean"].any()


@EVERY
def test_tables_and_reprs_give_the_same_model_back(model: Architecture, dataset: Dataset) -> None:
    assert MODELS.from_table(tomllib.loads(tomli_w.dumps(MODELS.to_table(model)))) == model
    assert eval(repr(model), {kind.__name__: kind for kind in MODELS.values()}) == model  # noqa: S307  our own repr
    assert MODELS[MODELS.name(model)] is type(model)


def test_a_model_that_no_memory_holds_is_refused() -> None:
    model = MultilayerPerceptron(hidden=(10**13, 2))  # more bytes than a process has addresses
    with pytest.raises(
        ParameterError, match=r"hidden=.* does not fit into memory: one of its tensors takes [\d,.]+ GiB"
    ):
        model.build(points(4), 0)


def test_wrong_names_and_parameters_are_refused() -> None:
    with pytest.raises(
        UnknownNameError, match="unknown model 'logistic-regresion', did you mean 'logistic-regression'"
    ):
        MODELS.build("logistic-regresion")
    with pytest.raises(
        ParameterError, match="kernel_size: input should be odd, so that an image keeps its size, got 4"
    ):
        MODELS.build("cnn", kernel_size=4)
    with pytest.raises(ParameterError, match=r"depth must be 6 n \+ 2, .*, got 18"):
        MODELS.build("resnet", depth=18)
    with pytest.raises(ParameterError, match="groups must divide the width 16, got 5"):
        MODELS.build("resnet", groups=5)
    with pytest.raises(ParameterError, match=r"strong_convexity must be at most smoothness = 1.0, got 2.0"):
        MODELS.build("quadratic", strong_convexity=2)
    with pytest.raises(ParameterError, match="l2: input should be greater than or equal to 0, got -1"):
        MODELS.build("mlp", l2=-1)
