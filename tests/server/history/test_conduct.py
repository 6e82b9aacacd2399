"""People first: what there is to say of each client, in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.deployments import AWAY, BROKEN, LIAR, NASTY, deployment

from steadfed.server._history import Narrator, RunHistory, conduct_of, meaning_of, open_run
from steadfed.server._record import Deviation, DroppedReply, RoundRecord

RAGE = meaning_of({"name": "rage"})


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> RunHistory:
    """Return the history of a deployment."""
    return open_run(deployment(tmp_path_factory.mktemp("conduct") / "run").path)


def test_the_worst_come_first_and_have_a_sentence_each(history: RunHistory) -> None:
    liar, broken, away, *others = history.conduct
    assert liar.name == f"node {LIAR}"
    said = liar.words(history.score_meaning)
    assert said.startswith("removed in 4 of 5 rounds, its update lay ")
    assert said.endswith(" standard deviations from the others along one direction; silent in 1 of 5 rounds")
    assert (broken.client, broken.words(RAGE)) == (
        BROKEN,
        "malformed in 4 of 5 rounds (shape); silent in 1 of 5 rounds",
    )
    assert (away.client, away.words(RAGE)) == (AWAY, "silent in 5 of 5 rounds")
    assert {each.words(RAGE) for each in others} == {"silent in 1 of 5 rounds"}
    assert NASTY not in {each.client for each in history.conduct}


def test_clients_of_a_simulation_are_clients_and_those_always_kept_are_left_out(convex_run: Path) -> None:
    history = open_run(convex_run)
    removed = {line.client for line in history.clients if line.removed or line.absent}
    assert {each.client for each in history.conduct} == removed
    assert all(each.name == f"client {each.client}" for each in history.conduct)


def test_a_removed_update_without_a_score_lay_apart(tmp_path: Path) -> None:
    folder = deployment(tmp_path / "run", rounds=0)
    replies = {"received": ("a", "b"), "weights": (1.0, 0.0), "scores": (0.0, None), "kept": ("a",)}
    folder.append(RoundRecord(round=0, step=1, lr=0.1, cohort=("a", "b"), **replies))
    (conduct,) = conduct_of(open_run(folder.path).rounds)
    assert conduct.words(RAGE) == "removed in 1 of 1 round, its update lay apart from the others, which agree"
    assert conduct.as_dict(RAGE)["removed"] == 1


def test_one_round_names_everybody_it_is_about() -> None:
    drops = (
        DroppedReply(client="b", fault="shape"),
        DroppedReply(client="c", fault="error"),
        DroppedReply(client="d", fault="silent"),
    )
    replies = {
        "received": ("\x1ba", "b", "e"),
        "weights": (0.0, 0.0, 1.0),
        "scores": (100.0, None, 1.0),
        "kept": ("e",),
    }
    cohort = ("\x1ba", "b", "c", "d", "e")
    record = RoundRecord(round=0, step=1, lr=0.1, cohort=cohort, unusable=("b",), drops=drops, **replies)
    assert Narrator(RAGE).told(record) == [
        "removed: \\x1ba (10 standard deviations)",
        "malformed: b (shape)",
        "silent: c (error), d",
    ]
    assert Narrator(RAGE).told(RoundRecord(round=0, step=1, lr=0.1, cohort=(1,), received=(1,), kept=(1,))) == []


COLLUDING = {
    "cohort": ("a", "b", "c", "d"),
    "received": ("a", "b", "c", "d"),
    "weights": (0.0, 0.002, 0.499, 0.499),
    "scores": (1681.0, 1600.0, 1.0, 1.0),
    "kept": ("b", "c", "d"),
}
"""Two liars that stand together: the filter took the weight of one whole, and nearly all of the other's."""


def test_next_to_no_weight_is_told_like_none(tmp_path: Path) -> None:
    folder = deployment(tmp_path / "run", rounds=0)
    for number in range(3):
        folder.append(RoundRecord(round=number, step=number + 1, lr=0.1, **COLLUDING))
    first, second = conduct_of(open_run(folder.path).rounds)
    far = "standard deviations from the others along one direction"
    assert first.words(RAGE) == f"removed in 3 of 3 rounds, its update lay 41 {far}"
    assert second.words(RAGE) == f"nearly removed in 3 of 3 rounds, its update lay 40 {far}"
    assert second.suspicion == first.suspicion > 0.5
    assert second.as_dict(RAGE)["nearly_removed"] == 3


@pytest.mark.parametrize(("share", "said"), [(0.934, ", mostly in head\\x1b.weight (93 %)"), (0.5, "")])
def test_the_layer_that_holds_most_of_a_deviation_is_named(tmp_path: Path, share: float, said: str) -> None:
    folder = deployment(tmp_path / "run", rounds=0)
    deviation = Deviation(client="a", layers={"head\x1b.weight": share, "body": 0.9 - share})
    folder.append(RoundRecord(round=0, step=1, lr=0.1, deviations=(deviation,), **COLLUDING))
    first, second = conduct_of(open_run(folder.path).rounds)
    assert first.words(RAGE).endswith(f"from the others along one direction{said}")
    assert "mostly" not in second.words(RAGE)


def test_a_round_names_those_with_next_to_no_weight() -> None:
    assert Narrator(RAGE).told(RoundRecord(round=0, step=1, lr=0.1, **COLLUDING)) == [
        "removed: a (41 standard deviations)",
        "nearly removed: b (40 standard deviations)",
    ]


def test_a_narrator_counts_how_often_the_same_became_of_somebody() -> None:
    one = RoundRecord(round=0, step=1, lr=0.1, **COLLUDING)
    silent = RoundRecord(round=2, step=3, lr=0.1, cohort=("a", "b"), received=("b",), kept=("b",), weights=(1.0,))
    narrator = Narrator(RAGE, before=[one, one])
    assert narrator.told(silent) == ["silent: a"]
    assert narrator.told(one) == [
        "removed: a (41 standard deviations, 3rd time)",
        "nearly removed: b (40 standard deviations, 3rd time)",
    ]
    assert narrator.told(silent) == ["silent: a (2nd time)"]


def test_the_people_of_two_rounds_are_compared_without_figures() -> None:
    one = RoundRecord(round=0, step=1, lr=0.1, **COLLUDING)
    narrator, people = Narrator(RAGE), set()
    for score in (1681.0, 900.0):
        narrator.told(one.model_copy(update={"scores": (score, 1600.0, 1.0, 1.0)}))
        people.add(narrator.people)
    assert people == {(("removed", "a"), ("nearly removed", "b"))}
