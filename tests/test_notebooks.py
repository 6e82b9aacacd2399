"""Notebooks cannot drift: their cells run, in this process, and show what they say they show."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

from steadfed import errors

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))
_notebooks = import_module("notebooks")
NOTEBOOKS = sorted(ROOT.glob("docs/**/*.ipynb"))


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_cells_of_a_notebook_run_and_show_what_is_kept(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("polars", "matplotlib", "jinja2", "plotly"):
        pytest.importorskip(needed)
    monkeypatch.chdir(tmp_path)
    kept = json.loads(path.read_text(encoding="utf-8"))
    again = _notebooks.played(path)
    assert _notebooks.plain(again) == _notebooks.plain(kept), "run `python docs/notebooks.py` on it"
    kinds = [[sorted(output.get("data", {})) for output in cell.get("outputs", ())] for cell in kept["cells"]]
    assert kinds == [[sorted(output.get("data", {})) for output in cell.get("outputs", ())] for cell in again["cells"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_page_of_a_notebook_has_its_words_its_code_and_what_it_shows(path: Path) -> None:
    page, notebook = _notebooks.markdown(path), json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        assert "".join(cell["source"]) in page
    assert page.count("```") % 2 == 0
    assert "data:image/png;base64," in page


def test_what_a_cell_raises_names_the_cell(tmp_path: Path) -> None:
    path = tmp_path / "wrong.ipynb"
    cell = {"cell_type": "code", "source": ["import steadfed\n", "steadfed.RULES['krumm']"], "outputs": []}
    path.write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(errors.UnknownNameError) as raised:
        _notebooks.played(path)
    assert any("wrong.ipynb, cell 1" in str(entry.path) for entry in raised.traceback)
