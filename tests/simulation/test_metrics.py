"""Metrics in runs: over all test points at once, written only if they are asked for."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, r2_score
from tests.simulation.small import classes, config, numbers, played

from steadfed.errors import ParameterError
from steadfed.models import ImportedModel
from steadfed.server._record import RoundRecord
from steadfed.simulation import Evaluation, Federation, _evaluation, _reading


def test_metrics_are_of_all_test_points_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = played(config(metrics=("usual",)))[1]
    monkeypatch.setattr(_evaluation, "_BATCH", 3)
    cut = played(config(metrics=("usual",)))[1]
    for one, other in zip(cut, whole, strict=True):
        assert one.test_metrics == pytest.approx(other.test_metrics, abs=1e-6)
    assert set(whole[0].test_metrics) == {"balanced_accuracy", "worst_class_recall", "f1_macro", "auroc"}


def test_a_metric_of_a_run_is_that_of_its_model() -> None:
    what, data = config(metrics=("balanced_accuracy",)), classes()
    states, records = played(what, data)
    module = what.model.build(data, what.seed).double()
    with Federation(what, dataset=data) as federation:
        federation.setting.layout.load(module, states[-1].model, states[-1].buffers)
    said = module(data.test_features.double()).argmax(1)
    assert records[-1].test_metrics["balanced_accuracy"] == pytest.approx(
        balanced_accuracy_score(data.test_labels, said)
    )


def test_a_run_of_numbers_has_metrics_of_numbers() -> None:
    model = ImportedModel(factory="tests.simulation.modules:straight", criterion="half-squares")
    what, data = config(metrics=("usual", "rmse"), model=model, rounds=2, lr=0.05), numbers()
    states, records = played(what, data)
    assert list(records[-1].test_metrics) == ["r2", "mae", "rmse"]
    module = what.model.build(data, what.seed).double()
    with Federation(what, dataset=data) as federation:
        federation.setting.layout.load(module, states[-1].model, states[-1].buffers)
    said = module(data.test_features.double()).detach()
    assert records[-1].test_metrics["r2"] == pytest.approx(r2_score(data.test_labels, said))
    assert records[-1].test_accuracy is None


def test_records_without_metrics_are_as_they_were() -> None:
    (_, plain), (_, measured) = played(config()), played(config(metrics=("auroc",)))
    assert not any("test_metrics" in record.to_line() for record in plain)
    assert [each.model_copy(update={"test_metrics": {}, "seconds": {}}) for each in measured] == [
        each.model_copy(update={"seconds": {}}) for each in plain
    ]
    assert [RoundRecord.from_line(each.to_line()) for each in measured] == measured


def test_metrics_are_looked_at_in_rounds_with_an_evaluation() -> None:
    records = played(config(metrics=("f1_macro",), evaluation=Evaluation(every=2)))[1]
    assert [bool(record.test_metrics) for record in records] == [False, True, True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": ("r2",)}, "'r2' is for regression"),
        ({"metrics": ("f1",)}, "the data have 3"),
        ({"metrics": ("auroc",), "evaluation": Evaluation(test_points=0)}, "metrics look at test points"),
        ({"task": "regression"}, "task is 'regression', and the labels of small have 3 classes"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_before_the_first_round(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Federation(config(**changes), dataset=classes())


def test_scores_of_too_many_points_are_refused_with_the_number_that_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reading, "MOST_SCORES", 30)
    with pytest.raises(ParameterError, match=r"evaluation\.test_points to at most 10 points, got 20"):
        Federation(config(metrics=("auroc",)), dataset=classes())
    assert played(config(metrics=("f1_macro",)))[1][0].test_metrics
    fewer = config(metrics=("auroc",), evaluation=Evaluation(test_points=10))
    assert played(fewer)[1][0].test_metrics


def test_tokens_of_a_text_are_points_of_their_own() -> None:
    reader = _reading.OutputReader(task="classification", num_classes=3, scores=True)
    labels = torch.tensor([[0, 1], [2, 1]])
    read = _reading.Outputs(reader, labels)
    read.add(torch.eye(3)[labels], 0)
    found = read.predictions()
    assert found.scores is not None
    assert (found.predicted.tolist(), found.targets.tolist()) == ([0, 1, 2, 1], [0, 1, 2, 1])
    assert found.scores.shape == (4, 3)
