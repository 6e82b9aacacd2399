"""What the addresses of the live page answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.ui.folders import append, begun, played, record
from tests.ui.visits import app_over, visit

from steadfed._ui.assets import OWN, PLOTLY, SHARED
from steadfed._ui.catalogue import id_of
from steadfed._ui.views import MOST_COMPARED
from steadfed.server._history import files
from steadfed.server._reading import LARGEST


@pytest.mark.parametrize("path", ["/", "/run/whatever", "/compare?runs=a,b"])
def test_pages_are_one_file_without_a_word_from_outside(tmp_path: Path, path: str) -> None:
    answer = visit(app_over(tmp_path), path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "whatever" not in answer.text
    assert "http" not in answer.text


@pytest.mark.parametrize("name", [*OWN, *SHARED, PLOTLY])
def test_every_file_is_sent_once(tmp_path: Path, name: str) -> None:
    app = app_over(tmp_path)
    first = visit(app, f"/static/{name}")
    assert first.status_code == 200
    again = visit(app, f"/static/{name}", if_none_match=first.headers["etag"])
    assert again.status_code == 304
    assert again.content == b""


def test_browsers_that_guess_where_the_icon_is_are_led_there(tmp_path: Path) -> None:
    answer = visit(app_over(tmp_path), "/favicon.ico")
    assert (answer.status_code, answer.headers["location"]) == (308, "/static/icon.svg")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/app.py",
        "/static/",
        "/run/../api/../etc",
        "/report/..%2f..%2fetc%2fpasswd.html",
        "/report/.html",
        "/api/runs/..%2f..%2fetc/panels",
        "/api/runs/%00/panels",
        "/nowhere",
    ],
)
def test_no_path_leads_to_a_file(tmp_path: Path, path: str) -> None:
    answer = visit(app_over(tmp_path), f"http://127.0.0.1:8750{path}")
    assert answer.status_code == 404
    assert "error" in answer.json()


def test_the_list_says_how_far_every_run_is(tmp_path: Path) -> None:
    played(tmp_path / "one", 5, planned=10)
    (run,) = visit(app_over(tmp_path), "/api/runs").json()["runs"]
    assert (run["name"], run["played"], run["planned"], run["state"]) == ("one", 5, 10, "interrupted")
    assert run["rule"] == "rage(num_byzantine=2)"
    assert run["attack"] == "sign-flip"
    assert 0 < run["accuracy"] <= run["best"] < 1


def test_a_wrong_question_is_answered_with_what_is_allowed(tmp_path: Path) -> None:
    answer = visit(app_over(tmp_path), "/api/runs?sort=nme")
    assert answer.status_code == 400
    assert "did you mean 'name'" in answer.json()["error"]


def test_a_folder_that_is_not_there_is_an_empty_list(tmp_path: Path) -> None:
    answer = visit(app_over(tmp_path / "later"), "/api/runs").json()
    assert (answer["runs"], answer["total"], answer["pages"]) == ([], 0, 1)


def test_the_page_of_a_run_has_curves_a_heat_map_and_a_table(tmp_path: Path) -> None:
    played(tmp_path / "one", 5)
    page = visit(app_over(tmp_path), f"/api/runs/{id_of('one')}/panels").json()
    assert page["head"]["title"] == "one"
    kinds = {key: panel["kind"] for key, panel in page["panels"].items()}
    assert (kinds["accuracy"], kinds["weights"], kinds["suspicion"]) == ("lines", "heat-map", "table")
    assert [key for section in page["head"]["sections"] for key in section["panels"]] == list(kinds)
    assert page["panels"]["accuracy"]["figure"]["data"][0]["x"] == [0, 1, 2, 3, 4]


def test_the_page_follows_a_run_that_grows_is_damaged_and_goes(tmp_path: Path) -> None:
    folder = begun(tmp_path / "one")
    app, address = app_over(tmp_path), f"/api/runs/{id_of('one')}/panels"
    assert visit(app, address).json()["head"]["runs"][0]["played"] == 0
    append(folder, range(3))
    assert visit(app, address).json()["head"]["runs"][0]["played"] == 3
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write("nonsense\n")
    assert visit(app, address).json()["head"]["runs"][0]["state"] == "damaged"
    shutil.rmtree(folder.path)
    assert visit(app, address).status_code == 404
    played(tmp_path / "one", 2)
    assert visit(app, address).json()["head"]["runs"][0]["played"] == 2


def test_runs_are_shown_side_by_side(tmp_path: Path) -> None:
    played(tmp_path / "one", 5)
    played(tmp_path / "two", 3, rule="krum")
    page = visit(app_over(tmp_path), f"/api/runs/{id_of('one')},{id_of('two')}/panels").json()
    names = [trace["name"] for trace in page["panels"]["accuracy"]["figure"]["data"]]
    assert len(names) == 2
    assert [run["name"] for run in page["head"]["runs"]] == ["one", "two"]
    assert visit(app_over(tmp_path), f"/api/runs/{id_of('one')},nobody/panels").status_code == 404


def test_too_many_runs_side_by_side_are_refused(tmp_path: Path) -> None:
    many = ",".join(f"{number}" for number in range(MOST_COMPARED + 1))
    answer = visit(app_over(tmp_path), f"/api/runs/{many}/panels")
    assert answer.status_code == 400
    assert f"at most {MOST_COMPARED}" in answer.json()["error"]


def test_a_report_is_whole_made_once_and_made_again_after_a_round(tmp_path: Path) -> None:
    folder = played(tmp_path / "one & <only>", 3)
    app, address = app_over(tmp_path), f"/report/{id_of('one & <only>')}.html"
    first = visit(app, address)
    assert first.headers["content-disposition"] == 'attachment; filename="one-only.html"'
    assert first.text.startswith("<!doctype html>")
    assert visit(app, address).content == first.content
    append(folder, range(3, 4))
    assert visit(app, address).content != first.content
    assert visit(app, "/report/nobody.html").status_code == 404


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[data]\nname = "digits"', '[data]\nname = "torch-dataset"\nfactory = "evil_code:train"'),
        ("[data]", '[model]\nname = "import"\nfactory = "evil_code:Model"\ncriterion = "evil_code:Loss"\n[data]'),
        ('name = "digits"', 'name = "hugging-face"\npath = "evil_code"'),
        ('name = "rage"', 'name = "evil_code:Rule"'),
    ],
)
def test_a_page_and_its_report_run_no_code_of_a_run(tmp_path: Path, before: str, after: str) -> None:
    marker, code, folder = tmp_path / "ran", tmp_path / "runs" / "evil_code.py", begun(tmp_path / "runs" / "one")
    code.write_text(f"open({str(marker)!r}, 'w')\n")
    config = folder.path / "config.toml"
    config.write_text(config.read_text().replace(before, after))
    append(folder, range(3))
    app = app_over(tmp_path / "runs")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(code.parent))
        patched.chdir(code.parent)
        assert visit(app, f"/report/{id_of('one')}.html").status_code == 200
        assert visit(app, f"/api/runs/{id_of('one')}/panels").status_code == 200
        assert visit(app, "/api/runs").status_code == 200
    assert not marker.exists()


HARM = {
    "nested": ("config.toml", "a = " + "[" * 50_000),
    "deep": ("config.toml", "[rule" + ".a" * 500 + "]"),
    "chain": ("config.toml", "a" + ".a" * 500_000 + " = 1"),
    "chain of texts": ("config.toml", "rounds = 3\n[" + "'a=' . " * 500_000 + "a]"),
    "decimal": ("config.toml", "rounds = " + "9" * 5_000),
    "hexadecimal": ("config.toml", "rounds = 0x" + "f" * 50_000),
    "rule": ("config.toml", "rule = 0x" + "f" * 50_000),
    "huge": ("config.toml", "# " + "x" * LARGEST),
    "not finite": (
        "summary.json",
        '{"rounds": 3, "last": {"test_accuracy": NaN}, "best": {"test_accuracy": 1e999}}',
    ),
    "words": ("summary.json", '{"rounds": 3, "last": {"test_accuracy": "<b>"}, "best": {"test_accuracy": {}}}'),
    "endless": ("summary.json", '{"rounds": 1e999, "last": {}, "best": {}}'),
    "many": ("summary.json", '{"rounds": ' + "9" * 4_000 + ', "last": {}, "best": {}}'),
    "lists": ("summary.json", "[" * 50_000),
    "beyond": ("rounds.jsonl", '{"round": 0, "test_accuracy":1e999}\n'),
    "dots": ("rounds.jsonl", '{"round": 0, "test_accuracy":1.2.3}\n'),
    "bytes": ("rounds.jsonl", record(0).to_line().replace('"bytes_up":20800', '"bytes_up":1' + "0" * 400)),
    "process": ("lock", "9" * 30),
}


@pytest.mark.parametrize("name", HARM)
def test_one_run_that_is_meant_to_harm_leaves_the_list_and_its_own_page_as_they_are(tmp_path: Path, name: str) -> None:
    file, text = HARM[name]
    played(tmp_path / "good", 3)
    (played(tmp_path / "bad", 3).path / file).write_text(text)
    app = app_over(tmp_path)
    for sort in ("name", "progress", "accuracy", "rule"):
        assert len(visit(app, f"/api/runs?sort={sort}").json()["runs"]) == 2
    assert visit(app, f"/api/runs/{id_of('bad')}/panels").status_code == 200
    assert visit(app, f"/report/{id_of('bad')}.html").status_code == 200


def test_a_line_longer_than_any_round_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 5_000)
    folder = played(tmp_path / "one", 3)
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write("x" * 6_000)
    app = app_over(tmp_path)
    (run,) = visit(app, "/api/runs").json()["runs"]
    assert (run["state"], run["played"]) == ("damaged", 3)
    page = visit(app, f"/api/runs/{id_of('one')}/panels").json()
    assert "line 4" in page["panels"]["problems"]["paragraphs"][0]
    assert page["head"]["runs"][0]["played"] == 3
