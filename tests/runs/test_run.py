"""Runs in folders: whatever interrupts them, they end the same."""

from __future__ import annotations

import errno
import hashlib
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.rewriting import as_old_version
from tests.runs.small import ROUNDS, interrupted_run, remembering, whole_run
from tests.same_results import same_results, timeless
from tests.simulation.small import classes, played

from steadfed.data import LogisticPoints
from steadfed.errors import CorruptRunError, MissingDataError, ParameterError, RunError
from steadfed.models import SoftmaxRegression
from steadfed.runs import Run
from steadfed.server._folder import RunFolder
from steadfed.server._history.files import part_of_configuration
from steadfed.simulation import Evaluation, Federation, RunConfig, UniformSteps


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return whole_run(remembering(), tmp_path_factory.mktemp("whole") / "run")


def resumed(folder: RunFolder, *, jobs: int = 1) -> Run:
    run = Run.resume(folder.path, dataset=classes(), jobs=jobs)
    list(run.play())
    return run


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("rounds", range(ROUNDS + 1))
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_stopped_after_any_round_ends_as_if_it_had_not_been(
    tmp_path: Path, whole: RunFolder, rounds: int, jobs: int
) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", rounds)
    assert folder.summary() is None
    run = resumed(folder, jobs=jobs)
    assert run.notes == []
    assert same_results(folder, whole) == []


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("steps", [(3, 1, 4), UniformSteps(lowest=1, highest=5)], ids=repr)
def test_a_run_whose_rounds_differ_in_steps_is_continued_as_if_it_had_not_been_stopped(
    tmp_path: Path, steps: Any
) -> None:
    config = remembering(local_steps=steps)
    whole = whole_run(config, tmp_path / "whole")
    assert len({config.steps_of(number) for number in range(ROUNDS)}) > 1
    for rounds in (1, 3):
        folder = interrupted_run(config, tmp_path / f"run{rounds}", rounds)
        resumed(folder, jobs=2)
        assert same_results(folder, whole) == []


def test_a_run_in_a_folder_is_the_run_in_memory(whole: RunFolder) -> None:
    states, records = played(remembering())
    assert timeless(whole.records()) == timeless(records)
    checkpoint = whole.latest_checkpoint()
    assert checkpoint is not None
    assert checkpoint.round == ROUNDS
    assert torch.equal(checkpoint.tensors["model"], states[-1].model)


def test_snapshots_hold_the_models_that_measured_rounds_start_from_and_the_last(tmp_path: Path) -> None:
    config = remembering(evaluation=Evaluation(measured_rounds=2))
    states, records = played(config)
    folder = whole_run(config, tmp_path / "run")
    assert folder.snapshots() == [0, 3, 5]
    for rounds in folder.snapshots():
        found = folder.snapshot(rounds)
        assert torch.equal(found.model, states[rounds].model)
        assert torch.equal(found.buffers, states[rounds].buffers)
        assert len(found.buffers) > 0
    assert [record.round for record in records if record.honest_spread is not None] == [0, 3]


def test_a_run_that_measures_nothing_keeps_no_snapshots(tmp_path: Path) -> None:
    folder = whole_run(remembering(evaluation=Evaluation(measured_rounds=0)), tmp_path / "run")
    assert folder.snapshots() == []
    assert not (folder.path / "snapshots").exists()
    assert all(record.honest_spread is None for record in folder.records())


@pytest.mark.parametrize("left", [0, 20])
def test_a_snapshot_that_a_crash_left_is_written_again(tmp_path: Path, whole: RunFolder, left: int) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 3)
    torn = folder.path / "snapshots" / "000003.safetensors.unfinished"
    torn.write_bytes((whole.path / "snapshots" / "000003.safetensors").read_bytes()[:left])
    resumed(folder)
    assert same_results(folder, whole) == []
    assert not torn.exists()


def test_a_run_from_before_there_were_snapshots_is_read_and_continued(tmp_path: Path) -> None:
    folder = interrupted_run(remembering(evaluation=Evaluation(measured_rounds=0)), tmp_path / "run", 3)
    text = as_old_version(folder.path).config_text()
    older = text.replace("measured_rounds = 0\n", "")
    seals = (hashlib.sha256(part_of_configuration(each).encode()).hexdigest() for each in (text, older))
    (folder.path / "config.toml").write_text(older.replace(next(seals), next(seals)))
    assert RunFolder.open(folder.path).snapshots() == []
    run = resumed(folder)
    assert run.notes == []
    assert folder.snapshots() == [3, 4, 5]
    assert folder.summary() is not None


def test_the_final_model_can_be_loaded_into_the_module(whole: RunFolder) -> None:
    states, _ = played(remembering())
    module = remembering().model.build(classes(), seed=99).double()
    module.load_state_dict(load_file(whole.path / "model.safetensors"))
    with Federation(remembering(), dataset=classes()) as federation:
        layout = federation.setting.layout
    assert torch.equal(layout.parameters_of(module, torch.float64), states[-1].model)
    assert torch.equal(layout.buffers_of(module, torch.float64), states[-1].buffers)


def test_a_complete_run_is_played_again_without_a_round(tmp_path: Path) -> None:
    folder = whole_run(remembering(), tmp_path / "run")
    before = {path: path.read_bytes() for path in folder.path.rglob("*.*")}
    run = Run.resume(folder.path, dataset=classes())
    assert list(run.play()) == []
    assert {path: path.read_bytes() for path in folder.path.rglob("*.*")} == before
    (folder.path / "summary.json").unlink()
    resumed(folder)
    assert folder.summary() is not None


def test_one_run_object_can_be_played_in_parts(tmp_path: Path, whole: RunFolder) -> None:
    run = Run.start(remembering(), tmp_path / "run", dataset=classes(), jobs=2)
    for rounds in (0, 2, 1):
        part = run.play()
        list(islice(part, rounds))
        part.close()
    list(run.play())
    assert same_results(run.folder, whole) == []


def test_rounds_after_the_last_checkpoint_are_computed_again(tmp_path: Path) -> None:
    seldom = remembering(checkpoint_every=3)
    expected = whole_run(seldom, tmp_path / "expected")
    for rounds in (2, 4):
        folder = interrupted_run(seldom, tmp_path / f"run{rounds}", rounds)
        assert folder.num_rounds() == rounds
        run = Run.resume(folder.path, dataset=classes())
        first = next(iter(run.play()))
        assert first.round == (0 if rounds == 2 else 3)
        resumed(folder)
        assert same_results(folder, expected) == []
    again = Run.start(seldom, tmp_path / "again", dataset=classes())
    part = again.play()
    list(islice(part, 2))
    part.close()
    list(again.play())  # the same federation starts anew, without what clients remember
    assert same_results(again.folder, expected) == []


def test_a_corrupt_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path, whole: RunFolder) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 3)
    newest = max((folder.path / "checkpoints").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-5])
    run = resumed(folder)
    assert len(run.notes) == 1
    assert "the checkpoint after 3 rounds is not whole" in run.notes[0]
    assert same_results(folder, whole) == []


@pytest.mark.parametrize("changes", [{"seed": 8}, {"lr": 0.01}], ids=["another seed", "another step size"])
def test_checkpoints_of_another_run_are_passed_over_with_a_note(
    tmp_path: Path, whole: RunFolder, changes: dict[str, Any]
) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 3)
    other = interrupted_run(remembering(**changes), tmp_path / "other", 3)
    shutil.copytree(other.path / "checkpoints", folder.path / "checkpoints", dirs_exist_ok=True)
    run = resumed(folder)
    assert [note for note in run.notes if "the checkpoint after 3 rounds is not used: it is of another run" in note]
    assert same_results(folder, whole) == []


def test_a_checkpoint_of_another_playing_of_the_same_run_is_passed_over(tmp_path: Path, whole: RunFolder) -> None:
    folder, other = (interrupted_run(remembering(), tmp_path / name, 3) for name in ("run", "other"))
    for path in (other.path / "checkpoints").glob("000003.*"):
        shutil.copy(path, folder.path / "checkpoints")
    run = resumed(folder)
    assert "it was written after a line with the SHA-256" in run.notes[0]
    assert same_results(folder, whole) == []


def test_a_snapshot_of_another_run_is_refused(tmp_path: Path) -> None:
    measured = remembering(evaluation=Evaluation(measured_rounds=ROUNDS))
    folder = interrupted_run(measured, tmp_path / "run", 3)
    other = interrupted_run(measured.model_copy(update={"seed": 8}), tmp_path / "other", 3)
    shutil.copy(other.path / "snapshots" / "000001.safetensors", folder.path / "snapshots")
    shutil.copy(folder.path / "snapshots" / "000000.safetensors", folder.path / "snapshots" / "000002.safetensors")
    for number in (1, 2):
        with pytest.raises(CorruptRunError, match="belongs to another run, or to another round"):
            folder.snapshot(number)


@pytest.mark.parametrize("name", ["model.safetensors", "summary.json"])
def test_results_that_do_not_fit_the_last_line_are_written_again(tmp_path: Path, whole: RunFolder, name: str) -> None:
    folder = whole_run(remembering(), tmp_path / "run")
    other = whole_run(remembering(seed=8), tmp_path / "other")
    shutil.copy(other.path / name, folder.path / name)
    assert same_results(folder, whole)
    resumed(folder)
    assert same_results(folder, whole) == []


def test_a_run_of_an_old_version_is_continued_as_it_was(tmp_path: Path, whole: RunFolder) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 3)
    as_old_version(folder.path)
    run = resumed(folder)
    assert run.notes == []
    assert {record.previous for record in folder.records()} == {None}
    assert same_results(folder, whole) == []


PARTS = ["config.toml", "rounds.jsonl", "checkpoints", "checkpoints/000003.json", "lock"]


@pytest.mark.parametrize("name", PARTS)
def test_nothing_is_read_or_written_through_a_link(tmp_path: Path, name: str) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 3)
    elsewhere = tmp_path / "elsewhere"
    (folder.path / name).rename(elsewhere)
    (folder.path / name).symlink_to(elsewhere)
    before = [each.read_bytes() for each in ([elsewhere] if elsewhere.is_file() else sorted(elsewhere.iterdir()))]
    if name == "checkpoints/000003.json":  # passed over, as what is damaged
        assert "symbolic link" in resumed(folder).notes[0]
    else:
        with pytest.raises(RunError, match=r"link|no file of its own"):
            resumed(folder)
    after = [each.read_bytes() for each in ([elsewhere] if elsewhere.is_file() else sorted(elsewhere.iterdir()))]
    assert after == before


def test_links_under_names_that_are_about_to_be_written_lead_nobody_astray(tmp_path: Path, whole: RunFolder) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    folder = interrupted_run(remembering(), tmp_path / "run", 3)
    names = ("model.safetensors", "checkpoints/000004.json", "checkpoints/000005.safetensors")
    for name in (*names, *(f"{name}.unfinished" for name in (*names, "summary.json"))):
        (folder.path / name).symlink_to(mine)
    resumed(folder)
    assert mine.read_bytes() == b"mine"
    assert not any(path.is_symlink() for path in folder.path.rglob("*"))
    assert same_results(folder, whole) == []


def test_two_who_resume_at_once_where_locks_do_not_work_do_not_mix_their_lines(
    tmp_path: Path, whole: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network disks grant every lock: the second writer of a round finds that it is there, and stops."""
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    folder = interrupted_run(remembering(), tmp_path / "run", 2)
    first, second = (Run.resume(folder.path, dataset=classes()).play() for _ in range(2))
    assert (next(first).round, next(second).round) == (2, 3)
    with pytest.raises(RunError, match="another process works in the folder"):
        next(first)
    list(second)
    assert same_results(folder, whole) == []


def test_a_folder_that_cannot_be_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    folder = interrupted_run(remembering(), tmp_path / "run", 2)
    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(RunError, match=r"cannot lock .*No locks available; a run needs a folder that can be"):
        resumed(folder)


def test_without_any_checkpoint_a_run_begins_again(tmp_path: Path, whole: RunFolder) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 3)
    for path in (folder.path / "checkpoints").iterdir():
        path.unlink()
    run = resumed(folder)
    assert "no checkpoint can be used" in run.notes[0]
    assert same_results(folder, whole) == []


def test_given_data_must_be_given_again(tmp_path: Path) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 1)
    with pytest.raises(MissingDataError, match=r"'small' was given as an object.*Run.resume"):
        Run.resume(folder.path)


@pytest.mark.parametrize("number", [120, 5])
def test_other_data_are_refused_even_if_they_could_not_be_dealt_out(tmp_path: Path, number: int) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 1)
    data = classes()
    changed = replace(data, features=data.features[:number] + 1.0, labels=data.labels[:number], groups=None)
    with pytest.raises(RunError, match=r"had the SHA-256 .*, those found now have"):
        Run.resume(folder.path, dataset=changed)


def test_data_that_are_named_are_loaded_again(tmp_path: Path) -> None:
    config = RunConfig(
        **{**dict(remembering()), "data": LogisticPoints(num_points=100, dim=4), "model": SoftmaxRegression()}
    )
    expected = Run.start(config, tmp_path / "expected")
    list(expected.play())
    run = Run.start(config, tmp_path / "run")
    list(islice(run.play(), 2))
    again = Run.resume(tmp_path / "run")
    assert again.config.data == LogisticPoints(num_points=100, dim=4)
    del run
    list(again.play())
    assert same_results(again.folder, expected.folder) == []


def test_other_versions_are_noted(tmp_path: Path) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 1)
    path = folder.path / "config.toml"
    path.write_text(path.read_text().replace(f'torch = "{torch.__version__}"', 'torch = "0.1"'))
    run = Run.resume(folder.path, dataset=classes())
    assert run.notes == [f"started with torch 0.1, continued with {torch.__version__}: bits may differ"]


def test_the_engine_that_was_chosen_is_written_down(tmp_path: Path) -> None:
    folder = interrupted_run(remembering(model=SoftmaxRegression()), tmp_path / "run", 0)
    assert 'engine = "stacked"' in folder.config_text()
    assert Run.resume(folder.path, dataset=classes()).config.engine == "stacked"


def test_what_cannot_run_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cohort_size"):
        Run.start(remembering(cohort_size=13), tmp_path / "run", dataset=classes())
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_is_not_written_over(tmp_path: Path, whole: RunFolder) -> None:
    with pytest.raises(RunError, match="holds a run already"):
        Run.start(remembering(), whole.path, dataset=classes())
    with pytest.raises(CorruptRunError, match="does not exist"):
        Run.resume(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text", ["rounds = ", "rounds = 0", "rule = { name = 'krun' }", "[data]\nname = 'digits'\nx = 1"]
)
def test_a_configuration_that_was_spoiled_is_an_error_that_names_the_folder(tmp_path: Path, text: str) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 1)
    (folder.path / "config.toml").write_text(text)
    with pytest.raises(CorruptRunError, match=r"the config.toml of .*run' is not what a run writes"):
        Run.resume(folder.path, dataset=classes())


def test_a_configuration_that_was_cut_off_or_changed_is_an_error_although_it_could_be_read(tmp_path: Path) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 1)
    path, text = folder.path / "config.toml", folder.config_text()
    lines = text.splitlines(keepends=True)
    for length in range(len(lines)):
        path.write_text("".join(lines[:length]))
        with pytest.raises(CorruptRunError, match=r"the config.toml of .*run' is (cut off|not what a run writes)"):
            Run.resume(folder.path, dataset=classes())
    path.write_text(text.replace("lr = ", "lr = 1"))
    with pytest.raises(CorruptRunError, match=r"was changed after the run had started.*steadfed run .*config.toml"):
        Run.resume(folder.path, dataset=classes())
    path.write_text(text)
    assert Run.resume(folder.path, dataset=classes()).notes == []


def test_a_model_whose_code_changed_is_an_error_that_shows_both_sizes(tmp_path: Path) -> None:
    folder = interrupted_run(remembering(), tmp_path / "run", 2)
    state = folder.latest_checkpoint()
    assert state is not None
    with folder.locked():
        folder.save_checkpoint(replace(state, tensors={**state.tensors, "model": torch.zeros(7)}))
    with pytest.raises(RunError, match=r"holds \(7,\); a run continues only with the model it was started with"):
        list(Run.resume(folder.path, dataset=classes()).play())


def test_two_processes_cannot_play_one_run(tmp_path: Path) -> None:
    run = Run.start(remembering(), tmp_path / "run", dataset=classes())
    rest = run.play()
    next(iter(rest))
    with pytest.raises(RunError, match="is working in"):
        next(iter(Run.resume(tmp_path / "run", dataset=classes()).play()))
    rest.close()
