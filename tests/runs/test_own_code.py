"""Runs of a rule and an attack of the user's own: played, resumed, refused if their source changed, and read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tests import own_code
from tests.cli.commands import SMALL, run as steadfed
from tests.own_code import HERE
from tests.same_results import timeless
from tests.simulation.small import classes, config as small_config
from torch import Tensor

from steadfed.aggregators import RULES, ServerView
from steadfed.attacks import FixedMembers
from steadfed.certification import certify, certify_records
from steadfed.errors import ParameterError, RunError
from steadfed.runs import Run, config_from_toml, config_to_toml, resume, run
from steadfed.runs._check import check, outline
from steadfed.runs._code import code_digests, code_named
from steadfed.server._folder import RunFolder
from steadfed.server._history import open_run
from steadfed.simulation import Federation, RunConfig

OWN = SMALL.replace('{ name = "rage", num_byzantine = 3 }', '{ import = "walked:median", num_byzantine = 3 }').replace(
    '{ name = "scaling", factor = 50.0 }', '{ import = "walked:turned", strength = 9.0 }'
)
MODULE = """
def median(updates):
    return updates.median(0).values

def turned(honest_updates, strength):
    return -strength * honest_updates.mean(0)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand in a folder with the user's module in it."""
    (tmp_path / "walked.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    monkeypatch.delitem(sys.modules, "walked", raising=False)
    yield tmp_path / "walked.py"
    sys.modules.pop("walked", None)


def interrupted(path: str) -> None:
    """Play two rounds of six."""
    rest = Run.start(config_from_toml(OWN), path).play()
    assert len(list(islice(rest, 2))) == 2
    rest.close()


def test_a_function_is_the_same_in_a_file_and_in_python() -> None:
    config = RunConfig(rule=own_code.median, attack=own_code.turned)
    assert config_from_toml(config_to_toml(config)) == config
    assert config == RunConfig(rule=f"{HERE}:median", attack=f"{HERE}:turned")
    changed = config_from_toml(config_to_toml(config), [f"rule={HERE}:trimmed", "rule.share=0.5"])
    assert changed.rule == RULES.build(f"{HERE}:trimmed", share=0.5)
    with pytest.raises(ParameterError, match="rule: the rule cannot be named by import: it is a lambda"):
        RunConfig(rule=lambda updates: updates.mean(0))


def test_it_is_resumed_to_the_same_bytes(module: Path, tmp_path: Path) -> None:
    whole = run(config_from_toml(OWN), "whole").folder
    interrupted("part")
    resumed = resume("part", jobs=2).folder
    assert timeless(list(resumed.records())) == timeless(list(whole.records()))
    assert (tmp_path / "part" / "config.toml").read_text() == (tmp_path / "whole" / "config.toml").read_text()


def test_a_changed_source_is_refused_as_changed_data_are(module: Path) -> None:
    interrupted("part")
    module.write_text(MODULE + "\n\ndef another(updates):\n    return updates[0]\n")
    assert Run.resume("part").notes == []
    module.write_text(MODULE.replace("median(0).values", "mean(0)"))
    with pytest.raises(RunError, match="the source of walked:median is not what the run in 'part' was started with"):
        Run.resume("part")
    assert any("walked:median is not what the run was played with" in note for note in Run.open("part").notes)
    module.write_text(MODULE)
    assert resume("part").folder.is_done()


def test_what_reads_a_run_needs_no_code(module: Path, tmp_path: Path) -> None:
    run(config_from_toml(OWN), "done")
    module.unlink()
    sys.modules.pop("walked", None)
    shown = " ".join(steadfed("show", "done").split())
    assert "walked:median(num_byzantine=3)" in shown
    assert "nobody: the rule does not say whose updates its result rests on" in shown
    assert "not judged" in steadfed("show", "done", "--round", "0")
    assert "walked" not in steadfed("audit", "done")
    page = Path(steadfed("report", "done", "--no-guarantee").strip()).read_text(encoding="utf-8")
    assert "does not say whose updates its result rests on, so whom it removed is not known" in page
    found = certify("done")
    assert found.models is None
    assert any("the code of the run's rule or attack cannot be had: cannot import" in note for note in found.notes)
    assert certify_records("done").models is None
    with pytest.raises(ParameterError, match="there is no module 'walked'"):
        resume("done")


def test_a_round_of_a_rule_that_says_nothing_judges_nobody(module: Path) -> None:
    run(config_from_toml(OWN), "done")
    history = open_run("done")
    assert history.rounds.unattributed == 6
    tally = history.tally
    assert (tally.judged, tally.removed, tally.recall, tally.byzantine_weight) == (0, 0, None, None)
    assert tally.received == 48
    record = next(RunFolder.open("done").records())
    assert (record.weights, record.scores, record.removed, len(record.kept)) == ((), (), (), 8)


def test_a_rule_that_gives_weights_is_judged() -> None:
    config = small_config(rule=f"{HERE}:heaviest", rounds=2, byzantine=FixedMembers(clients=(0,)))
    with Federation(config, dataset=classes()) as federation:
        _, record = federation.play(federation.start())
    assert record.judges
    assert len(record.kept) == 1
    assert len(record.removed) == len(record.received) - 1


def test_what_fails_is_noticed_before_the_first_round(tmp_path: Path) -> None:
    for rule, said in [("of_torch", "tried on random numbers, .* take .values"), ("wants_more", "takes 'radius'")]:
        with pytest.raises(ParameterError, match=said):
            run(config_from_toml(SMALL, [f"rule={HERE}:{rule}"]), tmp_path / rule)
        assert not (tmp_path / rule).exists()
    with pytest.raises(ParameterError, match=r"tried on random numbers, .*ZeroDivisionError"):
        check(config_from_toml(SMALL, [f"attack={HERE}:failing"]))


def test_what_fails_later_skips_the_round_and_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def late(updates: Tensor, view: ServerView) -> Tensor:
        if view.round == 1:
            raise ValueError("in the second round")
        return updates.median(0).values

    monkeypatch.setattr(own_code, "median", late)
    folder = run(config_from_toml(SMALL, [f"rule={HERE}:median"]), tmp_path / "late").folder
    records = list(folder.records())
    assert [record.skipped for record in records] == [False, True, False, False, False, False]
    assert "failed on 8 x 650 updates with ValueError: in the second round" in str(records[1].reason)


def test_a_configuration_says_which_code_it_names() -> None:
    inside = config_from_toml(f'[rule]\nname = "nnm"\nrule = {{ import = "{HERE}:trimmed", num_byzantine = 5 }}')
    assert list(code_named(inside)) == [("rule.rule.import", f"{HERE}:trimmed")]
    assert "a run executes rule.rule.import" in dict(outline(inside).facts)["code"]
    assert dict(check(inside, dataset=None).facts)["rule"].startswith(f"nnm+{HERE}:trimmed; assumes at most 5")


def test_an_object_of_ones_own_class_is_written_by_import(tmp_path: Path) -> None:
    config = RunConfig(rounds=1, rule=own_code.First(num_byzantine=5), attack=own_code.Zeros())
    text = config_to_toml(config)
    assert f'import = "{HERE}:First"' in text
    assert f'import = "{HERE}:Zeros"' in text
    assert set(code_digests(config)) == {f"code of {HERE}:First", f"code of {HERE}:Zeros"}
    assert run(config, tmp_path / "own").folder.is_done()
    assert Run.resume(tmp_path / "own").notes == []


def test_an_attack_on_data_takes_effect_by_import(tmp_path: Path) -> None:
    named = config_from_toml(SMALL, [f"attack={HERE}:classes"])
    usual = config_from_toml(SMALL, ["attack=class-flip", "attack.source=0", "attack.target=1"])
    own, theirs = (list(run(each, tmp_path / str(n)).folder.records()) for n, each in enumerate((named, usual)))
    assert [each.update_norm for each in own] == [each.update_norm for each in theirs]
