"""Metrics against scikit-learn's, and where these are not defined or others take another number for the right one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn import metrics as sklearn

from steadfed._core.rng import stream
from steadfed.errors import ParameterError, UnknownNameError
from steadfed.metrics import METRICS, Metric, Predictions, asked_metrics, checked_metrics, metric_named, name_of
from steadfed.metrics._naming import _USUAL

CLASSES = sorted(name for name, each in METRICS.items() if each.tasks == {"classification"} and each.points == "test")
"""Those of test points: of others, such as an attack's, scikit-learn knows nothing."""
NUMBERS = sorted(name for name, each in METRICS.items() if each.tasks == {"regression"})


def of_classes(num_points: int, num_classes: int, *, seed: int = 0, ties: bool = False) -> Predictions:
    """Return scores that know a little, and classes of which the last are rare."""
    generator = stream(seed, "test-metrics", num_points, num_classes)
    rates = 2.0 ** -np.arange(num_classes)
    targets = generator.choice(num_classes, size=num_points, p=rates / rates.sum())
    scores = generator.standard_normal((num_points, num_classes)) + 1.2 * np.eye(num_classes)[targets]
    tensor = torch.from_numpy(np.round(scores) if ties else scores)
    return Predictions(
        task="classification",
        predicted=tensor.argmax(1),
        targets=torch.from_numpy(targets),
        num_classes=num_classes,
        scores=tensor,
    )


def expected(name: str, given: Predictions) -> float:
    """Return what scikit-learn says."""
    true, said = given.targets.numpy(), given.predicted.numpy()
    assert given.scores is not None
    scores = given.scores.numpy()
    if name in {"auroc", "average_precision"}:
        function = sklearn.roc_auc_score if name == "auroc" else sklearn.average_precision_score
        if given.num_classes == 2:
            return float(function(true == 1, scores[:, 1] - scores[:, 0]))
        classes = [each for each in range(scores.shape[1]) if 0 < (true == each).sum() < len(true)]
        return float(np.mean([function(true == each, scores[:, each]) for each in classes]))
    recalls = sklearn.recall_score(true, said, average=None, labels=np.unique(true))
    return float(
        {
            "accuracy": lambda: sklearn.accuracy_score(true, said),
            "attack_success_rate": lambda: sklearn.accuracy_score(true, said),  # targets are the adversary's wishes
            "balanced_accuracy": recalls.mean,
            "worst_class_recall": recalls.min,
            "f1_macro": lambda: sklearn.f1_score(true, said, average="macro"),
            "f1": lambda: sklearn.f1_score(true, said),
            "precision": lambda: sklearn.precision_score(true, said),
            "recall": lambda: sklearn.recall_score(true, said),
        }[name]()
    )


SIZES = [(4_000, 2), (60, 2), (3_000, 5), (40, 7)]
"""Points and classes."""


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name in CLASSES for size in SIZES if size[1] == 2 or not METRICS[name].two_classes],
)
@pytest.mark.parametrize("ties", [False, True])
def test_metrics_of_classes_are_those_of_scikit_learn(name: str, size: tuple[int, int], *, ties: bool) -> None:
    metric, given = METRICS[name](), of_classes(*size, ties=ties)
    tolerance = 1e-6 if metric.needs_scores else 1e-15
    assert metric.value(given) == pytest.approx(expected(name, given), abs=tolerance, rel=0.0)


def test_a_model_that_always_names_the_larger_class_has_97_percent_accuracy_and_half_of_balanced_accuracy() -> None:
    targets = (torch.arange(1_000) < 30).long()
    told = Predictions(
        task="classification",
        predicted=torch.zeros(1_000, dtype=torch.int64),
        targets=targets,
        num_classes=2,
        scores=torch.zeros(1_000, 2),
    )
    found = {name: METRICS[name]().value(told) for name in CLASSES}
    assert (found["accuracy"], found["balanced_accuracy"], found["auroc"]) == (0.97, 0.5, 0.5)
    assert (found["recall"], found["f1"], found["worst_class_recall"], found["precision"]) == (0.0, 0.0, 0.0, None)
    assert found["average_precision"] == pytest.approx(0.03)


def test_classes_without_a_point_are_left_out_even_if_they_were_named() -> None:
    told = Predictions(
        task="classification",
        predicted=torch.tensor([0, 2, 1, 1]),
        targets=torch.tensor([0, 0, 1, 1]),
        num_classes=3,
    )
    assert METRICS["balanced_accuracy"]().value(told) == 0.75
    assert METRICS["worst_class_recall"]().value(told) == 0.5


def test_scores_far_from_zero_keep_their_order() -> None:
    scores = torch.tensor([40.0, 50.0, 60.0, 70.0])
    told = Predictions(
        task="classification",
        predicted=torch.ones(4, dtype=torch.int64),
        targets=torch.tensor([0, 1, 0, 1]),
        num_classes=2,
        scores=torch.stack([torch.zeros(4), scores], dim=1),
    )
    assert METRICS["auroc"]().value(told) == pytest.approx(0.75)


def test_scores_that_are_no_numbers_have_no_order() -> None:
    scores = torch.tensor([[0.0, 1.0], [0.0, torch.nan], [1.0, 0.0]])
    told = Predictions(
        task="classification", predicted=scores.argmax(1), targets=torch.tensor([1, 0, 0]), num_classes=2, scores=scores
    )
    assert METRICS["auroc"]().value(told) is None


@pytest.mark.parametrize("name", ["auroc", "average_precision"])
def test_the_order_of_one_class_alone_says_nothing(name: str) -> None:
    told = Predictions(
        task="classification",
        predicted=torch.ones(4, dtype=torch.int64),
        targets=torch.ones(4, dtype=torch.int64),
        num_classes=2,
        scores=torch.rand(4, 2),
    )
    assert METRICS[name]().value(told) is None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-6, 1.0, 1e6]), st.integers(1, 3))
def test_metrics_of_numbers_are_those_of_scikit_learn(seed: int, scale: float, width: int) -> None:
    generator = stream(seed, "test-numbers")
    targets = scale * (5.0 + generator.standard_normal((50, width)))
    said = targets + 0.3 * scale * generator.standard_normal((50, width))
    told = Predictions(task="regression", predicted=torch.from_numpy(said), targets=torch.from_numpy(targets))
    assert METRICS["r2"]().value(told) == pytest.approx(sklearn.r2_score(targets, said), rel=1e-9)
    assert METRICS["mae"]().value(told) == pytest.approx(sklearn.mean_absolute_error(targets, said), rel=1e-9)
    wanted = float(np.sqrt(np.mean(np.square(targets - said))))
    assert METRICS["rmse"]().value(told) == pytest.approx(wanted, rel=1e-9)


def test_nothing_is_explained_of_labels_that_do_not_vary() -> None:
    told = Predictions(task="regression", predicted=torch.rand(5, 1), targets=torch.ones(5, 1))
    assert METRICS["r2"]().value(told) is None


def test_predictions_that_are_not_finite_give_no_number_that_looks_like_one() -> None:
    told = Predictions(task="regression", predicted=torch.full((5, 1), torch.inf), targets=torch.rand(5, 1))
    found = [METRICS[name]().value(told) for name in NUMBERS]
    assert all(value is None or not np.isfinite(value) for value in found)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_says_what_it_is(name: str) -> None:
    metric = metric_named(name)
    assert metric.title
    assert metric.meaning
    assert metric.tasks
    assert name_of(name) == name


def test_usual_metrics_suit_their_task() -> None:
    for task, names in _USUAL.items():
        assert list(asked_metrics(["usual"], task, 5 if task == "classification" else None)) == list(names)
    with pytest.raises(ParameterError, match="set task"):
        asked_metrics(["usual"], None, None)


def test_what_is_written_anyway_is_not_computed_twice() -> None:
    assert list(asked_metrics(["accuracy", "loss", "f1"], "classification", 2)) == ["f1"]


@pytest.mark.parametrize(
    ("name", "task", "num_classes", "message"),
    [
        ("r2", "classification", 2, "'r2' is for regression, and the task of this run is classification"),
        ("auroc", "regression", None, "'auroc' is for classification, and the task of this run is regression"),
        ("f1", "classification", 10, "'f1' speaks of the class 1 of two classes, the data have 10"),
        ("mae", None, None, "has neither classes nor numbers to predict"),
    ],
)
def test_a_metric_that_says_nothing_about_the_data_is_refused(
    name: str, task: str | None, num_classes: int | None, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        asked_metrics([name], task, num_classes)  # type: ignore[arg-type]


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown metric 'balanced-accuracy', did you mean 'balanced_accuracy'"):
        checked_metrics(["balanced-accuracy"])
    with pytest.raises(ValueError, match="one name in records"):
        checked_metrics(["a.b:mean", "c:mean"])
    with pytest.raises(ParameterError, match="rename it"):
        checked_metrics(["ours:f1"])
    assert checked_metrics("auroc") == ("auroc",)
    assert checked_metrics(["f1", "f1"]) == ("f1",)


def test_a_function_of_ones_own_is_a_metric() -> None:
    told = Predictions(task="regression", predicted=torch.zeros(3), targets=torch.ones(3))
    assert metric_named("torch:dist").value(told) == pytest.approx(3**0.5)
    assert isinstance(metric_named("steadfed.metrics:RSquared"), METRICS["r2"])
    assert isinstance(metric_named("torch:dist"), Metric)
    with pytest.raises(ParameterError, match="did you mean"):
        metric_named("torch:disst")
    with pytest.raises(ParameterError, match="failed with"):
        metric_named("torch:rand").value(told)
    with pytest.raises(ParameterError, match="must be a function or a Metric, got float"):
        metric_named("torch:pi")
