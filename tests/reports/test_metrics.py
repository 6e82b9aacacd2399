"""Metrics and single clients in reports, on the command line and in exports: one run with a lost class for all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.commands import run as command
from tests.reports.test_sections import panel_of

from steadfed import run
from steadfed.aggregators import Krum
from steadfed.data import LogisticPoints
from steadfed.exports._figures import ExportedRun
from steadfed.models import LogisticRegression
from steadfed.partitions import NaturalPartition
from steadfed.reports._reporting import report_of
from steadfed.reports._sections.groups import false_positives_by_group
from steadfed.reports._sections.metrics import beside_accuracy, hidden_by_accuracy
from steadfed.reports._sections.overview import overview
from steadfed.reports._sections.served import served
from steadfed.reports._sections.verdict import headlines, verdict
from steadfed.reports.panels import Lines, Table, Text, Tone
from steadfed.runs._check import check
from steadfed.server import RoundRecord, RunHistory
from steadfed.server._history import Rounds
from steadfed.simulation import Evaluation, RunConfig

CONFIG = RunConfig(
    rounds=9,
    cohort_size=6,
    lr=0.2,
    data=LogisticPoints(
        num_points=600, num_test_points=400, num_groups=6, heterogeneity=0.2, positive_rate=0.03, label_noise=0.0
    ),
    partition=NaturalPartition(),
    model=LogisticRegression(),
    rule=Krum(num_byzantine=1),
    metrics=("usual", "tests.simulation.modules:mistakes"),
    evaluation=Evaluation(every=3, client_scores="all"),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metrics") / "lost"
    run(CONFIG, folder)
    return folder


@pytest.fixture
def history(path: Path) -> RunHistory:
    return RunHistory(path)


def test_metrics_are_columns_by_their_names(history: RunHistory) -> None:
    assert history["accuracy"][-1] == history["test_accuracy"][-1] == 0.97
    assert history["balanced_accuracy"][-1] == 0.5
    assert history.rounds.asked_metrics == ["balanced_accuracy", "worst_class_recall", "f1_macro", "auroc", "mistakes"]
    assert np.isfinite(history["client_worst"]).sum() == 3
    assert history.summary["metrics"]["worst_class_recall"] == 0.0


def test_a_report_says_that_accuracy_hides_a_class(history: RunHistory) -> None:
    found = beside_accuracy([history])
    assert found is not None
    assert "balanced accuracy, in which every class counts the same, only 50.0 %" in str(hidden_by_accuracy(history))
    assert panel_of(found, "hidden-class", Text).tone is Tone.WARNING
    shares = panel_of(found, "metrics", Lines)
    assert [each.name for each in shares.series][:2] == ["accuracy", "balanced accuracy"]
    assert panel_of(found, "own-metric-1", Lines).title == "Mistakes over the rounds"
    (card,) = (each for each in headlines([history]) if each.title == "Balanced accuracy")
    assert (card.value, card.tone) == ("50.0 %", Tone.WARNING)
    assert any("Accuracy hides a class" in each for each in verdict([history]).panels[0].paragraphs)  # type: ignore[attr-defined]


def test_several_runs_have_a_panel_for_each_metric(history: RunHistory) -> None:
    found = beside_accuracy([history, history])
    assert found is not None
    assert [panel.key for panel in found.panels] == [
        "hidden-class",
        *(f"metric-{name}" for name in ("balanced-accuracy", "worst-class-recall", "f1-macro", "auroc")),
        "own-metric-5",
    ]


def test_a_report_says_for_whom_the_model_is_good_and_who_pays(history: RunHistory) -> None:
    found = served([history])
    assert found is not None
    table = panel_of(found, "client-score-table", Table)
    scores = history.rounds.client_scores
    assert scores is not None
    assert [row[1] for row in table.rows] == sorted(scores.by_client.values())
    judged = {line.client: line for line in history.rounds.clients}
    for row in table.rows:
        line = judged[int(str(row[0]).removeprefix("client "))]
        assert row[2:] == (line.honest_against / line.honest_judged, line.honest_judged)
    (told,) = panel_of(found, "who-pays", Text).paragraphs
    assert "of the honest updates of a client were removed" in told
    assert panel_of(found, "client-scores", Lines).series
    assert panel_of(found, "who-pays-map", Lines).series[0].x == tuple(sorted(row[2] for row in table.rows))  # type: ignore[type-var]


def test_false_positives_are_counted_by_group(history: RunHistory) -> None:
    data = CONFIG.data.load()
    table = false_positives_by_group(history, data, CONFIG.partition.split(data, CONFIG.seed), "groups", "")
    assert table is not None
    owners = [row for row in table.rows if row[0] == "owner"]
    assert [row[1] for row in owners] == [f"owner {place}" for place in range(6)]
    assert sum(row[4] for row in owners) == history.tally.honest_removed  # type: ignore[misc]
    assert {row[0] for row in table.rows} == {"owner"}  # all are of one size and hold class 0 most


def test_the_whole_report_is_made_with_all_of_it(history: RunHistory) -> None:
    keys = {panel.key for section in report_of([history], guarantee=False).sections for panel in section.panels}
    assert {"hidden-class", "metrics", "who-pays", "client-score-table", "groups"} <= keys


def test_show_tells_metrics_and_single_clients(path: Path, history: RunHistory) -> None:
    facts = {str(name): str(said) for name, said in overview(history).rows}
    assert "balanced accuracy 50.0 %, recall of the worst class 0.0 %" in facts["metrics on test"]
    assert "worst client" in facts["single clients"]
    assert '"client_scores": {"metric": "accuracy"' in command("show", str(path), "--json")


def test_exports_have_metrics_by_name(path: Path) -> None:
    *_, last = ExportedRun(path).rounds()
    assert last.figures["test/balanced_accuracy"] == 0.5
    assert {"clients/score_mean", "clients/score_worst_tenth", "clients/score_worst"} <= last.figures.keys()


def test_runs_without_metrics_have_no_sections_for_them(tmp_path: Path) -> None:
    plain = CONFIG.model_copy(update={"metrics": (), "evaluation": Evaluation(), "rounds": 1})
    run(plain, tmp_path / "plain")
    history = RunHistory(tmp_path / "plain")
    assert beside_accuracy([history]) is None
    assert served([history]) is None
    assert "metrics" not in history.summary


def test_checking_warns_of_accuracy_alone_where_one_class_is_nearly_all() -> None:
    plain = CONFIG.model_copy(update={"metrics": (), "evaluation": Evaluation()})
    assert any("97.0 % of the test labels are of class 0" in each for each in check(plain).warnings)
    assert not any("test labels" in each for each in check(CONFIG).warnings)


def test_metrics_are_listed() -> None:
    listed = command("list", "metrics")
    assert "balanced_accuracy" in listed
    assert "lower is better" in " ".join(command("list", "metrics", "mae").split())


def test_a_metric_that_was_never_defined_is_a_column_of_gaps() -> None:
    record = RoundRecord(round=0, step=1, lr=0.1, cohort=(1,), test_loss=0.5, test_metrics={"precision": None})
    rounds = Rounds.of([record])
    assert rounds.asked_metrics == ["precision"]
    assert np.isnan(rounds["precision"]).all()
