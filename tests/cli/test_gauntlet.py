"""`steadfed gauntlet`, as a user meets it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.commands import refused, run

from steadfed.reports._gauntlet import gauntlet_ranking
from steadfed.reports._render import terminal
from steadfed.sweeps.matrices import ranking, read_records


def test_gauntlet_ranks_rules_and_says_where_rage_is_not_the_best(tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    options = ("--rules", "rage,median,krum", "--attacks", "none,nan,alie", "--populations", "iso", "--dims", "5,50")
    cohort = ("--cohort-sizes", "12", "--byzantine-fractions", "0.25")
    output = run("gauntlet", *options, *cohort, "--out", str(out))
    for word in ("worst", "d=50", "krum", "rage", "18 records", "at least f/(K − 2f)"):
        assert word in output
    again = json.loads(run("gauntlet", *options, *cohort, "--out", str(out), "--json"))
    assert {each["rule"] for each in again} == {"rage", "median", "krum"}
    assert len(out.read_text().splitlines()) == 18
    assert all(0.0 < each["trace_coefficient"] <= each["spectral_coefficient"] for each in again)
    assert json.loads(run("gauntlet", "--show", str(out), "--json")) == again


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "ful"), "did you mean 'full'"),
        (("--rules", "krumm"), "did you mean 'krum'"),
        (("--dims", "ten"), "--dims takes whole numbers"),
        (("--byzantine-fractions", "0.7"), "less than 0.5"),
        (("--out", "/nowhere/records.jsonl"), "cannot write to"),
        (("--populations", "file:nowhere.npy"), "cannot read 'nowhere.npy'"),
    ],
)
def test_gauntlet_refuses_what_it_cannot_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, monkeypatch, "gauntlet", *options)


def test_gauntlet_fits_a_narrow_terminal_and_says_what_is_not_there(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    options = ("--rules", "rage,krum", "--attacks", "alie", "--populations", "iso", "--dims", "4,1000")
    run("gauntlet", *options, "--cohort-sizes", "4", "--byzantine-fractions", "0.25", "--out", str(out))
    records = read_records(out)
    narrow = Console(width=80, record=True, file=io.StringIO())
    terminal.show(gauntlet_ranking(ranking(records)), console=narrow)
    text = narrow.export_text()
    assert "…" not in text
    assert "nan" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "refused every matrix" in {row[-1] for row in gauntlet_ranking(ranking(records)).rows}
    assert "worst case of" not in run("gauntlet", "--rules", "rage", *options[2:6], "--dims", "4")

    def no_such(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    krum = json.loads(run("gauntlet", "--show", str(out), "--json"), parse_constant=no_such)[1]
    assert (krum["rule"], krum["mean_error"], krum["num_refused"]) == ("krum", None, 2)
