"""`holdfast list`, as a user meets it."""

from __future__ import annotations

import pytest
from tests.cli.commands import refused, run

from holdfast.aggregators import RULES
from holdfast.attacks import ATTACKS


def test_list_names_parameters_knowledge_and_citation_of_every_rule_and_attack() -> None:
    output = run("list", "rules")
    for word in (
        "rage",
        "krum",
        "byzantine_fraction",
        "kappa = 3.0  (number >= 1.0)",
        "auto | known | exact",
        "trusted row",
    ):
        assert word in output
    for rule in RULES.values():
        assert rule.citation in " ".join(output.split())
    output = run("list", "attacks")
    for word in ("alie", "must know own, rule, makes use of honest", "chunk_size = 1000  (integer >= 1)"):
        assert word in output
    for attack in ATTACKS.values():
        assert attack.citation in " ".join(output.split())
    assert "krum" not in run("list", "rules", "rage")


@pytest.mark.parametrize(("kind", "wrong", "right"), [("rules", "krumm", "krum"), ("attacks", "alei", "alie")])
def test_list_refuses_an_unknown_name_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str, wrong: str, right: str
) -> None:
    assert f"did you mean '{right}'" in refused(capsys, monkeypatch, "list", kind, wrong)


def test_list_shows_a_wrapper_and_what_is_inside() -> None:
    output = run("list", "rules", "nnm+krum")
    assert output.startswith("nnm\n")
    assert "\nkrum\n" in output


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("datasets", ("digits", "fashion-mnist", "CC BY 4.0")),
        ("models", ("softmax-regression", "hidden = [128, 64]", "Rumelhart")),
        ("partitions", ("dirichlet", "alpha = 0.5", "Hsu, Qi, Brown 2019")),
        ("cohorts", ("round-robin", "uniform", "Algorithm 1")),
        ("schedules", ("cosine", "last = 0.01")),
        ("memberships", ("fraction", "fixed", "changing")),
    ],
)
def test_list_names_whatever_a_configuration_may_name(kind: str, words: tuple[str, ...]) -> None:
    output = " ".join(run("list", kind).split())
    for word in words:
        assert word in output


def test_every_table_of_a_configuration_is_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("datasets", "models", "partitions", "cohorts", "schedules", "memberships"):
        assert "known: " in refused(capsys, monkeypatch, "list", kind, "no-such")
