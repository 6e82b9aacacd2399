"""Scores of single clients: against a model asked about each client's points, one client after the other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.simulation.small import classes, config, numbers, played

from steadfed.attacks import ChangingMembers, FixedMembers
from steadfed.data import Dataset, LinearPoints, from_tensors, with_test_owners
from steadfed.errors import DataError, ParameterError
from steadfed.metrics import METRICS, Predictions
from steadfed.models import LinearRegression
from steadfed.partitions import DirichletPartition, NaturalPartition
from steadfed.server._record import ClientScores, RoundRecord
from steadfed.simulation import Evaluation, Federation, RunConfig, ServerOptions

NATURAL = {"partition": NaturalPartition(), "cohort_size": 4}


def owned() -> Dataset:
    """Return points of ten owners, whose test points have owners but for the last, who has none."""
    data = classes()
    return with_test_owners(data, [f"{place % 9}" for place in range(len(data.test_labels))])


def said_by_the_last_model(what: RunConfig, data: Dataset) -> torch.Tensor:
    states, _ = played(what, data)
    module = what.model.build(data, what.seed).double()
    with Federation(what, dataset=data) as federation:
        federation.setting.layout.load(module, states[-1].model, states[-1].buffers)
    said: torch.Tensor = module(data.test_features.double())
    return said.detach()


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy"])
def test_a_client_with_test_points_of_its_own_is_scored_on_these(metric: str) -> None:
    data = owned()
    what = config(**NATURAL, evaluation=Evaluation(client_scores="all", client_metric=metric))
    scores = played(what, data)[1][-1].client_scores
    assert scores is not None
    assert scores.own_points
    said = said_by_the_last_model(what, data).argmax(1)
    assert data.test_groups is not None
    expected: list[float | None] = []
    for client in range(10):
        own = torch.from_numpy(data.test_groups == client)
        told = Predictions(task="classification", predicted=said[own], targets=data.test_labels[own], num_classes=3)
        expected.append(METRICS[metric]().value(told) if len(told) else None)
    assert list(scores.scores) == expected
    assert expected[-1] is None


def test_a_client_without_test_points_is_scored_by_the_classes_that_it_holds() -> None:
    data = classes()
    what = config(partition=DirichletPartition(num_clients=12, alpha=0.3), evaluation=Evaluation(client_scores="all"))
    scores = played(what, data)[1][-1].client_scores
    assert scores is not None
    assert not scores.own_points
    said = said_by_the_last_model(what, data).argmax(1)
    recalls = [float((said[data.test_labels == each] == each).double().mean()) for each in range(3)]
    shares = what.partition.split(data, what.seed)
    for client, score in scores.by_client.items():
        labels = data.labels[torch.from_numpy(shares.points(int(client)))]
        expected = sum(recalls[each] * float((labels == each).double().mean()) for each in range(3))
        assert score == pytest.approx(expected)


def test_a_client_that_holds_what_all_hold_has_the_accuracy_of_all() -> None:
    data = from_tensors(torch.rand(40, 5), torch.arange(40) % 2, torch.rand(20, 5), torch.arange(20) % 2)
    what = config(
        partition=DirichletPartition(num_clients=1, alpha=1.0), cohort_size=1, evaluation=Evaluation(client_scores=5)
    )
    record = played(what, data)[1][-1]
    assert record.client_scores is not None
    assert record.client_scores.scores[0] == pytest.approx(record.test_accuracy)


def test_only_honest_clients_are_scored_and_at_most_as_many_as_asked_for() -> None:
    liars = config(byzantine=FixedMembers(clients=(0, 6)), evaluation=Evaluation(client_scores="all"))
    records = played(liars)[1]
    found = records[0].client_scores
    assert found is not None
    assert found.clients == (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)
    few = played(config(evaluation=Evaluation(client_scores=3)))[1][0].client_scores
    assert few is not None
    assert few.clients == (0, 6, 11)
    moving = config(byzantine=ChangingMembers(fraction=0.5), evaluation=Evaluation(client_scores="all"))
    scored = [record.client_scores.clients for record in played(moving)[1] if record.client_scores is not None]
    assert all(len(each) == 6 for each in scored)
    assert len(set(scored)) > 1


def test_numbers_are_scored_by_their_error_and_the_largest_is_the_worst() -> None:
    data = LinearPoints(num_points=60, num_test_points=30, num_groups=6, dim=3).load()
    what = config(**NATURAL, model=LinearRegression(), evaluation=Evaluation(client_scores="all"))
    scores = played(what, data)[1][-1].client_scores
    assert scores is not None
    assert (scores.metric, scores.higher_is_better) == ("mae", False)
    assert scores.figures()["worst"] == max(scores.by_client.values())


def test_points_of_the_server_leave_clients_their_own() -> None:
    data = owned()
    what = config(**NATURAL, server=ServerOptions(trusted_points=20), evaluation=Evaluation(client_scores="all"))
    with Federation(what, dataset=data) as federation:
        scorer = federation.setting.scorer
        assert scorer is not None
        assert scorer.own is not None
        shares = federation.setting.client_shares
        assert data.groups is not None
        assert data.test_groups is not None
        for client, own in enumerate(scorer.own):
            owners = set(data.groups[shares.points(client)].tolist())
            assert len(owners) == 1
            assert set(data.test_groups[own].tolist()) <= owners


def test_scoring_changes_nothing_else() -> None:
    plain, scored = played(config()), played(config(evaluation=Evaluation(client_scores="all")))
    assert all(torch.equal(one.model, other.model) for one, other in zip(plain[0], scored[0], strict=True))
    assert [each.model_copy(update={"client_scores": None, "seconds": {}}) for each in scored[1]] == [
        each.model_copy(update={"seconds": {}}) for each in plain[1]
    ]
    assert [RoundRecord.from_line(each.to_line()) for each in scored[1]] == scored[1]


def test_what_the_scores_come_to() -> None:
    scores = tuple(place / 20 for place in range(1, 21))
    found = ClientScores(metric="accuracy", clients=tuple(range(20)), scores=scores).figures()
    assert found == {"mean": pytest.approx(0.525), "worst_tenth": pytest.approx(0.075), "worst": 0.05}
    errors = ClientScores(metric="mae", higher_is_better=False, clients=(1, 2, 3), scores=(0.1, 5.0, None))
    assert errors.worst_first == [(2, 5.0), (1, 0.1)]
    assert ClientScores(metric="accuracy").figures() == {}
    with pytest.raises(ParameterError, match="2 scores belong to 1 clients"):
        ClientScores(metric="accuracy", clients=(1,), scores=(0.1, 0.2))


@pytest.mark.parametrize(
    ("changes", "data", "message"),
    [
        ({"client_metric": "auroc"}, classes(), "without these a client has an accuracy, by the classes it holds"),
        ({"client_metric": "r2"}, classes(), "'r2' is for regression"),
        ({"client_metric": "client_worst"}, classes(), "comes with the scores of single clients"),
        ({"test_points": 0}, classes(), "there are none"),
    ],
)
def test_scores_that_are_not_defined_are_refused(changes: dict[str, str], data: Dataset, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Federation(config(evaluation=Evaluation(client_scores="all", **changes)), dataset=data)


def test_numbers_without_owners_have_no_scores() -> None:
    with pytest.raises(ParameterError, match="have no test points of their own"):
        Federation(config(model=LinearRegression(), evaluation=Evaluation(client_scores=3)), dataset=numbers())


def test_owners_of_test_points_are_those_of_training_points_and_others_are_nobody() -> None:
    data = from_tensors([[0.5], [1.0], [2.0]], [0, 1, 1], [[1.0], [3.0]], [0, 1], groups=["anna", "bert", "anna"])
    found = with_test_owners(data, ["bert", "carl"])
    assert found.test_groups is not None
    assert found.test_groups.tolist() == [1, -1]
    assert found.checksum == data.checksum
    with pytest.raises(DataError, match="2 test points have 1 owners"):
        with_test_owners(data, ["bert"])
    with pytest.raises(DataError, match="which have none"):
        with_test_owners(from_tensors([[0.5]], [0]), [0])
    assert np.array_equal(with_test_owners(data, np.array(["anna", "anna"])).test_groups, [0, 0])  # type: ignore[arg-type]
