"""`steadfed plan`, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.commands import refused, run, small_config

from steadfed.theory.sampling import run_excess_probability

EXAMPLE = Path(__file__).parents[2] / "examples" / "convex.toml"
NUMBERS = {
    "clients": "10000",
    "cohort": "100",
    "byzantine": "500",
    "assumed": "20",
    "local-steps": "5",
    "batch": "10",
    "points": "100",
    "lr": "0.02",
    "rounds": "1000",
    "smoothness": "1",
    "strong-convexity": "0.1",
    "variance": "1",
    "dissimilarity": "0.01",
    "distance": "100",
    "dim": "50",
}


def options(**changes: str | None) -> list[str]:
    """Return the numbers as options, some changed or left out."""
    given = NUMBERS | {key.replace("_", "-"): value for key, value in changes.items()}
    return [word for key, value in given.items() if value is not None for word in (f"--{key}", value)]


def flat(output: str) -> str:
    """Return the words of an output without the frames of tables."""
    return " ".join(output.replace("│", " ").split())


def test_the_example_shows_constants_guarantees_and_what_they_mean() -> None:
    output = flat(run("plan", str(EXAMPLE)))
    for words in (
        "exact, by Newton's method",
        "the paper: Theorem 1, strongly convex",
        "✓ step size",
        "may fail with probability",
        "In practice",
        "it says nothing for K = 40",
        "no cohort can have more than the 3 Byzantine updates that are tolerated",
    ):
        assert words in output


def test_local_steps_may_differ_from_round_to_round() -> None:
    table = json.loads(run("plan", *options(local_steps="1,4,2", lr="0.02"), "--json"))
    assert table["protocol"]["local_steps"] == [1, 4, 2]
    longest = json.loads(run("plan", *options(local_steps="4", lr="0.02"), "--json"))
    assert [each["lr_limit"] for each in table["guarantees"]] == [each["lr_limit"] for each in longest["guarantees"]]
    listed = json.loads(run("plan", str(EXAMPLE), "--set", "local_steps=[1, 3]", "--json"))
    assert listed["protocol"]["local_steps"] == [1, 3]
    drawn = 'local_steps={name="uniform", lowest=1, highest=3}'
    assert set(json.loads(run("plan", str(EXAMPLE), "--set", drawn, "--json"))["protocol"]["local_steps"]) == {1, 2, 3}


def test_words_are_no_local_steps(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = refused(capsys, monkeypatch, "plan", *options(local_steps="some"))
    assert "--local-steps: expected a whole number of at least 1, got 'some'; or several with commas between" in said


def test_settings_and_options_change_the_configuration() -> None:
    changes = ("--set", "local_steps=2", "--lr", "0.5", "--byzantine", "9", "--set", "rounds=20")
    table = json.loads(run("plan", str(EXAMPLE), *changes, "--json"))
    assert (table["protocol"]["local_steps"], table["protocol"]["lr"]) == (2, 0.5)
    assert (table["protocol"]["num_byzantine"], table["protocol"]["rounds"]) == (9, 20)


def test_a_rule_without_a_theorem_is_said_to_have_none(tmp_path: Path) -> None:
    output = flat(run("plan", str(small_config(tmp_path)), "--set", "rule=median"))
    assert "✗ outside the theorems: rule: nothing is proved for median" in output
    assert "No theorem covers this run (rule)" in output


def test_local_constants_are_called_local(tmp_path: Path) -> None:
    output = flat(run("plan", str(small_config(tmp_path))))
    assert "local, at the start of the run" in output
    assert "bound nothing elsewhere" in output


def test_numbers_alone_are_enough() -> None:
    output = flat(run("plan", *options()))
    assert "problem: the numbers given" in output
    assert "1,000 · exp(−ε′²(1 − ε)K/16)" in output
    assert "(hypergeometric, exact)" in output


def test_json_holds_the_same_numbers() -> None:
    table = json.loads(run("plan", *options(target="50"), "--json"))
    assert table["constants"]["smoothness"] == {"value": 1.0, "origin": "given", "everywhere": True}
    assert table["guarantees"][0]["lr_limit"] == 1 / 40
    assert table["answers"]["rounds to 50"]["value"] > 0
    assert table["guarantees"][0]["failure"] == 1.0


def test_the_command_does_not_load_torch_to_say_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refused(capsys, monkeypatch, "plan", "--clients", "100")
    missing = "--cohort, --rounds, --smoothness, --variance, --dissimilarity, --distance or --gap"
    assert told.strip() == f"steadfed: without CONFIG the numbers must be given; missing: {missing}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": "many"}, "--batch: expected a whole number of at least 1, got 'many'; or \"full\""),
        ({"smoothness": "-1"}, "smoothness: input should be greater than 0, got -1.0"),
        ({"strong_convexity": "2"}, "strong_convexity must be at most smoothness = 1, got 2.0"),
        ({"cohort": "20000"}, "cohort_size must be at most num_clients = 10000, got 20000"),
        ({"assumed": "50"}, "assumed_byzantine must be below half of the cohort, at most 49, got 50"),
        ({"slack": "0.3"}, "slack must be at most assumed_byzantine / cohort_size = 0.2, got 0.3"),
        ({"failure": "2"}, "failure must be a number strictly between 0 and 1, got 2.0"),
        ({"target": "0"}, "target must be a finite number above 0, got 0.0"),
        ({"mode": "fast"}, "mode: input should be 'auto', 'spread', 'known', 'exact' or 'lazy', got 'fast'"),
        ({"distance": None}, "missing: --distance or --gap"),
    ],
)
def test_bad_numbers_are_refused_with_what_is_allowed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None], message: str
) -> None:
    assert message in refused(capsys, monkeypatch, "plan", *options(**changes))


def test_settings_need_a_configuration(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "none was given; got --set lr=1" in refused(capsys, monkeypatch, "plan", *options(), "--set", "lr=1")


def test_a_file_that_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "cannot read the configuration 'nothing.toml'" in refused(capsys, monkeypatch, "plan", "nothing.toml")


def test_a_smoothness_that_allows_no_step_size_is_no_crash() -> None:
    output = flat(run("plan", *options(smoothness="1e308")))
    assert "the paper allows up to 0," in output


def test_a_rule_that_distrusts_too_few_has_no_row_to_set_aside() -> None:
    output = flat(run("plan", *options(byzantine="3000")))
    assert "the rule distrusts f = 20, so none can be set aside: ε′ = 0" in output


def test_the_bound_is_read_as_it_is_proved() -> None:
    output = flat(run("plan", str(EXAMPLE)))
    assert "the bound, in expectation over the batches, goes to" in output


@pytest.mark.parametrize(("batch", "lr"), [("10", 1 / 40), ("full", 1 / 25)])
def test_the_step_size_is_the_papers_if_none_is_given(batch: str, lr: float) -> None:
    table = json.loads(run("plan", *options(lr=None, batch=batch), "--json"))
    assert table["protocol"]["lr"] == pytest.approx(lr)
    assert table["guarantees"][0]["conditions"][0]["passed"]


def test_as_many_rows_are_distrusted_as_may_well_be_byzantine_if_no_number_is_given() -> None:
    given = {"clients": "1000", "cohort": "100", "byzantine": "100", "rounds": "200", "assumed": None, "slack": None}
    found = [json.loads(run("plan", *options(**given, batch=batch), "--json"))["protocol"] for batch in ("full", "8")]
    assumed, more = (each["assumed_byzantine"] for each in found)
    assert more == assumed + 5
    law = {"num_clients": 1000, "num_byzantine": 100, "cohort_size": 100, "rounds": 200}
    assert run_excess_probability(**law, tolerated=assumed) <= 0.005
    assert run_excess_probability(**law, tolerated=assumed - 1) > 0.005
