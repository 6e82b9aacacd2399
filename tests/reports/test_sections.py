"""Sections: the numbers are those of the records, and what is not known is said, never shown as nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests import deployments
from tests.reports.made import folder, four

from steadfed.aggregators import Mean, Rage
from steadfed.attacks import SignFlip, Sleeper
from steadfed.reports._sections.certificate import broken_rounds, certificate
from steadfed.reports._sections.clients import chosen_clients, clients, suspicion_table
from steadfed.reports._sections.configuration import configuration
from steadfed.reports._sections.filtering import filtering
from steadfed.reports._sections.guarantee import guarantee
from steadfed.reports._sections.learning import learning
from steadfed.reports._sections.overview import overview
from steadfed.reports._sections.partition import partition
from steadfed.reports._sections.phrases import client_names, run_names
from steadfed.reports._sections.reproduce import reproduce
from steadfed.reports._sections.timing import timing
from steadfed.reports._sections.verdict import headlines, side_by_side, verdict
from steadfed.reports._thinning import PanelLimits
from steadfed.reports.panels import Bars, Code, HeatMap, Lines, Panel, Section, Series, Table, Text, Tone
from steadfed.server._history import RunHistory
from steadfed.server._record import RoundRecord
from steadfed.simulation import Evaluation

Kind = TypeVar("Kind", bound=Panel)


def panel_of(section: Section, key: str, kind: type[Kind]) -> Kind:
    """Return the panel with a key."""
    found = next(panel for panel in section.panels if panel.key == key)
    assert isinstance(found, kind)
    return found


def series_of(lines: Lines, name: str) -> Series:
    """Return the curve with a name."""
    return next(series for series in lines.series if series.name == name)


@pytest.fixture
def history(tmp_path: Path) -> RunHistory:
    """Return four rounds with a liar that is always removed, and an honest client that is removed in two."""
    folder(tmp_path / "rage", [four(number) for number in range(4)])
    return RunHistory(tmp_path / "rage")


@pytest.fixture
def deployed(tmp_path: Path) -> RunHistory:
    """Return a deployment."""
    deployments.deployment(tmp_path / "hospitals")
    return RunHistory(tmp_path / "hospitals")


def words(section: Section) -> str:
    return "\n".join(text for panel in section.panels if isinstance(panel, Text) for text in panel.paragraphs)


def test_the_tally_counts_rows(history: RunHistory) -> None:
    tally = history.tally
    assert (tally.judged, tally.byzantine, tally.byzantine_removed, tally.honest, tally.honest_removed) == (
        16,
        4,
        4,
        12,
        2,
    )
    assert (tally.precision, tally.recall, tally.byzantine_weight) == (4 / 6, 1.0, 0.0)


def test_the_verdict_says_how_far_an_adversary_with_a_goal_came(tmp_path: Path) -> None:
    rates = (0.0, 0.9, 0.4)
    records = [four(number, test_metrics={"attack_success_rate": rate}) for number, rate in enumerate(rates)]
    folder(tmp_path / "trigger", records)
    said = words(verdict([RunHistory(tmp_path / "trigger")]))
    assert "misjudged 40.0 % go to its target so far (most, 90.0 %, in round 1)." in said


def test_the_verdict_answers_the_questions(history: RunHistory) -> None:
    said = words(verdict([history]))
    assert "It learned: test accuracy went from 20.0 % after the first evaluation to 80.0 %." in said
    assert "1 of the 4 clients that took part were Byzantine; they attacked with sign-flip" in said
    assert "removed 4 of 4 Byzantine updates (100.0 %)" in said
    assert "False positives: 16.7 % of the honest updates were removed (2 of 12)." in said
    values = {headline.title: headline.value for headline in headlines([history])}
    assert values["Test accuracy in the end"] == "80.0 %"
    assert values["Honest updates removed"] == "16.7 %"
    assert values["Byzantine updates kept"] == "0.0 %"


def test_a_run_that_forgets_is_a_warning(tmp_path: Path) -> None:
    accuracies = (0.1, 0.9, 0.5, 0.3)
    folder(tmp_path / "mean", [four(number, test_accuracy=each) for number, each in enumerate(accuracies)])
    section = verdict([RunHistory(tmp_path / "mean")])
    assert "It learned and lost it again: test accuracy was 90.0 % in round 1 and is 30.0 % in the end." in words(
        section
    )
    assert panel_of(section, "verdict-1", Text).tone is Tone.WARNING


def test_a_deployment_is_never_said_to_have_no_byzantine_clients(deployed: RunHistory) -> None:
    said = words(verdict([deployed])) + str(headlines([deployed])) + str(filtering([deployed]))
    assert "Who was Byzantine is not known" in said
    assert "Nobody attacked" not in said
    assert "0 Byzantine" not in said
    assert "honest client" not in said.lower()
    assert "Byzantine updates kept" not in said
    assert not any(panel.key == "precision-recall" for panel in filtering([deployed]).panels)
    table = panel_of(clients([deployed]), "suspicion", Table)
    assert "Byzantine" not in [column.title for column in table.columns]
    assert table.flagged == ()


def test_curves_mark_the_start_of_the_attack(tmp_path: Path) -> None:
    attack = Sleeper(attack=SignFlip(), start=2)
    folder(tmp_path / "run", [four(number) for number in range(4)], attack=attack)
    lines = panel_of(learning([RunHistory(tmp_path / "run")]), "accuracy", Lines)
    assert [(mark.at, mark.text) for mark in lines.marks] == [(2.0, "attack starts")]


def test_rounds_without_evaluation_are_no_gaps_and_losses_that_are_not_finite_are(tmp_path: Path) -> None:
    records = [
        four(0),
        four(1, test_accuracy=None, test_loss=None),
        four(2, test_loss=math.nan),
        four(3),
    ]
    folder(tmp_path / "run", records)
    section = learning([RunHistory(tmp_path / "run")])
    assert panel_of(section, "accuracy", Lines).series[0].x == (0.0, 2.0, 3.0)
    loss = panel_of(section, "loss", Lines)
    assert (loss.series[0].x, loss.series[0].y) == ((0.0, 2.0, 3.0), (2.0, None, 0.5))
    assert "not finite" in loss.caption


def test_communication_adds_up_and_old_records_say_so(history: RunHistory, tmp_path: Path) -> None:
    lines = panel_of(learning([history]), "communication", Lines)
    assert lines.series[0].x == (500.0, 1000.0, 1500.0, 2000.0)
    folder(tmp_path / "old", [four(0, bytes_down=None, bytes_up=None)])
    assert "older version" in panel_of(learning([RunHistory(tmp_path / "old")]), "communication", Text).paragraphs[0]


def test_the_heat_map_shows_weights_and_says_why(history: RunHistory) -> None:
    weights = panel_of(clients([history]), "weights", HeatMap)
    assert weights.rows == ("client 3", "client 0", "client 1", "client 2")
    assert weights.values[0] == (0.0,) * 4
    assert weights.values[1] == pytest.approx((4 / 3, 0.0, 4 / 3, 0.0))
    assert weights.flagged == (0,)
    assert list(weights.orders) == ["most suspicious first", "by name", "Byzantine first"]
    assert weights.orders["by name"] == (1, 2, 3, 0)
    assert (
        weights.hover[0][0]
        == "removed; 3 standard deviations, median of the round 1.2\nthe spread is below the threshold"
    )
    scores = panel_of(clients([history]), "scores", HeatMap)
    assert scores.values[0][0] == 0.875
    assert "weight 0 (1 = equal share)" in scores.hover[0][0]


def test_reasons_of_clients_are_in_the_hover(deployed: RunHistory) -> None:
    weights = panel_of(clients([deployed]), "weights", HeatMap)
    row = weights.rows.index(deployments.BROKEN)
    assert "malformed reply" in weights.hover[row][0]
    assert "'weight' must be (3, 2), got (2, 3)" in weights.hover[row][0]
    assert deployments.NASTY not in weights.rows


def test_many_rounds_and_clients_fit_into_the_limits(tmp_path: Path) -> None:
    def record(number: int) -> RoundRecord:
        cohort = tuple((7 * number + each) % 50 for each in range(10))
        weights = tuple(0.0 if client == 49 else 0.1 for client in cohort)
        kept = tuple(client for client in cohort if client != 49)
        liars = tuple(client for client in cohort if client in {5, 49})
        return RoundRecord(
            round=number,
            step=number,
            lr=0.1,
            cohort=cohort,
            received=cohort,
            byzantine=liars,
            kept=kept,
            weights=weights,
        )

    folder(tmp_path / "run", map(record, range(1_000)), rounds=1_000)
    history = RunHistory(tmp_path / "run")
    weights = panel_of(clients([history], PanelLimits(rows=20, columns=100, cells=1_000)), "weights", HeatMap)
    assert len(weights.rows) == 20
    assert len(weights.columns) == 50
    assert {weights.rows[row] for row in weights.flagged} == {"client 5", "client 49"}
    assert weights.rows[0] == "client 49"
    assert "20 of 50 clients" in weights.caption
    assert "20 rounds" in weights.caption
    assert weights.hover[0][0].startswith("in ")
    assert len(chosen_clients(history, 1_000)) == 50


def test_precision_and_recall_are_those_of_a_window(history: RunHistory) -> None:
    lines = panel_of(filtering([history]), "precision-recall", Lines)
    assert series_of(lines, "precision").y == (1.0, 0.5, 1.0, 0.5)
    assert series_of(lines, "recall").y == (1.0,) * 4
    alarms = panel_of(filtering([history]), "false-positives", Lines)
    assert alarms.series[0].y == pytest.approx((0.0, 1 / 3, 0.0, 1 / 3))


def test_precision_is_undefined_where_nothing_was_removed(tmp_path: Path) -> None:
    keeping = {"kept": (0, 1, 2, 3), "weights": (0.25,) * 4}
    folder(tmp_path / "run", [four(0, **keeping), four(1)])
    lines = panel_of(filtering([RunHistory(tmp_path / "run")]), "precision-recall", Lines)
    assert series_of(lines, "precision").y == (None, 0.5)
    assert series_of(lines, "recall").y == (0.0, 1.0)


def test_the_spread_is_drawn_against_the_threshold(history: RunHistory, tmp_path: Path) -> None:
    lines = panel_of(filtering([history]), "spread", Lines)
    found = {series.name: series.y[0] for series in lines.series}
    assert found == {"before filtering": 8.0, "after filtering": 0.5, "threshold": 1.0}
    assert lines.log_y
    without = {"spread": None, "spread_before": None, "threshold": None}
    folder(tmp_path / "mean", [four(0, **without)], rule=Mean())
    assert "does not measure" in panel_of(filtering([RunHistory(tmp_path / "mean")]), "spread", Text).paragraphs[0]


def test_the_certificate_stands_above_the_error(history: RunHistory, tmp_path: Path) -> None:
    lines = panel_of(certificate([history]), "certificate", Lines)
    assert {series.name: series.y[0] for series in lines.series} == {
        "bound, with the spread the rule found": 0.75,
        "true error": 0.25,
    }
    folder(tmp_path / "broken", [four(0), four(1, num_byzantine=0)])
    assert broken_rounds(RunHistory(tmp_path / "broken")).tolist() == [1]


def test_differences_between_runs_come_first(history: RunHistory, tmp_path: Path) -> None:
    folder(tmp_path / "other", [four(0)], seed=7)
    section = configuration([history, RunHistory(tmp_path / "other")])
    assert panel_of(section, "configuration", Table).rows == (("seed", "0", "7"),)
    shared = panel_of(section, "configuration-shared", Table)
    assert ("rounds", "4") in shared.rows
    assert not {"seed"} & {row[0] for row in shared.rows}
    assert "do not differ" in words(configuration([history, history]))


def test_many_runs_stand_one_below_the_other(history: RunHistory, tmp_path: Path) -> None:
    runs = [history]
    for seed in range(1, 7):
        folder(tmp_path / f"run-{seed}", [four(0)], seed=seed)
        runs.append(RunHistory(tmp_path / f"run-{seed}"))
    table = panel_of(configuration(runs), "configuration", Table)
    assert [column.title for column in table.columns] == ["run", "seed"]
    assert [row[1] for row in table.rows] == [str(seed) for seed in range(7)]


def test_of_a_checksum_its_beginning_is_shown(history: RunHistory) -> None:
    values = {row[0]: row[1] for row in panel_of(configuration([history]), "configuration", Table).rows}
    assert values["provenance.data_sha256"] == "000000000000…"


def test_times_are_stacked_by_part(history: RunHistory) -> None:
    bars = panel_of(timing([history]), "seconds", Bars)
    assert bars.parts == {"local steps": (0.5,) * 4, "aggregation": (0.25,) * 4}
    assert panel_of(timing([history, history]), "seconds", Bars).parts["local steps"] == (2.0, 2.0)


def test_commands_reproduce_a_simulation_and_not_a_deployment(history: RunHistory, deployed: RunHistory) -> None:
    code = panel_of(reproduce([history]), "commands", Code)
    assert f"steadfed run {history.path}/config.toml" in code.text
    section = reproduce([deployed])
    assert not any(panel.key == "commands" for panel in section.panels)
    assert "cannot be run again" in words(section)


def test_data_that_are_not_those_of_the_run_are_not_shown(history: RunHistory, deployed: RunHistory) -> None:
    assert "checksum is another" in words(partition([history]))
    assert "with the clients" in words(partition([deployed]))


def test_what_cannot_be_certified_says_why(history: RunHistory, deployed: RunHistory, tmp_path: Path) -> None:
    assert "the data of" in words(guarantee([history]))
    folder(tmp_path / "mean", [four(0)], rule=Mean())
    assert "The theorems are about RAGE" in words(guarantee([RunHistory(tmp_path / "mean")]))
    table = panel_of(guarantee([deployed]), "conditions", Table)
    assert any(row[2] == "? not measured" for row in table.rows)


def test_names_are_unique_and_short(tmp_path: Path) -> None:
    long = "x" * 60
    names = client_names([1, "client 1", long, f"{long}y", ""])
    assert len(set(names)) == 5
    assert max(map(len, names)) < 50
    histories = [RunHistory(tmp_path / "a" / "run"), RunHistory(tmp_path / "b" / "run")]
    assert run_names(histories) == ["a/run", "b/run"]


def test_clients_that_are_byzantine_now_and_then_are_said_to_be(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0), four(1, byzantine=(0,))])
    history = RunHistory(tmp_path / "run")
    assert "2 of the 4 clients that took part were Byzantine in some rounds" in words(verdict([history]))
    table = panel_of(clients([history]), "suspicion", Table)
    assert {row[0]: row[1] for row in table.rows}["client 0"] == "in 1 of 2 rounds"


def test_honest_updates_that_count_little_are_not_called_unharmed(tmp_path: Path) -> None:
    light = {"kept": (0, 1, 2), "weights": (0.05, 0.475, 0.475, 0.0)}
    folder(tmp_path / "run", [four(number, **light) for number in range(4)])
    said = words(verdict([RunHistory(tmp_path / "run")]))
    assert "No false positives" not in said
    assert "No honest update was removed, but 33.3 % of them counted less than half of an equal share." in said


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [
        ((0.76, 0.76, 0.77, 0.76), "It changed little: test accuracy went from 76.0 % after the first evaluation"),
        ((0.9, 0.5, 0.4, 0.3), "It got worse: test accuracy was 90.0 % in round 0 and is 30.0 % in the end."),
    ],
)
def test_a_high_accuracy_alone_is_no_learning(tmp_path: Path, accuracies: tuple[float, ...], said: str) -> None:
    folder(tmp_path / "run", [four(number, test_accuracy=each) for number, each in enumerate(accuracies)])
    assert said in words(verdict([RunHistory(tmp_path / "run")]))


def test_an_attack_that_has_not_begun_is_not_marked(tmp_path: Path) -> None:
    attack = Sleeper(attack=SignFlip(), start=3)
    folder(tmp_path / "run", [four(number) for number in range(3)], attack=attack)
    history = RunHistory(tmp_path / "run")
    assert panel_of(learning([history]), "accuracy", Lines).marks == ()
    assert "did nothing that differs from honest clients so far" in words(verdict([history]))


def test_an_attack_starts_with_the_first_cohort_that_holds_a_liar(tmp_path: Path) -> None:
    folder(tmp_path / "run", [four(0, byzantine=()), four(1, byzantine=()), four(2), four(3)])
    lines = panel_of(learning([RunHistory(tmp_path / "run")]), "accuracy", Lines)
    assert [mark.at for mark in lines.marks] == [2.0]


def test_a_certificate_tells_how_often_it_failed_and_where_there_is_none(tmp_path: Path) -> None:
    none = {"certificate": {"error_bound": None}}
    records = [
        four(0, honest_error_bound=0.3),
        four(1, error=0.8),
        four(2, **none),
        four(3, error=2e-7, update_norm=1.0),
    ]
    folder(tmp_path / "run", records)
    lines = panel_of(certificate([RunHistory(tmp_path / "run")]), "certificate", Lines)
    assert "proved (the error was above it in 0 of 1 round)" in lines.caption
    assert "may fail (the error was above it in 1 of 3 rounds)" in lines.caption
    assert "In 1 round that spread contradicts the updates" in lines.caption
    assert series_of(lines, "true error").y == (0.25, 0.8, 0.25, None)


def test_small_errors_of_small_updates_are_drawn(tmp_path: Path) -> None:
    records = [four(number, error=10.0**-number, update_norm=10.0**-number) for number in range(6)]
    folder(tmp_path / "run", records, rounds=6)
    lines = panel_of(certificate([RunHistory(tmp_path / "run")]), "certificate", Lines)
    assert None not in series_of(lines, "true error").y


def test_communication_is_drawn_without_test_data(tmp_path: Path) -> None:
    untested = {"test_accuracy": None, "test_loss": None, "train_loss": 0.5}
    folder(tmp_path / "run", [four(number, **untested) for number in range(4)])
    lines = panel_of(learning([RunHistory(tmp_path / "run")]), "communication", Lines)
    assert (lines.title, lines.series[0].name) == ("Loss against communication", "training points")


def test_rounding_breaks_no_theorem_and_is_no_worst_round(tmp_path: Path) -> None:
    rounding = {"error": 2e-7, "update_norm": 1.0, "honest_error_bound": 0.0, "certificate": {"error_bound": 0.0}}
    records = [four(0), four(1, **rounding), four(2, error=0.8, honest_error_bound=0.3, num_byzantine=0)]
    folder(tmp_path / "run", records, rounds=3)
    history = RunHistory(tmp_path / "run")
    caption = panel_of(certificate([history]), "certificate", Lines).caption
    assert "is proved (the error was above it in 0 of 1 round)" in caption  # the last held more liars than assumed
    assert next(each for each in headlines([history]) if each.title == "Worst round").value == "2"


def test_rounds_without_a_bound_say_why(tmp_path: Path) -> None:
    none = {"certificate": None}
    records = [four(0), four(1, certificate={"error_bound": None}), four(2, **none, assumption_violated=True), four(3)]
    folder(tmp_path / "run", records)
    caption = panel_of(certificate([RunHistory(tmp_path / "run")]), "certificate", Lines).caption
    assert "In 1 round that spread contradicts the updates" in caption
    assert "no bound in 1 round that changed nothing or violated the assumption" in caption


def test_a_client_that_changes_sides_is_judged_on_each(tmp_path: Path) -> None:
    """Client 0 is honest in even rounds and always removed then; Byzantine in odd ones, and kept in two of three."""
    sides = [((), (1, 2, 3)), ((0,), (0, 1, 2, 3))] * 3
    records = [four(k, byzantine=liars, kept=kept) for k, (liars, kept) in enumerate(sides)]
    records[1] = four(1, byzantine=(0,), kept=(1, 2, 3))
    folder(tmp_path / "run", records, rounds=6)
    said = " ".join(panel_of(clients([RunHistory(tmp_path / "run")]), "mistakes", Text).paragraphs)
    assert "Client 0 lost most: 3 of its 3 honest updates were removed (100.0 %). 1 of 4 clients" in said
    assert "Client 0 got through most often: 2 of its 3 Byzantine updates were kept (66.7 %)." in said


def test_liars_who_never_got_through_did_not_get_through_most_often(history: RunHistory) -> None:
    said = panel_of(clients([history]), "mistakes", Text).paragraphs
    assert said[-1] == "No update of a Byzantine client got through."


@pytest.mark.parametrize(("every", "said"), [(2, "to 1.5."), (1, "to 1.5; later it was not finite.")])
def test_a_round_without_an_evaluation_is_no_loss_that_is_not_finite(tmp_path: Path, every: int, said: str) -> None:
    looked = {"test_accuracy": None, "train_loss": None}
    records = [four(0, **looked, test_loss=2.0), four(1, **looked, test_loss=1.5), four(2, **looked, test_loss=None)]
    folder(tmp_path / "run", records, evaluation=Evaluation(every=every))
    assert f"The test loss fell: from 2 {said}" in words(verdict([RunHistory(tmp_path / "run")]))


def test_a_deployment_names_whom_the_rule_turned_against_and_what_for(deployed: RunHistory) -> None:
    said = words(verdict([deployed]))
    assert f"Node {deployments.LIAR}: removed in 4 of 5 rounds, its update lay 1" in said
    assert f"Node {deployments.BROKEN}: malformed in 4 of 5 rounds (shape); silent in 1 of 5 rounds." in said
    assert "Something can be said of 3 others, too: “steadfed audit” says what happened to whom" in said


def test_a_run_that_is_no_success_says_so_first_and_names_who_was_missing(deployed: RunHistory) -> None:
    first = headlines([deployed])[0]
    assert (first.title, first.value, first.tone) == ("Outcome", "no success", Tone.WARNING)
    assert first.note.startswith(f"too many were silent; missing: {deployments.NAMES[0]}, {deployments.NAMES[1]}, ")
    assert first.note.endswith(" and 3 others")
    panel = panel_of(verdict([deployed]), "verdict-1", Text)
    assert panel.tone is Tone.WARNING
    assert panel.paragraphs[1].startswith(
        "It is no success: in 1 of 5 rounds more clients were silent than are assumed"
    )
    assert any(str(fact).startswith("no success: in 1 of 5 rounds") for _, fact in overview(deployed).rows)


def test_tables_of_clients_say_in_which_layer_removed_updates_deviate_where_it_is_known(deployed: RunHistory) -> None:
    (table,) = [panel for panel in clients([deployed]).panels if panel.key == "suspicion"]
    assert isinstance(table, Table)
    assert "deviates in" not in [column.title for column in table.columns]
    lines = [
        replace(line, layers={"head\x1b.weight": 0.93, "body": 0.07} if line.against else {})
        for line in deployed.clients
    ]
    told = suspicion_table(deployed, lines)
    place = [column.title for column in told.columns].index("deviates in")
    assert {row[place] for row in told.rows} == {"head\\x1b.weight (93 %)", None}


def test_names_keep_their_capitals(tmp_path: Path) -> None:
    made = deployments.deployment(tmp_path / "run", rounds=0)
    made.append(four(0).model_copy(update={"cohort": ("Bad Tölz",), "received": (), "absent": ("Bad Tölz",)}))
    assert "Node Bad Tölz: silent in 1 of 1 round." in words(verdict([RunHistory(tmp_path / "run")]))


def test_a_run_that_goes_on_has_a_result_so_far(tmp_path: Path) -> None:
    deployments.deployment(tmp_path / "half", rounds=2)
    assert headlines([RunHistory(tmp_path / "half")])[0].title.endswith("so far")


def test_runs_side_by_side_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    for name, rule in {"mean": Mean(), "rage": Rage(num_byzantine=1), "bold": Rage(num_byzantine=2)}.items():
        folder(tmp_path / name, [four(0)], rule=rule)
    both = side_by_side([RunHistory(tmp_path / name) for name in ("mean", "rage")])
    assert [row[1] for row in both.rows] == ["mean", "rage"]
    alike = side_by_side([RunHistory(tmp_path / name) for name in ("rage", "bold")])
    assert [str(row[1]).split(",")[0] for row in alike.rows] == ["rage(num_byzantine=1", "rage(num_byzantine=2"]


def test_skipped_rounds_say_why_and_absent_clients_are_called_so(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"skipped": True, "kept": (), "weights": (), "scores": ()}
    away = {"received": (0, 1, 2), "absent": (3,)}
    records = [four(0), *(four(k, **nothing, **away, reason="the update is not finite") for k in (1, 2))]
    folder(tmp_path / "run", records, rounds=3)
    said = panel_of(verdict([RunHistory(tmp_path / "run")]), "verdict-1", Text).paragraphs
    assert "2 rounds left the model as it was: round 1, the update is not finite." in said
    assert "Clients were absent 2 times: asked, they sent nothing." in said


def anchored(number: int, needed: int | None) -> RoundRecord:
    """Return a round whose guard found that so many must be assumed, where one was."""
    guard = {"assumed": 1, "most": 3, "spread": 9.0, "limit": 4.0, "needed": needed, "alarmed": needed != 1}
    said = {"reason": f"f = 1 was assumed, and the updates need f = {needed}"}
    anchor = {"num_steps": 2, "spread": 0.5, "distance": 0.1, "reach": 0.3, "displacement": 1.0 + number}
    anchor |= {"attributable": 0.5 + number, "share": 0.8 if number == 2 else 1.0}
    proof = {"error_bound": 2.0, "unconditional_bound": 3.0 + number}
    return four(number, anchor=anchor, guard=guard | said, certificate=proof, assumption_violated=needed != 1)


def test_anchor_displacement_and_the_bound_without_a_spread_are_drawn(tmp_path: Path) -> None:
    folder(tmp_path / "run", [anchored(0, 1), anchored(1, 2), anchored(2, 1)])
    history = RunHistory(tmp_path / "run")
    section = filtering([history])
    assert list(series_of(panel_of(section, "spread", Lines), "smallest on the way").y) == [0.5, 0.5, 0.5]
    moved = panel_of(section, "displacement", Lines)
    assert list(series_of(moved, "displacement of the plain mean").y) == [1.0, 2.0, 3.0]
    assert list(series_of(moved, "what f updates account for").y) == [0.5, 1.5, 2.5]
    assert (list(series_of(moved, "cut").x or ()), list(series_of(moved, "cut").y)) == ([2], [2.5])
    assert list(series_of(moved, "more Byzantine than assumed?").x or ()) == [1]
    bounds = panel_of(certificate([history]), "certificate", Lines)
    assert list(series_of(bounds, "bound, whatever the spread is").y) == [3.0, 4.0, 5.0]
    assert "the dashed bound holds if no more clients are Byzantine than assumed" in bounds.caption


def test_a_guard_that_found_a_larger_bound_is_no_warning_and_one_that_did_not_is(tmp_path: Path) -> None:
    for name, needed, tone in (("found", 2, False), ("none", None, True)):
        folder(tmp_path / name, [anchored(0, 1), anchored(1, needed)])
        history = RunHistory(tmp_path / name)
        panel = panel_of(verdict([history]), "verdict-1", Text)
        text = " ".join(panel.paragraphs)
        assert ("took as many more for Byzantine there" in text) is not tone
        assert ("contradicted the assumptions of the rule" in text) is tone
        assert (panel.tone is Tone.WARNING) is tone
