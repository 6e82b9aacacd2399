"""`steadfed verify`, as somebody meets it who was not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.commands import refused, run
from tests.deployments import BROKEN, LIAR
from tests.histories import KEY, signed_run
from typer.testing import CliRunner

from steadfed._cli.app import app
from steadfed._core.signatures import SigningKey


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a signed deployment; do not change it."""
    return signed_run(tmp_path_factory.mktemp("verify") / "run").path


@pytest.fixture
def key(tmp_path: Path) -> str:
    """Return the file of the server's public key."""
    (tmp_path / "server.pub.pem").write_bytes(KEY.public.to_pem())
    return str(tmp_path / "server.pub.pem")


NAMED = ("model_before", "model_after", "state_after", "previous")


def broken(*arguments: str) -> str:
    """Return what a command prints that must end with exit code 1."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"}, catch_exceptions=False)
    assert result.exit_code == 1, result.output
    return " ".join(result.stdout.split())


def test_a_whole_history_is_proved_in_plain_words(path: Path, key: str) -> None:
    output = " ".join(run("verify", str(path), "--key", key).split())
    assert "What the lines say was not changed since they were written" in output
    assert "nothing but their own hashes vouches for them" in output
    assert "not that it is true" in output
    assert f"{LIAR}, {BROKEN}" in output
    assert "BROKEN" not in output


def test_it_says_what_no_signature_vouches_for(path: Path, key: str) -> None:
    told = " ".join(run("verify", str(path), "--key", key).split())
    assert "names line 3, which names it" in told
    assert "Not signed are models kept on the way: nothing but their own hashes" in told


def test_without_the_key_it_says_what_is_not_proved(path: Path) -> None:
    output = " ".join(run("verify", str(path)).split())
    assert "signatures │ not proved" in output
    assert "What is not proved is said above" in output


def test_a_round_in_full_has_every_hash_and_why_somebody_was_removed(path: Path, key: str) -> None:
    output = run("verify", str(path), "--key", key, "--round", "1")
    record = json.loads((path / "rounds.jsonl").read_text().splitlines()[1])
    for digest in (*(record[name] for name in NAMED), *record["reply_digests"]):
        assert digest in output
    assert "malformed" in output
    assert "removed" in output


def test_json_has_everything(path: Path, key: str) -> None:
    table = json.loads(run("verify", str(path), "--key", key, "--json"))
    assert (table["broken"], len(table["rounds"])) == (False, 3)
    assert {finding["outcome"] for finding in table["findings"]} == {"proved"}
    assert len(json.loads(run("verify", str(path), "--key", key, "--json", "--round", "2"))["rounds"]) == 1


def test_what_was_changed_is_named_with_exit_code_1(path: Path, key: str, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "run")
    file = tmp_path / "run" / "rounds.jsonl"
    file.write_text(file.read_text().replace('"weights":[0.0', '"weights":[0.1', 1))
    assert "This is not what the run has written" in broken("verify", str(tmp_path / "run"), "--key", key)
    assert "rounds.jsonl does not follow from line 1" in broken("verify", str(tmp_path / "run"), "--json")
    for command in ("show", "audit"):
        result = CliRunner().invoke(app, [command, str(tmp_path / "run")])
        assert "does not follow from line 1" in str(result.exception)


def test_one_round_is_handed_on_and_checked_alone(
    path: Path, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "round.json")
    run("verify", str(path), "--key", key, "--round", "1", "--export", file)
    output = " ".join(run("verify", file, "--key", key).split())
    assert "round 1 was written so by the server" in output
    assert f"reply of {BROKEN}" in output
    assert "proves nothing without --key" in refused(capsys, monkeypatch, "verify", file)
    (tmp_path / "other.pem").write_bytes(SigningKey.generate().public.to_pem())
    assert "not signed with the key that is trusted" in broken("verify", file, "--key", str(tmp_path / "other.pem"))


def test_what_cannot_be_asked_is_refused(
    path: Path, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, complaint in {
        (str(tmp_path / "nowhere"),): "does not exist",
        (str(path), "--round", "3"): "has 3 rounds, counted from 0; got --round 3",
        (str(path), "--export", "x"): "say which with --round",
        (str(path), "--round", "3", "--export", "x"): "holds 3 signed rounds",
        (str(path), "--round", "1", "--export", str(tmp_path / "no" / "x")): "cannot write",
        (str(path), "--key", str(path / "config.toml")): "must hold a public key",
        (str(path.parent),): "is not a run but holds 1 run",
    }.items():
        assert complaint in refused(capsys, monkeypatch, "verify", *arguments)
    assert not Path("x").exists()
