"""What a history proves: every bit of every file counts, and what nobody can prove is said."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from safetensors.torch import load, save
from tests.histories import KEY, measured_config, play, signed_run
from tests.rewriting import as_old_version, change, rewrite, with_config
from tests.same_results import same_results
from tests.server.toy import go_on, toy_run

from steadfed._core.rng import stream
from steadfed._core.signatures import Envelope, SigningKey
from steadfed._core.version import VERSION
from steadfed.errors import CorruptRunError, ParameterError, RunError, SignatureError
from steadfed.runs._writer import RunWriter
from steadfed.server import _checkpoint as checkpoints, _verification as verification
from steadfed.server._folder import RunFolder
from steadfed.server._record import RoundRecord
from steadfed.server._results import rendered
from steadfed.server._signatures import ROUND_TYPE, append_signature, envelopes
from steadfed.server._statements import export_round, verify_statement
from steadfed.server._verification import Proof, Verification, verify_run

FLIPS = 200
OUTCOMES = {
    "configuration": Proof.PROVED,
    "rounds": Proof.PROVED,
    "signatures": Proof.PROVED,
    "checkpoints": Proof.PROVED,
    "snapshots": Proof.PROVED,
    "model": Proof.PROVED,
    "summary": Proof.PROVED,
}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return signed_run(tmp_path_factory.mktemp("history") / "run")


@pytest.fixture
def copied(complete: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(complete.path, tmp_path / "run")
    return RunFolder.open(tmp_path / "run")


def outcomes(found: Verification) -> dict[str, Proof]:
    """Return the worst that was found out about each part."""
    order = [Proof.PROVED, Proof.UNPROVED, Proof.BROKEN]
    worst: dict[str, Proof] = {}
    for finding in found.findings:
        worst[finding.what] = max(finding.outcome, worst.get(finding.what, Proof.PROVED), key=order.index)
    return worst


def words(found: Verification, what: str) -> str:
    return " ".join(finding.words for finding in found.findings if finding.what == what)


def flipped(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def files_of(folder: RunFolder) -> list[Path]:
    """Return every file of a run with something in it; the number of a process in the lock says nothing of the run."""
    return sorted(path for path in folder.path.rglob("*") if path.is_file() and path.name != "lock")


def is_found(path: Path) -> bool:
    """Tell whether the damage of a run is found."""
    try:
        return verify_run(path, KEY.public).broken
    except CorruptRunError:
        return True


def test_a_whole_run_is_proved_part_by_part(complete: RunFolder) -> None:
    found = verify_run(complete.path, KEY.public)
    assert outcomes(found) == OUTCOMES
    assert (found.broken, found.signed, len(found.records)) == (False, True, 3)
    assert len(files_of(complete)) == 14


@pytest.mark.parametrize("seed", range(4))
def test_every_flipped_bit_of_every_file_is_found(copied: RunFolder, seed: int) -> None:
    draw, files = stream(seed, "flips"), files_of(copied)
    for _ in range(FLIPS // 4):
        path = files[draw.integers(len(files))]
        bit = int(draw.integers(8 * path.stat().st_size))
        flipped(path, bit)
        assert is_found(copied.path), (path, bit)
        flipped(path, bit)
    assert not verify_run(copied.path, KEY.public).broken


@pytest.mark.slow
def test_every_bit_of_every_file_is_found(copied: RunFolder) -> None:
    for path in files_of(copied):
        for bit in range(8 * path.stat().st_size):
            flipped(path, bit)
            assert is_found(copied.path), (path, bit)
            flipped(path, bit)


@pytest.mark.parametrize("seed", range(4))
def test_no_flipped_bit_leads_to_another_end(tmp_path: Path, seed: int) -> None:
    """Resuming refuses, or comes to the results of the run that nobody touched."""
    whole, draw = toy_run(tmp_path / "whole", 4), stream(seed, "flips")
    refused = 0
    for _ in range(25):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(whole.path, tmp_path / "run")
        files = files_of(RunFolder(tmp_path / "run"))
        path = files[draw.integers(len(files))]
        flipped(path, int(draw.integers(8 * path.stat().st_size)))
        try:
            go_on(RunFolder.open(tmp_path / "run"), 4)
        except RunError:
            refused += 1
            continue
        differing = same_results(RunFolder.open(tmp_path / "run"), whole)
        assert [each for each in differing if not each.startswith(("snapshots/", "checkpoints/000003"))] == []
    assert refused < 25


Damage = Callable[[list[bytes]], list[bytes]]
LINES: dict[str, Damage] = {
    "first removed": lambda lines: lines[1:],
    "middle removed": lambda lines: [lines[0], *lines[2:]],
    "last removed": lambda lines: lines[:-1],
    "repeated": lambda lines: [lines[0], lines[0], *lines[1:]],
    "last repeated": lambda lines: [*lines, lines[-1]],
    "swapped": lambda lines: [lines[1], lines[0], *lines[2:]],
    "one changed": lambda lines: [lines[0].replace(b'"lr":0.1', b'"lr":0.2'), *lines[1:]],
    "last changed": lambda lines: [*lines[:-1], lines[-1].replace(b'"lr":0.1', b'"lr":0.2')],
    "one without its hash": lambda lines: [lines[0], b'{"round"' + lines[1].partition(b'"round"')[2], *lines[2:]],
    "all gone": lambda _: [],
}


@pytest.mark.parametrize("damage", LINES)
def test_lines_that_were_removed_inserted_moved_or_changed_are_found(copied: RunFolder, damage: str) -> None:
    lines = copied.rounds.read_bytes().splitlines(keepends=True)
    copied.rounds.write_bytes(b"".join(LINES[damage](lines)))
    found = verify_run(copied.path, KEY.public)
    assert found.broken
    assert outcomes(found)["signatures"] is Proof.BROKEN


def test_a_folder_with_its_own_key_proves_less_and_says_so(complete: RunFolder) -> None:
    found = verify_run(complete.path)
    assert outcomes(found) == {**OUTCOMES, "signatures": Proof.UNPROVED}
    assert "Give the server's own with --key" in words(found, "signatures")
    assert not found.signed


def test_a_history_that_somebody_else_signed_is_found_with_the_key_alone(tmp_path: Path) -> None:
    forged = signed_run(tmp_path / "run", key=SigningKey.generate())
    assert not verify_run(forged.path).broken
    found = verify_run(forged.path, KEY.public)
    assert outcomes(found)["signatures"] is Proof.BROKEN
    assert KEY.public.keyid[:16] in words(found, "signatures")


def test_a_key_that_was_swapped_in_the_folder_is_found(copied: RunFolder) -> None:
    copied.public_key.write_bytes(SigningKey.generate().public.to_pem())
    found = verify_run(copied.path)
    assert outcomes(found)["signatures"] is Proof.BROKEN
    assert "swapped" in words(found, "signatures")


def test_signatures_that_were_taken_away_are_missed(copied: RunFolder) -> None:
    copied.signatures.unlink()
    assert outcomes(verify_run(copied.path))["signatures"] is Proof.BROKEN


def test_a_line_that_was_rewritten_with_the_whole_chain_after_it_is_not_signed(copied: RunFolder) -> None:
    change(copied.path, 1, lr=0.5)
    found = verify_run(copied.path, KEY.public)
    assert outcomes(found)["rounds"] is Proof.PROVED, "the chain alone does not tell"
    assert "line 2 of" in words(found, "signatures")
    assert found.broken


def test_a_run_without_signatures_says_that_nobody_can_tell(tmp_path: Path) -> None:
    folder = signed_run(tmp_path / "run", key=None)
    found = verify_run(folder.path)
    assert outcomes(found) == {**OUTCOMES, "signatures": Proof.UNPROVED}
    assert "could have made all of it" in words(found, "signatures")
    assert outcomes(verify_run(folder.path, KEY.public))["signatures"] is Proof.BROKEN


def test_a_run_of_an_old_version_is_read_and_said_to_be_unprotected(copied: RunFolder) -> None:
    as_old_version(copied.path)
    assert len(list(copied.records())) == 3
    found = verify_run(copied.path)
    assert outcomes(found)["rounds"] is Proof.UNPROVED
    assert "old version" in words(found, "rounds")


def test_the_last_line_may_wait_for_its_signature_after_a_crash_and_no_longer(tmp_path: Path) -> None:
    folder = signed_run(tmp_path / "run", 2, of=4)
    record = next(folder.records()).model_copy(update={"round": 2, "model_before": None})
    record = record.model_copy(update={"model_before": list(folder.records())[-1].model_after})
    folder.append(record)
    found = verify_run(folder.path, KEY.public)
    assert not found.broken
    assert "line 3 is not signed" in words(found, "signatures")
    folder.append(record.model_copy(update={"round": 3, "model_before": record.model_after}))
    assert outcomes(verify_run(folder.path, KEY.public))["signatures"] is Proof.BROKEN


def test_a_line_that_nobody_signed_vouches_for_nothing_after_it(copied: RunFolder) -> None:
    """Whoever takes the end away, signature included, can write another last line; nothing may be built on it."""
    path, signatures = copied.path, copied.signatures.read_bytes().splitlines(keepends=True)
    records = list(copied.records())
    (path / "summary.json").unlink()
    rewrite(path, [*records[:2], records[2].model_copy(update={"lr": 7.5})])
    copied.signatures.write_bytes(b"".join(signatures[:2]))
    assert outcomes(verify_run(path, KEY.public))["signatures"] is Proof.BROKEN, "the model is there"
    (path / "model.safetensors").unlink()
    found = verify_run(path, KEY.public)
    assert (found.broken, found.signed, found.wholly_signed) == (False, True, False)
    assert "nothing vouches for it" in words(found, "signatures")


def test_a_summary_of_another_version_must_agree_where_both_count_the_same(copied: RunFolder) -> None:
    summary = json.loads((copied.path / "summary.json").read_text())
    text = copied.config_text().replace(f'steadfed = "{VERSION}"', 'steadfed = "0.0.1"')
    with_config(copied.path, text)
    head = RunFolder.open(copied.path).head()
    for change_in, outcome in ({"newer": 5}, Proof.UNPROVED), ({"rounds": 2}, Proof.BROKEN):
        (copied.path / "summary.json").write_bytes(rendered({**summary, **change_in, "head": head}))
        assert outcomes(verify_run(copied.path))["summary"] is outcome


def test_a_model_with_a_second_array_of_one_name_is_found(copied: RunFolder) -> None:
    place = copied.path / "model.safetensors"
    (array,) = load(place.read_bytes()).values()
    place.write_bytes(save({"weigh%74": array, "weight": array * 9}))
    assert "an array of the name" in words(verify_run(copied.path, KEY.public), "model")


@pytest.mark.parametrize("name", ["config.toml", "summary.json", "server-signing.pub.pem", "model.safetensors"])
def test_a_file_without_end_is_not_read(copied: RunFolder, name: str) -> None:
    with (copied.path / name).open("r+b") as file:
        file.truncate(1 << 40)
    if name == "config.toml":
        with pytest.raises(CorruptRunError, match="may have"):
            verify_run(copied.path, KEY.public)
    else:
        assert "may have" in " ".join(finding.words for finding in verify_run(copied.path, KEY.public).findings)


def test_a_round_that_is_written_meanwhile_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = signed_run(tmp_path / "run", 2, of=9)
    writer, scratch, seen = RunWriter(measured_config(9), folder, signer=KEY), tmp_path / "scratch", [2]
    check = checkpoints.numbers

    def numbers(place: Path) -> list[int]:
        if seen[0] < 4:  # a round comes between the look at the lines and that at the states
            seen[0] += 1
            play(writer, seen[0] - 1, scratch)
        return check(place)

    monkeypatch.setattr(checkpoints, "numbers", numbers)
    found = verify_run(folder.path, KEY.public)
    assert not found.broken
    assert len(found.records) == 4
    monkeypatch.setattr(verification, "_TRIES", 0)
    with pytest.raises(RunError, match="written faster than it can be checked"):
        verify_run(folder.path, KEY.public)


def test_models_that_do_not_follow_each_other_are_found(tmp_path: Path) -> None:
    folder = signed_run(tmp_path / "run", key=None)
    change(folder.path, 1, model_before="0" * 64)
    assert "sent out 0000" in words(verify_run(folder.path), "rounds")


@pytest.mark.parametrize("name", ["model.safetensors", "rounds.jsonl", "config.toml", "checkpoints", "snapshots"])
def test_links_are_not_followed(copied: RunFolder, name: str) -> None:
    elsewhere = copied.path.with_name("elsewhere")
    (copied.path / name).rename(elsewhere)
    (copied.path / name).symlink_to(elsewhere)
    assert is_found(copied.path)


def test_a_round_is_checked_alone(complete: RunFolder, tmp_path: Path) -> None:
    place = tmp_path / "round.json"
    place.write_text(export_round(complete.path, 1).to_json())
    found = verify_statement(place, KEY.public)
    assert not found.broken
    assert found.records == (list(complete.records())[1],)
    assert verify_statement(place, SigningKey.generate().public).broken
    table = json.loads(place.read_text())
    assert table["payloadType"] == ROUND_TYPE
    for number in (-1, 3):
        with pytest.raises(ParameterError, match="3 signed rounds"):
            export_round(complete.path, number)
    with pytest.raises(ParameterError, match="cannot read"):
        verify_statement(tmp_path / "nowhere", KEY.public)


def test_no_other_statement_of_the_key_is_a_round(tmp_path: Path) -> None:
    place = tmp_path / "order.json"
    line = RoundRecord(round=0, step=1, lr=0.1, cohort=("a",)).to_line().encode()
    place.write_text(KEY.seal("application/vnd.steadfed.order+json", line).to_json())
    assert verify_statement(place, KEY.public).broken


@settings(max_examples=60)
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_whatever_lies_in_the_file_of_a_round_is_broken_or_signed(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    place = tmp_path_factory.getbasetemp() / "fuzzed.json"
    place.write_bytes(content)
    assert verify_statement(place, KEY.public).broken


@settings(max_examples=60)
@given(st.binary(max_size=200), st.sampled_from(["signatures.jsonl", "summary.json", "server-signing.pub.pem"]))
def test_whatever_lies_in_a_file_beside_the_lines_is_broken_and_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    place = tmp_path_factory.getbasetemp() / "fuzzed"
    if not place.exists():
        signed_run(place, 2)
    before = (place / name).read_bytes()
    (place / name).write_bytes(content)
    try:
        assert verify_run(place, KEY.public).broken
    finally:
        (place / name).write_bytes(before)


@given(st.integers(0, 2**512 - 1), st.text(max_size=20))
def test_a_signature_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, number: int, text: str
) -> None:
    lines = tmp_path_factory.mktemp("signatures") / "rounds.jsonl"
    line = json.dumps([number % 97, text]).encode()
    lines.write_bytes(line + b"\n")
    (lines.parent / "signatures.jsonl").write_bytes(b"")
    append_signature(lines.parent / "signatures.jsonl", KEY, line)
    (envelope,) = envelopes(lines, lines.parent / "signatures.jsonl")
    assert Envelope.from_json(envelope.to_json()).open(KEY.public, ROUND_TYPE) == line
    with pytest.raises(SignatureError):
        envelope.open(SigningKey.generate().public, ROUND_TYPE)


def test_a_torn_signature_is_not_written_after(tmp_path: Path) -> None:
    folder = signed_run(tmp_path / "run", 2, of=4)
    with folder.signatures.open("ab") as file:
        file.write(b'{"keyid":"')
    with pytest.raises(RunError, match=r"signatures\.jsonl ends in the middle of a line"):
        play(RunWriter(measured_config(4), folder, signer=KEY), 2, tmp_path)


def test_histories_are_checked_without_torch_and_flower() -> None:
    code = (
        "import sys, steadfed._cli.verify, steadfed.server._verification, steadfed.reports._sections.verification\n"
        "import steadfed.reports._render.terminal, steadfed.reports._sections.round\n"
        "sys.exit(bool({'torch', 'flwr'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603
