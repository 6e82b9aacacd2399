"""`steadfed list`, as a user meets it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.cli.commands import refused, run
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed._cli.list import KINDS
from steadfed._core.importing import import_object
from steadfed.aggregators import RULES
from steadfed.attacks import ATTACKS
from steadfed.data import A9a
from steadfed.data._files import DataFile
from steadfed.data._places import FileSet
from steadfed.simulation._tables import NAMED


def test_list_names_parameters_knowledge_and_citation_of_every_rule_and_attack() -> None:
    output = run("list", "rules", "--long")
    for word in (
        "rage",
        "krum",
        "byzantine_fraction",
        "kappa  (number >= 1.0, < 1000000.0)",
        "auto | spread | known | exact | lazy",
        "trusted row",
    ):
        assert word in output
    for rule in RULES.values():
        assert rule.citation in " ".join(output.split())
    output = run("list", "attacks", "--long")
    for word in ("alie", "must know own, rule, makes use of honest", "chunk_size = 1000  (integer >= 1)"):
        assert word in output
    for attack in ATTACKS.values():
        assert attack.citation in " ".join(output.split())
    assert "krum" not in run("list", "rules", "rage")


@pytest.mark.parametrize("kind", KINDS)
def test_list_shows_one_line_each_with_the_beginning_of_its_description(kind: str) -> None:
    registry = import_object(KINDS[kind], "a registry")
    lines = run("list", kind).splitlines()
    assert [line.split()[0] for line in lines] == list(registry)
    for line, cls in zip(lines, registry.values(), strict=True):
        assert line.endswith(str(cls.__doc__).split("\n", 1)[0])


def test_list_without_a_kind_names_the_kinds() -> None:
    result = CliRunner().invoke(app, ["list"], env={"COLUMNS": "120"})
    assert result.exit_code == 2
    for kind in KINDS:
        assert kind in result.output


@pytest.mark.parametrize(("kind", "wrong", "right"), [("rules", "krumm", "krum"), ("attacks", "ALIE", "alie")])
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
        ("local-steps", ("uniform", "lowest = 1", "drawn for every round")),
        ("memberships", ("fraction", "fixed", "changing")),
    ],
)
def test_list_names_whatever_a_configuration_may_name(kind: str, words: tuple[str, ...]) -> None:
    output = " ".join(run("list", kind, "--long").split())
    for word in words:
        assert word in output


def test_every_table_of_a_configuration_is_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [import_object(path, "a registry") for path in KINDS.values()]
    assert all(any(each is registry for each in listed) for registry in NAMED.values())
    assert len(listed) == len(NAMED) + 2  # and schedules of local steps, for which a number may stand; and metrics
    for kind in KINDS:
        assert "known: " in refused(capsys, monkeypatch, "list", kind, "no-such")


def test_list_says_which_data_sets_are_on_this_machine_without_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("HOME", "XDG_CACHE_HOME", "STEADFED_DATA"):
        monkeypatch.setenv(variable, str(tmp_path))
    assert "always there" in run("list", "datasets", "digits")
    assert "on this machine" not in run("list", "datasets", "npz")
    assert "not on this machine" in run("list", "datasets", "a9a")
    content = b"+1 1:1\n"
    known = [
        DataFile(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest(), url="")
        for name in ("a", "b")
    ]
    monkeypatch.setattr(A9a, "files", (FileSet(name="a9a", files=tuple(known), folders=("a9a",)),))
    (tmp_path / "a9a").mkdir()
    (tmp_path / "a9a" / "a").write_bytes(content)
    (tmp_path / "a9a" / "b").write_bytes(b"+1 1:2\n")
    assert "not on this machine" in run("list", "datasets", "a9a")
    (tmp_path / "a9a" / "b").write_bytes(content)
    assert f"found in {tmp_path / 'a9a'}" in "".join(
        line.strip() for line in run("list", "datasets", "a9a").split("\n")
    )
